"""Compaction: a publication that preserves content. Nothing downstream becomes stale by it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, write_deltalake

from backfill_assets.days import parse_day
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.arrow_dataset import arrow_dataset, dataset_of
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, MainTable
from backfill_assets.lakehouse.publication import (
    DayChange,
    DayContent,
    Provenance,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.publish import Moved, Pin, Published, Publisher
from backfill_assets.lakehouse.timelines import StagedAs, Timeline, TimelineEntry

if TYPE_CHECKING:
    import pyarrow.dataset as ds


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
    if moved := _moved(main, pin, several):
        return moved
    timeline = Timeline(publisher.storage, table, f"compact-{id}")
    _rewrite(main, timeline, several)
    return publisher.publish(_request(timeline, pin, several, id, provenance or Provenance()))


def _moved(main: MainTable, pin: Pin, days: list[str]) -> Moved | None:
    """The rows are read from the very files that are expected: main may have been elsewhere in between, and back."""
    files = main.state().by_day()
    moved = {day for day in days if files.get(day, frozenset()) != set(pin.expected[main.name, day].files)}
    return Moved({main.name: frozenset(moved)}, reasons=(f"{main.name} is being published to",)) if moved else None


def _rewrite(main: MainTable, timeline: Timeline, days: list[str]) -> None:
    entry = TimelineEntry(staged={day: StagedAs(input_fingerprint="compaction") for day in days})
    rows = _rows(dataset_of(main.storage, main.name, main.handle), days)
    write_deltalake(
        timeline.uri,
        rows,
        mode="overwrite",
        partition_by=[PARTITION_COLUMN],
        configuration={"delta.enableDeletionVectors": "false"},
        storage_options=dict(timeline.storage.options),
        commit_properties=_metadata(entry),
    )
    written = _rows(arrow_dataset(timeline.storage, timeline.path), days)
    if _content(rows) != _content(written):
        raise PublicationRefused(f"Compacting {main.name} changed its content; nothing was published.")


def _rows(dataset: ds.Dataset, days: list[str]) -> pa.Table:
    return dataset.to_table(filter=pc.field(PARTITION_COLUMN).isin([parse_day(day) for day in days]))


def _content(rows: pa.Table) -> list[str]:
    """Order-free content: the rows as text, sorted."""
    return sorted(map(repr, rows.select(sorted(rows.column_names)).to_pylist()))


def _metadata(entry: TimelineEntry) -> CommitProperties:
    return CommitProperties(custom_metadata={"userMetadata": entry.model_dump_json()})


def _request(
    timeline: Timeline,
    pin: Pin,
    days: list[str],
    id: str,
    provenance: Provenance,
) -> Publication:
    staged = timeline.days()
    changes = [
        DayChange(
            day=day,
            adds=staged[day].files,
            content=_content_of(pin, timeline.table, day),
            expected=pin.expected[timeline.table, day],
        )
        for day in days
    ]
    change = TableChange(table=timeline.table, table_schema=timeline.schema(), days=tuple(changes))
    return Publication(id=id, kind="compact", tables=(change,), provenance=provenance)


def _content_of(pin: Pin, table: str, day: str) -> DayContent | None:
    """The content carries over; that of a day somebody else wrote stays unknown."""
    state = pin.states.get((table, day))
    known = state is not None and state.physical == fingerprints.physical(pin.expected[table, day].files)
    return state.content if state and known else None
