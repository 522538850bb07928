"""Which stale days are left to a running stream, which follows them within seconds. Pure: no clock, no data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import is_of_stream
from backfill_assets.text import format_ranges
from backfill_assets.upkeep.trouble import RepairContext, StaleDay, StaleReason, by_table

LEFT_FOR = timedelta(minutes=10)
"""A stream follows its own rows within seconds; what is stale for longer is repaired although it runs."""
_MOST_RANGES = 4


def left_to_streams(seen: RepairContext, stale: Sequence[StaleDay]) -> list[StaleDay]:
    """Days that are stale only because a running stream has just brought rows.

    Of a table that a stream does not follow, such as a weekly report, each day is repaired again only after
    :data:`LEFT_FOR`: it changes with every batch.
    """
    behind = tables_behind_streams(seen) if seen.streams.tables else frozenset()
    return [each for each in stale if each.table in behind and _is_left(seen, each)]


def tables_behind_streams(seen: RepairContext) -> frozenset[str]:
    """Every table that is made, directly or not, of a raw table with a running stream."""
    behind = set(seen.streams.tables)
    for step in seen.steps:
        if any(read.table in behind for version in step.versions for read in version.reads):
            behind.update(step.table_names)
    return frozenset(behind)


def in_words(left: Iterable[StaleDay]) -> list[str]:
    """One line for each table, for the sensor's tick."""
    minutes = int(LEFT_FOR.total_seconds() // 60)
    return [
        f"{table} {format_ranges(days, _MOST_RANGES)}: left to the running stream for {minutes} minutes"
        for table, days in by_table(sorted(left)).items()
    ]


def _is_left(seen: RepairContext, stale: StaleDay) -> bool:
    """Late rows that a stream has brought just now, or a changed input of a day that was repaired just now."""
    if stale.reason is StaleReason.LATE_ROWS:
        return any(_is_new(seen, name) for name in _raw_publications(seen, stale) if is_of_stream(name))
    if stale.reason is StaleReason.INPUT_CHANGED:
        own = _publication(seen, stale.table, stale.day)
        return not is_of_stream(own) and _is_new(seen, own)
    return False


def _raw_publications(seen: RepairContext, stale: StaleDay) -> list[str]:
    """The newest publications of the raw days with a stream that the day is made of."""
    version, cadence = seen.version(stale.table, stale.day), seen.step_of[stale.table].cadence
    return [
        _publication(seen, read.table, day)
        for read in (version.reads if version else ())
        if read.table in seen.streams.tables
        for day in read.days(cadence.period(stale.day))
    ]


def _publication(seen: RepairContext, table: str, day: date) -> str:
    state = seen.observed.states.get(TableDay(table, day))
    return state.publication if state else ""


def _is_new(seen: RepairContext, publication: str) -> bool:
    published: datetime | None = seen.streams.published_at(publication) if publication else None
    return published is not None and seen.streams.now - published < LEFT_FOR
