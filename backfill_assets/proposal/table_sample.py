from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake.exceptions import DeltaError

from backfill_assets.errors import InvalidRequest
from backfill_assets.judge.engine import database
from backfill_assets.lakehouse.delta_log import open_table
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.proposal.measured import TypedRows, profile_of_typed
from backfill_assets.proposal.profile import SampleProfile

MOST_ROWS, MOST_FILES = 100_000, 3
"""``MOST_ROWS`` in all files together."""
_AT_ONCE = 10_000
_PHYSICAL = "delta.columnMapping.physicalName"
_OF_DELTA = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "timestamp_ntz": "timestamp"}
_SCALARS = (
    "string",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "boolean",
    "date",
    "timestamp",
    "binary",
)
_OF_DUCKDB = {"string": "VARCHAR", "float": "REAL", "timestamp": "TIMESTAMPTZ", "binary": "BLOB"}


@dataclass(frozen=True)
class DataFile:
    path: str
    partition: Mapping[str, str | None]
    least: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TableFound:
    storage: Storage
    is_delta: bool
    files: tuple[DataFile, ...]
    """Oldest first."""
    types: Mapping[str, str]
    left: tuple[str, ...] = ()
    physical: Mapping[str, str] = field(default_factory=dict)

    def first_day(self, column: str) -> date | None:
        """By all files' partitions and statistics, if known."""
        found = [_day_of(each.partition.get(column) or each.least.get(column)) for each in self.files]
        return min((day for day in found if day), default=None) if all(found) else None


def is_table(location: str) -> bool:
    storage = Storage(location)
    if storage.is_folder and not Path(location).is_dir():
        return False
    return bool(storage.files("_delta_log")) or any(_is_data(each.path) for each in storage.files("", recursive=True))


def find_table(location: str) -> TableFound:
    """Raises :class:`InvalidRequest` without files."""
    storage = Storage(location)
    found = _delta(storage) if storage.files("_delta_log") else _parquet(storage)
    if not found.files:
        raise InvalidRequest(f"{location} has no file with rows.", hint="Name a table that has some.")
    return found


def _is_data(path: str) -> bool:
    return path.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in path.split("/"))


def _delta(storage: Storage) -> TableFound:
    try:
        table = open_table(storage, "")
    except DeltaError as error:
        raise InvalidRequest(
            f"{storage.root} cannot be opened: {str(error).splitlines()[0]}", hint="Declare it by hand: ExternalTable."
        ) from error
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    actions.sort(key=lambda each: (each["modification_time"], each["path"]))
    files = [DataFile(unquote(each["path"]), _below(each, "partition."), {**_below(each, "min.")}) for each in actions]
    fields = json.loads(table.schema().to_json())["fields"]
    types = {each["name"]: _type_of_delta(each["type"]) for each in fields}
    physical = {each["name"]: each["metadata"][_PHYSICAL] for each in fields if _PHYSICAL in each.get("metadata", {})}
    return _found(storage, True, files, types, physical)


def _below(action: Mapping[str, Any], prefix: str) -> Mapping[str, Any]:
    return {name.removeprefix(prefix): value for name, value in action.items() if name.startswith(prefix)}


def _type_of_delta(kind: Any) -> str:
    if isinstance(kind, str):
        return _OF_DELTA.get(kind, kind)
    if kind.get("type") == "array" and isinstance(kind["elementType"], str):
        return f"array<{_type_of_delta(kind['elementType'])}>"
    return "struct"


def _parquet(storage: Storage) -> TableFound:
    paths = [each for each in storage.files("", recursive=True) if _is_data(each.path) and each.size]
    newest = sorted(paths, key=lambda each: (each.modified_ms, each.path))
    files = [DataFile(each.path, _of_folders(each.path)) for each in newest]
    schema = storage.parquet_footer(files[-1].path).schema.to_arrow_schema() if files else pa.schema([])
    types = {each.name: type_of_arrow(each.type) for each in schema}
    of_folders = dict.fromkeys(files[-1].partition if files else (), "string")
    return _found(storage, False, files, {**types, **of_folders}, {})


def _of_folders(path: str) -> Mapping[str, str]:
    pairs = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    return {name: unquote(value) for name, _, value in pairs}


def type_of_arrow(kind: pa.DataType) -> str:
    """Spark's name; ``struct`` if nested or unknown."""
    names = {
        "bool": "boolean",
        "int8": "tinyint",
        "int16": "smallint",
        "int32": "int",
        "int64": "bigint",
        "float": "float",
        "double": "double",
        "date32[day]": "date",
        "string": "string",
        "large_string": "string",
        "binary": "binary",
    }
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind):
        return type_of_arrow(kind.value_type)
    if pa.types.is_list(kind) and (item := names.get(str(kind.value_type))):
        return f"array<{item}>"
    return names.get(str(kind), "struct")


def _found(
    storage: Storage, is_delta: bool, files: Sequence[DataFile], types: Mapping[str, str], physical: Mapping[str, str]
) -> TableFound:
    kept = {name: kind for name, kind in types.items() if kind in _SCALARS or kind.startswith(("decimal(", "array<"))}
    return TableFound(storage, is_delta, tuple(files), kept, tuple(types.keys() - kept.keys()), physical)


def _day_of(value: object) -> date | None:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        return None


# ------------------------------------------------------------------ rows


@contextmanager
def sampled_table(table: TableFound) -> Iterator[tuple[SampleProfile, TypedRows, Collection[str]]]:
    """The sample, and texts that are days. Includes rows behind deletion vectors."""
    columns = {name: f"f{number}" for number, name in enumerate(table.types)}
    with database(threads=1) as connection:
        declared = ", ".join(f"{columns[name]} {_duckdb_type(kind)}" for name, kind in table.types.items())
        connection.execute(f"CREATE TABLE typed ({declared}, arrived DATE)")
        for file in table.files[-MOST_FILES:]:
            rows = _rows(table, file)
            if rows.num_rows:
                connection.register("part", rows)
                values = ", ".join(_value(table, name, file) for name in columns)
                connection.execute(f"INSERT INTO typed FROM part SELECT {values}, NULL")
                connection.unregister("part")
        found, text_days = profile_of_typed(connection, columns, table.types)
        typed = {**table.types, **dict.fromkeys(text_days, "date")}
        yield found, TypedRows(connection, columns, typed), text_days


def _rows(table: TableFound, file: DataFile) -> pa.Table:
    wanted = [table.physical.get(name, name) for name in table.types if name not in file.partition]
    batches, left = list[pa.RecordBatch](), MOST_ROWS // MOST_FILES
    for batch in table.storage.parquet_batches(file.path, min(_AT_ONCE, left), wanted):
        batches.append(batch[:left])
        left -= len(batch)
        if left <= 0:
            break
    rows = pa.Table.from_batches(batches) if batches else pa.table({})
    own = {table.physical.get(name, name): f"c{number}" for number, name in enumerate(table.types)}
    return rows.rename_columns([own[name] for name in rows.column_names])


def _value(table: TableFound, name: str, file: DataFile) -> str:
    kind, number = table.types[name], list(table.types).index(name)
    if name not in file.partition:
        return f"CAST(c{number} AS {_duckdb_type(kind)})"
    text = file.partition[name]
    quoted = "NULL" if text is None else "'" + str(text).replace("'", "''") + "'"
    return f"TRY_CAST({quoted} AS {_duckdb_type(kind)})"


def _duckdb_type(kind: str) -> str:
    if kind.startswith("array<"):
        return f"{_duckdb_type(kind[len('array<') : -1])}[]"
    return _OF_DUCKDB.get(kind, kind.upper())
