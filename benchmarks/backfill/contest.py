"""Contenders in turn, each run in a process of its own; a time counts only if the tables are equal afterwards.

Each round begins with another contender: what comes first, or after a certain other one, is not always the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.backfill.totals import Totals, of_tables

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from backfill_assets.days import DayRange
    from benchmarks.backfill.timed import Timed


@dataclass(frozen=True)
class Contender:
    """``prepare`` is not counted: it makes the tables that ``run`` then computes again."""

    name: str
    run: Callable[[], Timed]
    tables: Callable[[], Mapping[str, ds.Dataset]]
    prepare: Callable[[], object] = lambda: None
    most_rounds: int = 100
    own_hashes: bool = False
    """Whether its content hashes are of another function, and cannot be compared."""


@dataclass(frozen=True)
class Result:
    """The runs of each contender that could be run, what all of them computed, and why others could not."""

    runs: Mapping[str, list[Timed]]
    totals: Totals
    absent: Mapping[str, str]


def contest(contenders: Sequence[Contender], days: DayRange, rounds: int) -> Result:
    """Every contender in turn, ``rounds`` times. The tables of the very first run are the yardstick of what is right.

    Raises ``ValueError`` when another one's tables differ, before any time of that round is printed. A contender that
    cannot be prepared is left out, and named.
    """
    absent = _prepare(contenders)
    taking_part = [contender for contender in contenders if contender.name not in absent]
    if not taking_part:
        raise ValueError("No contender could take part.")
    runs: dict[str, list[Timed]] = {contender.name: [] for contender in taking_part}
    right: Totals | None = None
    for number in range(rounds):
        said = []
        for contender in in_turn(taking_part, number):
            if number < contender.most_rounds:
                run = contender.run()
                found = of_tables(contender.tables(), days, own_hashes=contender.own_hashes)
                right = right or found
                if not found.agrees_with(right):
                    raise ValueError(f"{contender.name} computed {found}; others computed {right}.")
                runs[contender.name].append(run)
                said.append(f"{contender.name} {run.seconds:.1f} s, CPU {run.cpu_seconds:.1f} s; {found}")
        for line in said:
            _say(f"round {number + 1}: {line}")
    assert right
    return Result(runs, right, absent)


def _prepare(contenders: Sequence[Contender]) -> dict[str, str]:
    """Why the others cannot take part."""
    absent: dict[str, str] = {}
    for contender in contenders:
        _say(f"preparing {contender.name}")
        try:
            contender.prepare()
        except RuntimeError as error:
            absent[contender.name] = str(error)
            _say(str(error))
    return absent


def in_turn(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """All of them, beginning one place further on in each round."""
    first = number % len(contenders)
    return [*contenders[first:], *contenders[:first]]


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
