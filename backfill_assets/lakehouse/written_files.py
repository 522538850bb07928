from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile, bound_as_json, statistics_json
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.model.measure import is_hash

if TYPE_CHECKING:
    import pyarrow.parquet as pq

WRITE = "write-id"
"""Writes' folders look like partitions: Spark reads all at once. No column can have this name."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
_TOKEN = re.compile(r"[0-9a-f]{64}")
_LEAST_TOKEN, _ABOVE_TOKENS = "0", "g"


def write_folder(digits: str = "") -> str:
    """With ``w`` every reader sees text: ``3e0228148540`` alone is a number of 228,148,541 digits."""
    return f"{WRITE}=w{digits or clock.token(6)}"


def written_files(storage: Storage, table: str, folder: str) -> list[AddedFile]:
    """``<table>/<folder>/day=<day>/``, with paths relative to ``table``, without a job's own (``_`` or ``.``).

    Raises :class:`PublicationRefused` for a file of no day, :class:`LakehouseUnusable` for timestamps that only Spark
    reads.
    """
    inside = f"{table}/{folder}/"
    files = [file for file in storage.files(f"{table}/{folder}", recursive=True) if _is_data(file, inside)]
    days = [_day_of(file, table) for file in files]
    statistics = storage.each(partial(_statistics_of, storage), files)
    return [
        AddedFile(file.path.removeprefix(f"{table}/"), day, file.size, file.modified_ms, stats)
        for file, day, stats in zip(files, days, statistics, strict=True)
    ]


def _is_data(file: StoredFile, folder: str) -> bool:
    own = any(part.startswith(("_", ".")) for part in file.path.removeprefix(folder).split("/"))
    return file.path.endswith(".parquet") and not own


def statistics(footer: pq.FileMetaData) -> str:
    """JSON like Delta's: ``numRecords``, ``nullCount``, ``minValues``, ``maxValues``.

    All columns have bounds, or none: delta-rs skips a file with bounds of some when it filters on others. Lists,
    structures and hashes have none. A row group of long texts without bounds leaves the file none: the others would
    hide its rows.
    """
    nulls: dict[str, int] = {}
    least: dict[str, str] = {}
    greatest: dict[str, str] = {}
    for number in range(footer.num_columns):
        name = footer.schema.column(number).path
        if "." in name or is_hash(name):
            continue
        parts = [footer.row_group(group).column(number).statistics for group in range(footer.num_row_groups)]
        if not all(part and part.has_null_count for part in parts):
            return statistics_json(footer.num_rows)
        nulls[name] = sum(part.null_count for part in parts)
        if nulls[name] == footer.num_rows:
            continue
        ends = _ends(parts) if _are_known(parts, footer) else None
        if ends is None:
            return statistics_json(footer.num_rows)
        least[name], greatest[name] = ends
    return statistics_json(footer.num_rows, {"minValues": least, "maxValues": greatest}, nulls)


def _are_known(parts: Sequence[Any], footer: pq.FileMetaData) -> bool:
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    return all(part.has_min_max or part.null_count == group.num_rows for part, group in zip(parts, groups, strict=True))


def _ends(parts: Sequence[Any]) -> tuple[str, str] | None:
    """Returns None for bytes, floats (NaN is in no range), years outside 1 to 9999."""
    try:
        ranges = [(part.min, part.max) for part in parts if part.has_min_max]
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        first, last = _bound(low, up=False), _bound(high, up=True)
    except OverflowError:
        return None
    return None if first is None or last is None else (first, last)


def _bound(value: Any, *, up: bool) -> str | None:
    """A token becomes the bound of all tokens: logs outlive the rows of a person."""
    if isinstance(value, str) and _TOKEN.fullmatch(value):
        return bound_as_json(_ABOVE_TOKENS if up else _LEAST_TOKEN, up=up)
    return bound_as_json(value, up=up)


def _day_of(file: StoredFile, table: str) -> str:
    name, _, day = file.path.rsplit("/", 2)[-2].partition("=")
    if name != PARTITION_COLUMN or day == _NULL:
        return _no_day(file, table)
    try:
        return str(date.fromisoformat(day))
    except ValueError:
        raise PublicationRefused(
            f"{table}: a row of the {PARTITION_COLUMN} {day} was computed, and written to {file.path}.",
            hint="Days are those of the years 1 to 9999. Look at the unit of the time that the day comes from: a topic "
            "has the times of its messages in milliseconds since 1970.",
        ) from None


def _no_day(file: StoredFile, table: str) -> str:
    raise PublicationRefused(
        f"{table}: a row without a {PARTITION_COLUMN} was computed, and written to {file.path}.",
        hint="A transform has to give every row the day it belongs to; correct it in a new version.",
    )


def _statistics_of(storage: Storage, file: StoredFile) -> str:
    footer = storage.parquet_footer(file.path)
    for number, name in enumerate(footer.schema.names):
        if footer.schema.column(number).physical_type == "INT96":
            raise LakehouseUnusable(
                f"Spark wrote the moments of {name} in a form (INT96) that not everybody reads: {file.path}.",
                hint="Set spark.sql.parquet.outputTimestampType to TIMESTAMP_MICROS in the Spark profile.",
            )
    return statistics(footer)
