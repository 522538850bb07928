"""What given days are computed from: the days that their steps read, over all steps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date

from backfill_assets.datasets.dataset import Reads, Step
from backfill_assets.days import Cadence


def read_by(step: Step, days: Collection[date], *, exactly: bool = False) -> dict[str, set[date]]:
    """The days of every table that building ``days`` of ``step`` reads.

    ``exactly`` leaves out what may be absent: the days of a look back, and of a period that is read in part.
    """
    found: dict[str, set[date]] = {}
    if step.source is None:
        for read in step.version().reads:
            if not exactly or (read.first == read.last == 0 and not read.partial):
                found.setdefault(read.table, set()).update(_days(step, read, days))
    return found


def upstream(
    steps: Sequence[Step], target: Step, days: Collection[date], *, exactly: bool = False
) -> dict[str, set[date]]:
    """All that ``days`` of ``target`` are computed from, by step; ``steps`` are in build order."""
    by_table: dict[str, set[date]] = read_by(target, days, exactly=exactly)
    found: dict[str, set[date]] = {}
    for step in reversed(steps):
        needed = set().union(*(by_table.get(table.name, set()) for table in step.tables))
        if needed and step is not target:
            found[step.name] = set(step.cadence.starts(needed))
            for table, read in read_by(step, found[step.name], exactly=exactly).items():
                by_table.setdefault(table, set()).update(read)
    return found


def _days(step: Step, read: Reads, days: Collection[date]) -> Iterable[date]:
    # By ordinals and not through DayRange, which would take most of the time over tens of thousands of days.
    if step.cadence is Cadence.DAILY:
        ends = [(day.toordinal(), day.toordinal()) for day in days]
    else:
        ends = [(day.toordinal(), step.cadence.period(day).last.toordinal()) for day in days]
    return map(date.fromordinal, {n for first, last in ends for n in range(first + read.first, last + read.last + 1)})
