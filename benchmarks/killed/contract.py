"""What each of those who are compared is asked, and the lines by which its processes tell what they did.

Imports nothing that is not in every interpreter: each process runs in that of its contender.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Protocol

TABLES = ("fact", "daily_report", "store_report")
FIRST = date(2017, 3, 1)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(8))
LAST = DAYS[-1]
ROWS = 20
"""Of each day of each table. A rewrite gives them all one tag, which is its name."""
Held = Mapping[str, Mapping[str, str | None]]
"""By table and day the tag of its rows, None where there are none, and words where they are of several rewrites."""
_PAUSE_SECONDS = 0.05
"""Between the reads of a reader."""


class Contender(Protocol):
    """One way to rewrite days of several tables, as its documentation recommends it."""

    def set_up(self) -> None:
        """Empty tables."""

    def reads(self) -> Mapping[str, Callable[[], Held]]:
        """How all tables are read, ``pinned`` by what it recommends for that; perhaps also ``past the log``."""

    def rewrite(self, tag: str) -> None:
        """All days of all tables. Says :func:`replaces` when about to write, :func:`commits` before that is seen."""

    def routine(self) -> None:
        """What runs anyway, so that nobody has to think of it."""

    def litter(self) -> int:
        """Data files that no state of the tables names, and that are there for good unless they are removed."""


def held(rows: Iterable[tuple[str, date, str, int]]) -> Held:
    """What is there, from counted rows: table, day, tag, number."""
    found: dict[str, dict[str, list[tuple[str, int]]]] = {table: {str(day): [] for day in DAYS} for table in TABLES}
    for table, day, tag, number in rows:
        found[table][str(day)].append((tag, number))
    return {table: {day: _value(tags) for day, tags in days.items()} for table, days in found.items()}


def _value(tags: list[tuple[str, int]]) -> str | None:
    if not tags:
        return None
    if [number for _, number in tags] == [ROWS]:
        return tags[0][0]
    return " and ".join(f"{number} of {ROWS} rows of {tag}" for tag, number in sorted(tags))


def rows_of(tag: str) -> list[tuple[date, str]]:
    """Those of each table, after such a rewrite."""
    return [(day, tag) for day in DAYS for _ in range(ROWS)]


def replaces(values: Held) -> None:
    """To be said just before writing: what the rewrite is about to replace, as its process knows it."""
    _say(replaces=values)


def commits() -> None:
    """To be said when what was made ready is about to be seen by readers."""
    _say(commits=True)


def main(make: Callable[[Path], Contender]) -> None:
    """``set-up``, ``rewrite TAG``, ``read HOW``, ``routine`` or ``litter``, of the contender that lives in a folder."""
    action, home, *words = sys.argv[1:]
    if action == "read":
        _read(make, Path(home), *words)
        return
    contender = make(Path(home))
    _say(begins=True)
    if action == "rewrite":
        contender.rewrite(*words)
        _say(done=True)
    elif action == "litter":
        _say(litter=contender.litter())
    else:
        {"set-up": contender.set_up, "routine": contender.routine}[action]()


def _read(make: Callable[[Path], Contender], home: Path, how: str, times: str = "") -> None:
    """Until it is killed, or so many times."""
    read, left = make(home).reads()[how], int(times) if times else -1
    while left:
        began = time.monotonic_ns()
        try:
            values = read()
        except Exception as error:
            _say(refused=f"{type(error).__name__}: {error}"[:300])
        else:
            _say(began=began, ended=time.monotonic_ns(), reads=values)
            left -= 1
        time.sleep(_PAUSE_SECONDS)


def _say(**told: Any) -> None:
    print(json.dumps({**told, "at": time.monotonic_ns()}), flush=True)
