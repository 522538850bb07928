"""Reads the versions of keys that return, and writes the markers that they make necessary, without Spark.

A micro-batch has a few hundred such keys among its events, and a job of Spark's that looks at them takes seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.rows import nullable_schema
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.lakehouse.written_files import write_folder, written_files
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.model.declaration import Source
from backfill_assets.model.deletion import DELETION
from backfill_assets.quality.arrow_hashes import NotRendered
from backfill_assets.quality.arrow_texts import value_text
from backfill_assets.rebuild.newer_versions import DueMarker, Moment, VersionRow, due_markers
from backfill_assets.rebuild.returning_keys import KeyFiles, ReturningKeys, hashed_batches

MOST_ROWS = 50_000
"""Of more rows that arrived, or were there, Spark makes the markers: here they are Python objects."""
MOST_VERSIONS = 1_000
"""Of one key: each is compared with all others."""
_TECHNICAL = {
    "record_kind": pa.string(),
    "source_file": pa.string(),
    "day_is_arrival": pa.bool_(),
    "content_hash": pa.int64(),
    "superseded_by_day": pa.date32(),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Key = tuple[str, ...]


def markers_by_day(
    storage: Storage, source: Source, found: ReturningKeys, arrived: KeyFiles, existing: KeyFiles
) -> dict[date, list[dict[str, Any]]] | None:
    """The marker rows that ``arrived`` rows make necessary, by the day that they are on, as dictionaries.

    They are those of :func:`backfill_assets.landing.supersessions.supersessions`. None if there are too many rows with
    keys that were ``found``, or if only Spark reads their values.
    """
    try:
        new = _versions(storage, source, found, arrived)
        there = _versions(storage, source, found, existing)
        rows = defaultdict[date, list[dict[str, Any]]](list)
        for key, versions in new.items():
            for due in _due(source, [*versions, *there.get(key, ())]):
                rows[due.day].append(_row(source, key, due))
    except (NotRendered, _TooMany):
        return None
    return dict(sorted(rows.items()))


def _due(source: Source, versions: Sequence[VersionRow]) -> list[DueMarker]:
    if len(versions) > MOST_VERSIONS:
        raise _TooMany
    return due_markers(versions, source.supersession_window_days)


def stage_markers(source: Source, timeline: Timeline, rows: Mapping[date, Sequence[dict[str, Any]]]) -> list[AddedFile]:
    """Write the marker ``rows`` of each day into ``timeline``; gives their files, as the timeline names them."""
    if not rows:
        return []
    schema, folder = raw_schema(source), write_folder()
    shape = to_arrow_schema(schema.toNullable(), timezone="UTC")
    columns = shape.remove(shape.get_field_index(PARTITION_COLUMN))
    for day, some in rows.items():
        path = f"{timeline.path}/{folder}/{PARTITION_COLUMN}={day}/part-0.snappy.parquet"
        with timeline.storage.parquet_writer(path, columns) as writer:
            writer.write_table(pa.Table.from_pylist(list(some), columns))
    files = written_files(timeline.storage, timeline.path, folder)
    timeline.add(files, nullable_schema(schema), {})
    return files


class _TooMany(Exception):
    """More rows than are looked at here."""


def _versions(storage: Storage, source: Source, found: ReturningKeys, files: KeyFiles) -> dict[Key, list[VersionRow]]:
    """By key, the rows that take part: those whose day, key and version can be read."""
    wanted, rows = np.array(found.hashes, np.int64).view(np.uint64), 0
    versions = defaultdict[Key, list[VersionRow]](list)
    names = (source.version_field, *_TECHNICAL)
    for day, batch, hashes in hashed_batches(storage, source, files, names):
        chosen = batch.filter(pa.array(np.isin(hashes, wanted)))
        rows += chosen.num_rows
        if rows > MOST_ROWS:
            raise _TooMany
        for key, version in _read(source, day, chosen):
            versions[key].append(version)
    return versions


def _read(source: Source, day: date, rows: pa.RecordBatch) -> Iterator[tuple[Key, VersionRow]]:
    for name, kind in _TECHNICAL.items():
        if name not in rows.schema.names or rows.schema.field(name).type != kind:
            raise NotRendered(f"Rows without {name}, or whose {name} is of another type than {kind}.")
    if rows.column("content_hash").null_count:
        raise NotRendered("Rows without a content hash, which no ingest writes.")
    for row in rows.to_pylist():
        key = _key(source, row)
        at = _moment(row.get(source.version_field), source.type_of(source.version_field))
        if key is None or at is None or row["day_is_arrival"] is not False:
            continue
        marker = row["source_file"] is None
        yield (
            key,
            VersionRow(
                at=at,
                hash=row["content_hash"],
                day=day,
                belongs_to=row["superseded_by_day"] or day,
                marker=marker,
                deleted=row["record_kind"] == DELETION,
                written=tuple(row.get(name) for name in source.key_columns) if marker else None,
            ),
        )


def _key(source: Source, row: Mapping[str, Any]) -> Key | None:
    """The key as texts of its values, as ``key_value`` of ``model/canonical.py`` writes them; None if one has none."""
    texts = [_key_text(row.get(name), source.type_of(name)) for name in source.key_columns]
    return tuple(text for text in texts if text) if all(texts) else None


def _key_text(text: str | None, spark_type: str) -> str | None:
    if text is None or spark_type == "string":
        return text
    value = value_text(text, spark_type)
    if value is None or spark_type != "timestamp":
        return value
    whole, _, fraction = _moment_text(int(value)).removesuffix("Z").partition(".")
    return f"{whole}.{fraction.rstrip('0')}".rstrip(".") + "Z"


def _moment(text: str | None, spark_type: str) -> Moment | None:
    if text is None or spark_type == "string":
        return None if text is None else text.encode()
    value = value_text(text, spark_type)
    if value is None or spark_type == "date":
        return value
    return int(value) if spark_type in ("bigint", "timestamp") else Decimal(value)


def _landed(at: Moment, spark_type: str) -> str:
    """As ``landed_text`` of ``model/canonical.py`` writes a version."""
    if isinstance(at, bytes):
        return at.decode()
    return _moment_text(int(at)) if spark_type == "timestamp" else str(at)


def _moment_text(micros: int) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise NotRendered("A moment before the year 1.") from None
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _row(source: Source, key: Key, due: DueMarker) -> dict[str, Any]:
    """A marker has nothing in it that depends on where or when the newer version arrived."""
    version = due.version
    return {
        **dict(zip(source.key_columns, version.written or key, strict=True)),
        source.version_field: _landed(version.at, source.type_of(source.version_field)),
        "record_kind": DELETION if version.marker else "supersession",
        "day_is_arrival": False,
        "content_hash": version.hash,
        "superseded_by_day": version.belongs_to,
    }
