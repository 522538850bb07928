"""What is made of given days: the same days of their step, and every period that reads them, over all steps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, timedelta

from backfill_assets.build import decide
from backfill_assets.datasets.dataset import Reads, Step
from backfill_assets.days import DayRange
from backfill_assets.lakehouse.observed import Observed

Days = Mapping[str, Collection[date]]
"""Days by table; of a weekly or monthly table the first days of its periods."""


def downstream(
    steps: Sequence[Step],
    observed: Observed,
    days: Days,
    has_partition: Callable[[str, date], bool],
    *,
    strictly: bool = False,
) -> dict[str, set[date]]:
    """``days`` and everything made of them that is published or can be built; ``strictly``: only what is made of them.

    ``steps`` are in build order and contain whatever they read. Tables that are built together come together.
    """
    all_days: dict[str, set[date]] = {}
    made: dict[str, set[date]] = {}
    published = published_days(observed)
    for step in steps:
        given = {day for table in step.tables for day in days.get(table.name, ())}
        reached = {
            day
            for day in _reached(step, all_days)
            if has_partition(step.name, day) and (_there(step, day, published) or buildable(step, day, published))
        }
        published |= {(table.name, str(day)) for table in step.tables for day in given | reached}
        if given | reached:
            all_days |= {table.name: given | reached for table in step.tables}
        if reached:
            made |= {table.name: reached for table in step.tables}
    return made if strictly else all_days


def buildable(step: Step, day: date, published: Collection[tuple[str, str]]) -> bool:
    """Every input day that is needed was published; ``published`` has tables and days."""
    return step.source is None and not decide.without_inputs(step, step.version(), [day], published)


def _there(step: Step, day: date, published: Collection[tuple[str, str]]) -> bool:
    return any((table.name, str(day)) in published for table in step.tables)


def _reached(step: Step, changed: Days) -> set[date]:
    """The periods of ``step`` that read one of the changed days."""
    if step.source is not None:
        return set()
    read_at = {at for read in step.version().reads for day in changed.get(read.table, ()) for at in _readers(read, day)}
    return set(step.cadence.starts(read_at))


def _readers(read: Reads, day: date) -> DayRange:
    """The days on which a period that reads ``day`` has to lie at least in part."""
    return DayRange(day - timedelta(days=read.last), day - timedelta(days=read.first))


def published_days(observed: Observed) -> set[tuple[str, str]]:
    """Table and day of everything that is published."""
    return {key for key, state in observed.states.items() if state.content is not None}
