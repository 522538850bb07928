"""What is made of given days: the same days of their step, and every period that reads them, over all steps. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date

from backfill_assets.build import decide
from backfill_assets.datasets.dataset import Step, Version
from backfill_assets.days import Cadence
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

    ``steps`` are in build order and contain whatever they read. Tables that are built together come together. A
    published day is made of what the version reads that it was published with.
    """
    all_days: dict[str, set[date]] = {}
    made: dict[str, set[date]] = {}
    published = published_days(observed)
    for step in steps:
        given = {day for table in step.tables for day in days.get(table.name, ())}
        around = {day for day in reading_as_published(step, all_days, observed) if has_partition(step.name, day)}
        reached = obtainable(step, around, published)
        published |= {(table.name, str(day)) for table in step.tables for day in given | reached}
        if given | reached:
            all_days |= {table.name: given | reached for table in step.tables}
        if reached:
            made |= {table.name: reached for table in step.tables}
    return made if strictly else all_days


def buildable(step: Step, day: date, published: Collection[tuple[str, str]]) -> bool:
    """Every input day that is needed was published; ``published`` has tables and days."""
    return step.source is None and not decide.without_inputs(step, step.version(), [day], published)


def obtainable(step: Step, days: Collection[date], published: Collection[tuple[str, str]]) -> set[date]:
    """Those of ``days`` that are published, or whose inputs are."""
    absent = [day for day in days if not _there(step, day, published)]
    if not absent:
        return set(days)
    held_back = absent if step.source else decide.without_inputs(step, step.version(), absent, published)
    return set(days) - set(held_back)


def _there(step: Step, day: date, published: Collection[tuple[str, str]]) -> bool:
    return any((table.name, str(day)) in published for table in step.tables)


def reading_as_published(step: Step, changed: Days, observed: Observed) -> set[date]:
    """The periods of ``step`` whose own version reads one of the changed days; the current one, of those without."""
    found = {version.name: reading(step, changed, version) for version in step.versions}
    return {
        day
        for name, days in found.items()
        for day in days
        if (decide.published_version(step, day, observed.states) or step.current) == name
    }


def reading(step: Step, changed: Days, version: Version | None = None) -> set[date]:
    """The periods of ``step`` that read one of the changed days, by ``version`` or the current one."""
    if step.source is not None:
        return set()
    # By ordinals and not through DayRange, which would take most of the time over tens of thousands of days.
    ordinals = {
        day.toordinal() - offset
        for read in (version or step.version()).reads
        for day in changed.get(read.table, ())
        for offset in range(read.first, read.last + 1)
    }
    days = map(date.fromordinal, ordinals)
    return set(days) if step.cadence is Cadence.DAILY else set(step.cadence.starts(days))


def published_days(observed: Observed) -> set[tuple[str, str]]:
    """Table and day of everything that is published."""
    return {key for key, state in observed.states.items() if state.content is not None}
