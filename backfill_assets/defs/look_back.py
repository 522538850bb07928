"""Look backs of a run, which Dagster's dialog does not follow: earlier days to build first, later days that use its
rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.current_versions import with_current
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, days_before, earlier_days, later_readers, steps_of, upstream
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.decide import published_days
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import LogView, observe, observe_each
from backfill_assets.state.reading import read_switches
from backfill_assets.state.status import Statuses, day_statuses
from backfill_assets.text import format_count, format_ranges

LATER_DAYS = "later_days"
EARLIER_TAG = "backfill/earlier_days"


def earlier_days_tag(days: Days) -> dict[str, str]:
    said = "; ".join(f"{table} {format_ranges(of_table)}" for table, of_table in days.items() if of_table)
    return {EARLIER_TAG: said} if said else {}


def earlier_days_of(tags: Mapping[str, str], table: str) -> set[date]:
    said = (each.partition(" ") for each in tags.get(EARLIER_TAG, "").split("; "))
    ranges = (text for name, _, ranges in said if name == table for text in ranges.split(","))
    return {day for text in ranges for day in DayRange.parse(text.strip())}


def missing_earlier_days(
    step: Step,
    steps: Sequence[Step],
    tables: Collection[str],
    days: Collection[date],
    storage: Storage,
    zone: LandingZone,
    version: str = "",
) -> list[date]:
    """Days of ``step`` never built that ``tables``, built together, look back to from ``days``.

    ``steps``: all datasets' in build order. Steps that have ``version`` look back as it does.
    """
    if not later_readers(steps).get(step.name, {}).keys() & set(tables):
        return []
    steps = [_by_version(each, version) for each in with_current(steps, read_switches(storage))]
    building = steps_of(steps, tables)
    names = {name for each in building for name in (*each.table_names, *(read.table for read in each.reads))}
    published = published_days(observe(storage, sorted(names)).states)
    needed = earlier_days(steps, tables, days, published, _landed_days(zone, building)).get(step.name, set())
    return sorted(needed.difference(published.get(step.name, ())))


def looked_back_to(step: Step, steps: Sequence[Step], days: Collection[date], target: Days, own: Days) -> Days:
    """Days of a backfill's ``target`` that ``days`` of ``step`` look back to, by step in build order, without the run's
    ``own``. Pure.
    """
    found: dict[str, set[date]] = {}
    for read in (read for version in step.versions for read in version.reads if read.first < 0):
        before = days_before(step, read, days)
        reached = next(each for each in steps if read.table in each.table_names)
        wanted = set(reached.cadence.starts(before))
        above = {**upstream(steps, reached, wanted), reached.name: wanted}
        for each in steps:
            there = {day for table in each.table_names for day in target.get(table, ())}
            here = {day for table in each.table_names for day in own.get(table, ())}
            if first := (above.get(each.name, set()) & there) - here:
                found.setdefault(each.name, set()).update(first)
    return {each.name: found[each.name] for each in steps if each.name in found}


def not_built_yet(
    wanted: Days, steps: Sequence[Step], storage: Storage, launched: datetime, *, force: bool = False
) -> list[tuple[Step, list[date]]]:
    """The ``wanted`` days that are not fresh; with ``force``, for all but raw, those not published since
    ``launched``.
    """
    names = [name for step in steps for name in step.table_names]
    observed = observe_each(storage, names)
    current, spanned = (
        observed.readable(observed.with_current(steps)),
        [day for days in wanted.values() for day in days],
    )
    statuses = day_statuses(current, observed, DayRange(min(spanned), max(spanned)), as_published=True)
    log = PublicationLog(storage)

    def is_built(step: Step, day: date) -> bool:
        if force and not step.source:
            return all(_published_since(log, observed, TableDay(table, day), launched) for table in step.table_names)
        return _is_fresh(statuses, step, day)

    left = [(step, [day for day in sorted(wanted.get(step.name, ())) if not is_built(step, day)]) for step in current]
    return [(step, days) for step, days in left if days]


def _is_fresh(statuses: Statuses, step: Step, day: date) -> bool:
    return all(statuses[table].get(day, Cause.MISSING) is None for table in step.table_names)


def _published_since(log: PublicationLog, observed: LogView, key: TableDay, launched: datetime) -> bool:
    state = observed.states.get(key)
    found = log.find_prepared(state.publication) if state else None
    return found is not None and found[1] >= launched


def _by_version(step: Step, version: str) -> Step:
    return replace(step, current=version) if any(each.name == version for each in step.versions) else step


def _landed_days(zone: LandingZone, steps: Iterable[Step]) -> dict[str, set[date]]:
    today = clock.today()
    return {
        step.name: {day for day, paths in zone.paths(step.source).items() if paths and day < today}
        for step in steps
        if step.source
    }


def later_days_text(table: str, readers: Mapping[str, int]) -> str:
    names = " and ".join(f"`{name}`" for name in readers)
    return (
        f"Days up to {format_count(max(readers.values()), 'day')} later use these rows as well: {names} "
        f"look{'s' if len(readers) == 1 else ''} back. A backfill of a range does not include those days. The sensor "
        f"`repairs` builds the ones that are stale within a minute or two of its end. To build them at once: "
        f"`backfill run {table}+ --days A..B`."
    )
