"""Which days are computed from which. Pure.

``steps`` are in build order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from types import MappingProxyType

from backfill_assets.days import Cadence, DayRange, contiguous
from backfill_assets.model.declaration import AsOf, Reads, Step, Version

Days = Mapping[str, Collection[date]]
"""By table; a week or month is its first day."""
NO_DAYS: Days = MappingProxyType({})
Filled = Mapping[str, Sequence[date]]
"""Sorted days with rows of tables read as of a day."""
NOT_KNOWN: Filled = MappingProxyType({})
"""Any day that :class:`AsOf` looks back to may count."""


# ---------------------------------------------------------------- steps and tables


def build_order(steps: Collection[Step]) -> list[Step]:
    """Stable, each step after all that its versions read."""
    by_table = step_by_table(steps)

    @cache
    def depth(name: str) -> int:
        reads = (read.table for version in by_table[name].versions for read in version.reads)
        return 1 + max((depth(by_table[table].name) for table in reads), default=-1)

    return sorted(steps, key=lambda step: depth(step.name))


def step_by_table(steps: Iterable[Step]) -> dict[str, Step]:
    return {name: step for step in steps for name in step.table_names}


def steps_of(steps: Iterable[Step], tables: Collection[str]) -> list[Step]:
    return [step for step in steps if not set(tables).isdisjoint(step.table_names)]


def expand_tables(
    steps: Sequence[Step], tables: Collection[str], *, upstream: bool = False, downstream: bool = False
) -> list[str]:
    wanted, reached = set(tables), set(tables)
    for step in reversed(steps) if upstream else ():
        if not wanted.isdisjoint(step.table_names):
            wanted.update(step.table_names, _tables_read(step))
    for step in steps if downstream else ():
        if reached & _tables_read(step):
            reached.update(step.table_names)
    return [name for step in steps for name in step.table_names if name in wanted | reached]


def _tables_read(step: Step) -> set[str]:
    return {read.table for read in step.reads}


# ---------------------------------------------------------------- one step


def reading(step: Step, changed: Days, version: Version | None = None, filled: Filled = NOT_KNOWN) -> set[date]:
    """Periods that read a changed day; read as of a day, it counts until the next ``filled`` one."""
    # By ordinals and not through DayRange, which would take most of the time over tens of thousands of days.
    ordinals: set[int] = set()
    for read in version.reads if version else step.reads:
        days = changed.get(read.table, ())
        if isinstance(read, AsOf):
            ordinals.update(_held_until(read, days, filled.get(read.table, ())))
        else:
            ordinals.update(day.toordinal() - n for day in days for n in range(read.first, read.last + 1))
    return set(step.cadence.starts(map(date.fromordinal, ordinals)))


def _held_until(read: AsOf, changed: Collection[date], filled: Sequence[date]) -> Iterable[int]:
    met = date.min.toordinal()
    for day in sorted(changed):
        replaced = (each.toordinal() - read.last for each in filled[bisect_right(filled, day) :][:1])
        end = min([day.toordinal() - read.first + 1, *replaced])
        yield from range(max(met, day.toordinal() - read.last), end)
        met = max(met, end)


def read_by(
    step: Step,
    days: Collection[date],
    version: Version | None = None,
    *,
    exactly: bool = False,
    filled: Filled = NOT_KNOWN,
) -> dict[str, set[date]]:
    """Days by table. ``exactly`` leaves out those that may be absent: of look backs and partial reads."""
    reads = version.reads if version else step.reads
    chosen = [read for read in reads if not exactly or (read.first == read.last == 0 and not read.partial)]
    return _days_by_table(((step, read, days) for read in chosen), filled)


def read_by_any(days_of: Iterable[tuple[Step, Collection[date]]], filled: Filled = NOT_KNOWN) -> dict[str, set[date]]:
    parts = ((step, read, days) for step, days in days_of for version in step.versions for read in version.reads)
    return _days_by_table(parts, filled)


def _days_by_table(parts: Iterable[tuple[Step, Reads, Collection[date]]], filled: Filled) -> dict[str, set[date]]:
    found: dict[str, set[date]] = {}
    for step, read, days in parts:
        found.setdefault(read.table, set()).update(_days(step, read, days, filled))
    return found


def _days(step: Step, read: Reads, days: Collection[date], filled: Filled) -> Iterable[date]:
    if read.table in filled:
        return {each for day in days for each in read.counted(step.cadence.period(day), filled[read.table])}
    # By ordinals and not through DayRange, which would take most of the time over tens of thousands of days.
    if step.cadence is Cadence.DAILY:
        ends = [(day.toordinal(), day.toordinal()) for day in days]
    else:
        ends = [(day.toordinal(), step.cadence.period(day).last.toordinal()) for day in days]
    if isinstance(read, AsOf):  # Windows of years, almost the same for each day.
        ends = [(part.first.toordinal(), part.last.toordinal()) for part in contiguous(days)]
    return map(date.fromordinal, {n for first, last in ends for n in range(first + read.first, last + read.last + 1)})


def made_of(step: Step, version: Version, day: date, filled: Filled = NOT_KNOWN) -> dict[str, DayRange]:
    period = step.cadence.period(day)
    found: dict[str, DayRange] = {}
    for read in version.reads:
        if not isinstance(read, AsOf) or read.table not in filled:
            found[read.table] = read.days(period)
        elif counted := list(read.counted(period, filled[read.table])):
            found[read.table] = DayRange(counted[0], counted[-1])
    return found


def tables_as_of(steps: Iterable[Step]) -> set[str]:
    return _tables_as_of(version for step in steps for version in step.versions)


def _tables_as_of(versions: Iterable[Version]) -> set[str]:
    return {read.table for version in versions for read in version.reads if isinstance(read, AsOf)}


def missing_inputs(step: Step, version: Version, days: Collection[date], published: Days) -> dict[date, list[str]]:
    """Input days never published, in words, by day. A look back needs none before a table's first, a partial read one
    of the period, a read as of a day one that counts.
    """
    first = {read.table: min(published.get(read.table, ()), default=date.min) for read in version.reads if days}
    states = {name: sorted(published.get(name, ())) for name in _tables_as_of([version]) if days}
    found: dict[date, list[str]] = {}
    for day in days:
        period = step.cadence.period(day)
        for read in version.reads:
            there = published.get(read.table, ())
            if isinstance(read, AsOf):
                if not read.counted(period, states[read.table]):
                    begins = f"{first[read.table]} is the first" if there else "there is none"
                    found.setdefault(day, []).append(f"a state of {read.table} up to {day} ({begins})")
                continue
            absent = [each for each in read.days(period) if each not in there]
            if read.partial and len(absent) < len(read.days(period)):
                continue
            needed = [each for each in absent if not (each < day and each < first[read.table])]
            if needed:
                found.setdefault(day, []).extend(f"{read.table} {input_day}" for input_day in needed)
    return found


class Presence:
    def __init__(self, published: Days) -> None:
        self._days = {table: set(days) for table, days in published.items()}

    def add(self, step: Step, days: Iterable[date]) -> None:
        for name in step.table_names:
            self._days.setdefault(name, set()).update(days)

    def has(self, step: Step, day: date) -> bool:
        return any(day in self._days.get(name, ()) for name in step.table_names)

    def obtainable(self, step: Step, days: Collection[date]) -> set[date]:
        absent = [day for day in days if not self.has(step, day)]
        held_back = absent if step.is_origin else missing_inputs(step, step.version(), absent, self._days)
        return set(days).difference(held_back)


def days_with_data(
    steps: Sequence[Step], days: Collection[date], published: Days, landed: Days
) -> dict[str, set[date]]:
    """Which of ``days`` exist or can be built; origins need ``landed`` days."""
    there, found = Presence(published), dict[str, set[date]]()
    for step in steps:
        asked = set(step.cadence.starts(days))
        own = asked.intersection(landed.get(step.name, ())) if step.is_origin else there.obtainable(step, asked)
        there.add(step, own)
        found |= dict.fromkeys(step.table_names, own)
    return found


# ---------------------------------------------------------------- from step to step


def walk_downstream(
    steps: Sequence[Step],
    given: Days,
    visit: Callable[[Step, set[date], set[date]], set[date]],
    readers: Callable[[Step, Days], set[date]] = reading,
) -> dict[str, set[date]]:
    """Visits each step with its given days and those that read what visits returned; returns these by table."""
    found: dict[str, set[date]] = {}
    for step in steps:
        own = {day for name in step.table_names for day in given.get(name, ())}
        if days := visit(step, own, readers(step, found)):
            found |= dict.fromkeys(step.table_names, days)
    return found


def walk_upstream(steps: Sequence[Step], reads: Callable[[Step, set[date]], Days]) -> dict[str, set[date]]:
    needed: dict[str, set[date]] = {}
    found: dict[str, set[date]] = {}
    for step in reversed(steps):
        days = set(step.cadence.starts(day for name in step.table_names for day in needed.get(name, ())))
        if days:
            found[step.name] = days
        for table, read in reads(step, days).items():
            needed.setdefault(table, set()).update(read)
    return found


def upstream(
    steps: Sequence[Step], target: Step, days: Collection[date], *, exactly: bool = False
) -> dict[str, set[date]]:
    """All that ``days`` are computed from, by step."""

    def reads(step: Step, needed: set[date]) -> Days:
        own = step.name == target.name
        return read_by(target if own else step, days if own else needed, exactly=exactly)

    return walk_upstream(steps, reads)


def later_readers(steps: Sequence[Step]) -> dict[str, dict[str, int]]:
    """Steps that look back to a table, and how many days, added up along a path."""
    found: dict[str, dict[str, int]] = {}
    for step in reversed(steps):
        beyond = {reader: days for name in step.table_names for reader, days in found.get(name, {}).items()}
        for read in step.reads:
            readers = found.setdefault(read.table, {})
            reached = {name: days - read.first for name, days in beyond.items()}
            for name, days in (reached | ({step.name: -read.first} if read.first < 0 else {})).items():
                readers[name] = max(days, readers.get(name, 0))
    return {table: dict(sorted(readers.items())) for table, readers in found.items() if readers}


def earliest_looked_back_to(steps: Sequence[Step], start: date) -> dict[str, date]:
    """By table, what days from ``start`` on look back to, by any version."""
    found: dict[str, date] = {}
    for step in reversed(steps):
        own = min((found[name] for name in step.table_names if name in found), default=None)
        if own is not None:  # tables of one step share their days
            found |= dict.fromkeys(step.table_names, own)
        for read in (read for version in step.versions for read in version.reads):
            if own is not None or read.first < 0:
                first = min(own or start, step.cadence.start(start) if read.first < 0 else start)
                day = first + timedelta(days=read.first)
                found[read.table] = min(day, found.get(read.table, day))
    return found


def earlier_days(
    steps: Sequence[Step], tables: Collection[str], days: Collection[date], published: Days, landed: Days
) -> dict[str, set[date]]:
    """Buildable days before ``days`` that ``tables`` look back to among themselves, by step: first days need rates.

    They end at the first gap; as of a day the newest is enough.
    """
    building, there = steps_of(steps, tables), Presence(published)
    asked = {step.name: set(step.cadence.starts(days)) for step in building}
    for step in building:
        there.add(step, asked[step.name])
    needed = walk_upstream(building, lambda step, days: _looked_back_to(step, asked[step.name], days))
    held = _made_into(building, tables_as_of(building))
    found: dict[str, set[date]] = {}
    for step in building:
        wanted = needed.get(step.name, set()) - asked[step.name]
        possible = wanted.intersection(landed.get(step.name, ())) if step.source else there.obtainable(step, wanted)
        holds = step.name in held
        if unbroken := (_newest_before if holds else _unbroken)(step, asked[step.name], possible, there):
            found[step.name] = unbroken
            there.add(step, unbroken)
    return found


def _looked_back_to(step: Step, asked: Collection[date], needed: set[date]) -> dict[str, set[date]]:
    found = read_by(step, needed.difference(asked))
    for read in step.reads:
        if read.first < 0:
            found.setdefault(read.table, set()).update(days_before(step, read, asked))
    return found


def days_before(step: Step, read: Reads, periods: Collection[date]) -> set[date]:
    if isinstance(read, AsOf):  # Windows of years, almost the same for each day.
        return {day for part in contiguous(periods) for day in read.days(part) if day < part.last}
    return {day for period in map(step.cadence.period, periods) for day in read.days(period) if day < period.first}


def _made_into(steps: Sequence[Step], tables: Collection[str]) -> set[str]:
    found = set(tables)
    for step in reversed(steps):
        if not found.isdisjoint(step.table_names):
            found |= {step.name, *(read.table for read in step.reads if read.first == 0)}
    return found


def _newest_before(step: Step, asked: Collection[date], possible: Collection[date], there: Presence) -> set[date]:
    open_days = possible if step.source else [day for day in possible if not there.has(step, day)]
    newest = (max((day for day in open_days if day < each), default=None) for each in asked)
    return {day for day in newest if day}


def _unbroken(step: Step, asked: Collection[date], possible: Collection[date], there: Presence) -> set[date]:
    """Ends at a day neither buildable nor published."""
    found: set[date] = set()
    for start in asked:
        day = step.cadence.start(start - timedelta(days=1))
        while day in possible or there.has(step, day):
            found.add(day)
            day = step.cadence.start(day - timedelta(days=1))
    return found.intersection(possible)
