"""Days whose events a stream has read and a gate keeps in raw: nothing else builds them.

A running stream tries such a day when it gains rows. Afterwards the hold counts while the logic is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import step_by_table
from backfill_assets.state.status import published_version
from backfill_assets.stream.lease import HeldEvents, StreamStatus, read_streams, still_held
from backfill_assets.text import format_count
from backfill_assets.upkeep.failed_checks import HeldByStream
from backfill_assets.upkeep.trouble import digest


def held_by_streams(
    storage: Storage, states: Mapping[TableDay, DayState], steps: Sequence[Step], now: datetime
) -> dict[TableDay, HeldByStream]:
    step_of = step_by_table(steps)

    def version_of(key: TableDay) -> str:
        return published_version(step_of[key.table], key.day, states) or step_of[key.table].current

    return {
        TableDay(each.table, each.day): _seen(each, status)
        for status in read_streams(storage)
        for each in still_held(status.held_back, status.table, states)
        if each.table in step_of and (status.is_running(now) or _is_as_tried(each, status, version_of))
    }


def _is_as_tried(held: HeldEvents, status: StreamStatus, version_of: Callable[[TableDay], str]) -> bool:
    return held in status.held_back and held.version in ("", version_of(TableDay(held.table, held.day)))


def _seen(held: HeldEvents, status: StreamStatus) -> HeldByStream:
    since = f"{held.since:%Y-%m-%d %H:%M} UTC"
    most = f" (most: {next(iter(held.reasons))})" if held.reasons else ""
    return HeldByStream(
        words=f"{format_count(held.events, 'event')} of {status.table} reach no table since {since}: {held.why}{most}",
        events=held.events,
        since=held.since,
        release=held.do,
        shown_by=f"backfill raw quarantine {held.table} {held.day}" if held.rejected else "",
        run=status.holder.run,
        evidence=digest([held.table, str(held.day), held.rule, held.version, held.since.isoformat()], 12),
    )
