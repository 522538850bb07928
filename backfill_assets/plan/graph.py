"""Which days are computed from which: upstream, downstream, and what a look back reaches. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta

from backfill_assets.days import Cadence, DayRange, TableDay
from backfill_assets.model.declaration import Reads, Step, Version
from backfill_assets.plan.status import DayStatus, day_statuses
from backfill_assets.published.observed import LogView
from backfill_assets.rebuild import decide

Days = Mapping[str, Collection[date]]
"""Days by table; of a weekly or monthly table the first days of its periods."""


def downstream(
    steps: Sequence[Step],
    observed: LogView,
    days: Days,
    has_partition: Callable[[str, date], bool],
    *,
    strictly: bool = False,
) -> dict[str, set[date]]:
    """``days`` and everything made of them that is published or can be built; ``strictly``: only what is made of them.

    ``steps`` are in build order and include all they read. Tables that are built together come together. A
    published day is made of what the version reads that it was published with.
    """
    all_days: dict[str, set[date]] = {}
    made: dict[str, set[date]] = {}
    published = published_days(observed)
    for step in steps:
        given = {day for table in step.tables for day in days.get(table.name, ())}
        around = {day for day in reading_as_published(step, all_days, observed) if has_partition(step.name, day)}
        reached = obtainable(step, around, published)
        published |= {TableDay(table.name, day) for table in step.tables for day in given | reached}
        if given | reached:
            all_days |= {table.name: given | reached for table in step.tables}
        if reached:
            made |= {table.name: reached for table in step.tables}
    return made if strictly else all_days


def buildable(step: Step, day: date, published: Collection[TableDay]) -> bool:
    """Every input day that is needed was published; ``published`` has tables and days."""
    return step.source is None and not decide.without_inputs(step, step.version(), [day], published)


def obtainable(step: Step, days: Collection[date], published: Collection[TableDay]) -> set[date]:
    """Those of ``days`` that are published, or whose inputs are."""
    absent = [day for day in days if not _there(step, day, published)]
    if not absent:
        return set(days)
    held_back = absent if step.source else decide.without_inputs(step, step.version(), absent, published)
    return set(days) - set(held_back)


def _there(step: Step, day: date, published: Collection[TableDay]) -> bool:
    return any(TableDay(table.name, day) in published for table in step.tables)


def reading_as_published(step: Step, changed: Days, observed: LogView) -> set[date]:
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


def published_days(observed: LogView) -> set[TableDay]:
    """Table and day of everything that is published."""
    return {key for key, state in observed.states.items() if state.content is not None}


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


def later_readers(steps: Sequence[Step]) -> dict[str, dict[str, int]]:
    """By table, the steps that look back to it or to what is computed from it, and for how many days at most.

    ``steps`` are in build order. A step that looks back twice on its way has the sum of both.
    """
    found: dict[str, dict[str, int]] = {}
    for step in reversed(steps):
        beyond = {name: days for table in step.tables for name, days in found.get(table.name, {}).items()}
        for read in () if step.source else step.version().reads:
            readers = found.setdefault(read.table, {})
            reached = {name: days - read.first for name, days in beyond.items()}
            for name, days in (reached | ({step.name: -read.first} if read.first < 0 else {})).items():
                readers[name] = max(days, readers.get(name, 0))
    return {table: dict(sorted(readers.items())) for table, readers in found.items() if readers}


def looks_back_to(step: Step, tables: Collection[str]) -> bool:
    """Does a version of ``step`` read earlier days of one of ``tables``?"""
    return any(read.first < 0 and read.table in tables for version in step.versions for read in version.reads)


def earlier_days(
    steps: Sequence[Step],
    tables: Collection[str],
    days: Collection[date],
    published: Collection[TableDay],
    landed: Days,
) -> dict[str, set[date]]:
    """The days before ``days`` that ``tables`` look back to, of those tables themselves, by step.

    Only those that there can be: raw days with files (``landed``, by raw table), and days whose inputs are published or
    come along; back to the first gap, since a gap in a look back holds back what looks over it. ``steps`` are in build
    order. Without them the first days of a range have no rates to be converted by.
    """
    building = [step for step in steps if any(table.name in tables for table in step.tables)]
    asked = {step.name: set(step.cadence.starts(days)) for step in building}
    there = {
        *published,
        *(TableDay(table.name, day) for step in building for table in step.tables for day in asked[step.name]),
    }
    found: dict[str, set[date]] = {}
    for step, wanted in _looked_back_to(building, asked):
        possible = wanted & set(landed.get(step.name, ())) if step.source else obtainable(step, wanted, there)
        possible = _unbroken(step, asked[step.name], possible, there)
        there |= {TableDay(table.name, day) for table in step.tables for day in possible}
        if possible:
            found[step.name] = possible
    return found


def _unbroken(
    step: Step, asked: Collection[date], possible: Collection[date], published: Collection[TableDay]
) -> set[date]:
    """Those of ``possible`` that no day lies behind which can neither be built nor is published."""
    found: set[date] = set()
    for start in asked:
        day = step.cadence.start(start - timedelta(days=1))
        while day in possible or TableDay(step.name, day) in published:
            found.add(day)
            day = step.cadence.start(day - timedelta(days=1))
    return found & set(possible)


def _looked_back_to(building: Sequence[Step], asked: Days) -> list[tuple[Step, set[date]]]:
    """Each step with the days of it that a look back from the ``asked`` days reaches, in build order."""
    needed: dict[str, set[date]] = {}
    found: list[tuple[Step, set[date]]] = []
    for step in reversed(building):
        reached = set().union(*(needed.get(table.name, ()) for table in step.tables))
        more = set(step.cadence.starts(reached)) - set(asked[step.name])
        found.append((step, more))
        for read in () if step.source else step.version().reads:
            before = {
                day
                for period in map(step.cadence.period, asked[step.name])
                for day in (read.days(period) if read.first < 0 else ())
                if day < period.first
            }
            whole = {day for start in more for day in read.days(step.cadence.period(start))}
            needed.setdefault(read.table, set()).update(before | whole)
    return found[::-1]


def stale_later_days(
    steps: Sequence[Step], observed: LogView, changed: Days, built_too: Mapping[str, Collection[date]]
) -> dict[str, list[date]]:
    """The published days of ``steps`` that read one of the ``changed`` days and are stale now, by step.

    Without those that the same run builds anyway (``built_too``, by step). A day is stale by the version that it was
    published with. ``observed`` has the tables of ``steps`` and what they read.
    """
    found = {}
    for step in steps:
        around = reading_as_published(step, changed, observed) - set(built_too.get(step.name, ()))
        if not around:
            continue
        statuses = day_statuses([step], observed, DayRange(min(around), max(around)), as_published=True)[step.name]
        stale = [day for day in sorted(around) if statuses.get(day) is DayStatus.INPUT_CHANGED]
        if stale:
            found[step.name] = stale
    return found
