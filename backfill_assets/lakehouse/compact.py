"""Compaction: a publication that preserves content. Nothing downstream becomes stale by it."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, MainTable
from backfill_assets.lakehouse.publication import (
    DayChange,
    Provenance,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.publish import Moved, Pin, Published, Publisher
from backfill_assets.lakehouse.timelines import StagedAs, Timeline, TimelineEntry


def compact(
    publisher: Publisher,
    table: str,
    days: Iterable[str],
    *,
    id: str,
    provenance: Provenance | None = None,
) -> Published | Moved | None:
    """Rewrite days that have several files into one file each; None when no day has more than one.

    Days that somebody published meanwhile come back as :class:`Moved` and are simply left for the next time.
    """
    pin = publisher.pin({table: list(days)}, {})
    main = MainTable.open(publisher.storage, table)
    several = sorted(day for (_, day), expected in pin.expected.items() if len(expected.files) > 1)
    if main is None or not several:
        return None
    timeline = Timeline(publisher.storage, table, f"compact-{id}")
    timeline.open()
    _rewrite(main, timeline, several)
    result = publisher.publish(_request(publisher, timeline, pin, several, id, provenance or Provenance()))
    timeline.close()
    return result


def _rewrite(main: MainTable, timeline: Timeline, days: list[str]) -> None:
    entry = TimelineEntry(staged={day: StagedAs(input_fingerprint="compaction") for day in days})
    rows = _rows(main.handle, days)
    write_deltalake(
        timeline.uri,
        rows,
        mode="error",
        partition_by=[PARTITION_COLUMN],
        configuration={"delta.enableDeletionVectors": "false"},
        storage_options=dict(timeline.storage.options),
        commit_properties=_metadata(entry),
    )
    written = _rows(DeltaTable(timeline.uri, storage_options=dict(timeline.storage.options)), days)
    if _content(rows) != _content(written):
        raise PublicationRefused(f"Compacting {main.name} changed its content; nothing was published.")


def _rows(table: DeltaTable, days: list[str]) -> pa.Table:
    return table.to_pyarrow_table(partitions=[(PARTITION_COLUMN, "in", days)])


def _content(rows: pa.Table) -> list[str]:
    """Order-free content: the rows as text, sorted."""
    return sorted(map(repr, rows.select(sorted(rows.column_names)).to_pylist()))


def _metadata(entry: TimelineEntry) -> CommitProperties:
    return CommitProperties(custom_metadata={"userMetadata": entry.model_dump_json()})


def _request(
    publisher: Publisher,
    timeline: Timeline,
    pin: Pin,
    days: list[str],
    id: str,
    provenance: Provenance,
) -> Publication:
    staged = timeline.days()
    states = publisher.log.day_states(publisher.log.head(), {timeline.table})
    changes = []
    for day in days:
        state = states.get((timeline.table, day))
        changes.append(
            DayChange(
                day=day,
                adds=staged[day].files,
                content=state.content if state else None,
                expected=pin.expected[timeline.table, day],
            )
        )
    change = TableChange(table=timeline.table, table_schema=timeline.schema(), days=tuple(changes))
    return Publication(id=id, kind="compact", tables=(change,), provenance=provenance)
