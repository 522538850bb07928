"""Which stale days are left to a running stream, and for how long. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from backfill_assets.days import by_table
from backfill_assets.lakehouse.records import is_of_stream
from backfill_assets.state.diagnosis import INPUT_CHANGED, Cause
from backfill_assets.text import format_ranges
from backfill_assets.upkeep.trouble import RepairContext, StaleDay

LEFT_FOR = timedelta(minutes=10)
_MOST_RANGES = 4


def left_to_streams(seen: RepairContext, stale: Sequence[StaleDay]) -> list[StaleDay]:
    """Days that are stale only because a running stream has just brought rows.

    A table that no stream follows changes with every batch: its days are repaired only after :data:`LEFT_FOR`. A day
    that a gate holds back waits for a person.
    """
    behind = tables_behind_streams(seen) if seen.streams.tables else frozenset()
    free = (each for each in stale if each.table in behind and not seen.held_by_stream(each.key))
    return [each for each in free if _is_left(seen, each)]


def tables_behind_streams(seen: RepairContext) -> frozenset[str]:
    behind = set(seen.streams.tables)
    for step in seen.steps:
        if any(read.table in behind for version in step.versions for read in version.reads):
            behind.update(step.table_names)
    return frozenset(behind)


def in_words(left: Iterable[StaleDay]) -> list[str]:
    minutes = int(LEFT_FOR.total_seconds() // 60)
    return [
        f"{table} {format_ranges(days, _MOST_RANGES)}: left to the running stream for {minutes} minutes"
        for table, days in by_table(each.key for each in sorted(left)).items()
    ]


def _is_left(seen: RepairContext, stale: StaleDay) -> bool:
    if stale.shows not in INPUT_CHANGED:
        return False
    if stale.shows in (Cause.INPUT, Cause.REFERENCE):
        own = seen.observed.publication(stale.key)
        return not is_of_stream(own) and _is_new(seen, own)
    return any(_is_new(seen, name) for name in _raw_publications(seen, stale) if is_of_stream(name))


def _raw_publications(seen: RepairContext, stale: StaleDay) -> list[str]:
    read = seen.inputs.days_read(seen.step_of[stale.table], seen.version(stale.table, stale.day), stale.day)
    return [seen.observed.publication(key) for key in read if key.table in seen.streams.tables]


def _is_new(seen: RepairContext, publication: str) -> bool:
    published: datetime | None = seen.streams.published_at(publication) if publication else None
    return published is not None and seen.now - published < LEFT_FOR
