"""A query's rows as CSV, Parquet, or Python's values. Files appear whole."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.arrow_dataset import python_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from backfill_assets.sql.query import SqlRows


def column_names(names: Iterable[str]) -> list[str]:
    """A second ``id`` is ``id_1``, as in DuckDB's tables."""
    found: list[str] = []
    for name in names:
        free = (f"{name}_{number}" for number in range(1, len(found) + 2))
        found.append(name if name not in found else next(each for each in free if each not in found))
    return found


def rows_of(found: SqlRows, most: int | None = None) -> tuple[list[str], list[Sequence[Any]]]:
    """Names and rows: ``most``, and one more if there are more."""
    names, rows = column_names(found.rows.schema.names), list[Sequence[Any]]()
    for batch in found.rows:
        rows += _values(batch, names)
        if most is not None and len(rows) > most:
            return names, rows[: most + 1]
    return names, rows


def _values(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[Sequence[Any]]:
    import pyarrow as pa

    table = pa.Table.from_batches([batch.rename_columns(list(names))])
    yield from (list(row.values()) for row in python_rows(table))


def write_csv(found: SqlRows, to: TextIO) -> None:
    """Nulls are empty; lists and structures, JSON."""
    names = column_names(found.rows.schema.names)
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(names)
    for batch in found.rows:
        writer.writerows([_text(value) for value in row] for row in _values(batch, names))


def _text(value: Any) -> Any:
    match value:
        case bool():
            return "true" if value else "false"
        case None | str() | int() | float() | Decimal():
            return value
        case bytes():
            return value.hex()
        case list() | dict():
            return json.dumps(value, default=str)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def write_parquet(found: SqlRows, path: Path) -> None:
    import pyarrow.parquet as pq

    schema = found.rows.schema
    names = column_names(schema.names)
    with pq.ParquetWriter(path, _named(schema, names), compression="zstd") as writer:
        for batch in found.rows:
            writer.write_batch(batch.rename_columns(names))


def _named(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([each.with_name(name) for each, name in zip(schema, names, strict=True)])


def _write_csv_file(found: SqlRows, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        write_csv(found, file)


FORMATS: dict[str, Callable[[SqlRows, Path], None]] = {".parquet": write_parquet, ".csv": _write_csv_file}


def require_format(path: Path) -> None:
    if path.suffix not in FORMATS:
        raise InvalidRequest(f"{path} ends in none of {', '.join(FORMATS)}.", hint="The ending says what is written.")
    if not path.absolute().parent.is_dir():
        raise InvalidRequest(f"There is no folder {path.absolute().parent}.", hint="Make it, or name another file.")


def write_file(found: SqlRows, path: Path) -> None:
    """Replaces ``path`` when whole; raises like :func:`require_format`."""
    require_format(path)
    unfinished = path.with_name(f".{path.name}.{clock.token(4)}")
    try:
        FORMATS[path.suffix](found, unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
