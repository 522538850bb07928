"""Contenders in turn, each run in a process of its own; a time counts only if the tables are equal afterwards."""

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


@dataclass(frozen=True)
class Result:
    """The runs of each contender that could be run, what all of them computed, and why others could not."""

    runs: Mapping[str, list[Timed]]
    totals: Totals
    absent: Mapping[str, str]


def contest(contenders: Sequence[Contender], days: DayRange, rounds: int) -> Result:
    """Every contender in turn, ``rounds`` times. The first one is the yardstick of what is right.

    Raises ``ValueError`` when another one's tables differ. A contender that cannot be prepared is left out, and named.
    """
    absent: dict[str, str] = {}
    for contender in contenders:
        _say(f"preparing {contender.name}")
        try:
            contender.prepare()
        except RuntimeError as error:
            absent[contender.name] = str(error)
            _say(str(error))
    taking_part = [contender for contender in contenders if contender.name not in absent]
    runs: dict[str, list[Timed]] = {contender.name: [] for contender in taking_part}
    right: Totals | None = None
    for number in range(rounds):
        for contender in taking_part:
            if number < contender.most_rounds:
                run = contender.run()
                found = of_tables(contender.tables(), days)
                right = right or found
                if found != right:
                    raise ValueError(f"{contender.name} computed {found}; {taking_part[0].name} computed {right}.")
                runs[contender.name].append(run)
                _say(f"round {number + 1}: {contender.name} {run.seconds:.1f} s, CPU {run.cpu_seconds:.1f} s; {found}")
    if right is None:
        raise ValueError("No contender could take part.")
    return Result(runs, right, absent)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
