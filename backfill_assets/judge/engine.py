"""DuckDB by Ibis, over a lakehouse's files. Libraries are imported late: every command may import this."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.lost_file import file_lost
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import spark_types
from backfill_assets.model.landed_structures import register_structures
from backfill_assets.model.xxh64 import register

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow.dataset as ds
    from duckdb import DuckDBPyConnection
    from ibis.backends.duckdb import Backend

    from backfill_assets.model.contract import Contract

DAY = "day"
DayFiles = Mapping[date, Sequence[AddedFile]]
LabelledFiles = Mapping[Any, Sequence[AddedFile]]
SHARE_OF_MEMORY = 0.25
"""For all cores; more spills to disk."""
_FULL = "Look at the disk and the memory of this machine, then run it again."
_SPILL, _LEFT_SECONDS = "backfill-judge", 24 * 3600
_FILE, _LABEL = "its file", "its label"
_LABEL_OF_FILE = f"""COALESCE("{_LABEL}", error('DuckDB has another name for a file that it read: ' || "{_FILE}"))"""
_PATTERN = re.compile(r"[*?\[]")
"""DuckDB expands these; not all can be escaped."""


def files_by_day(folder: str, files: Iterable[AddedFile]) -> DayFiles:
    found: dict[date, list[AddedFile]] = {}
    for file in files:
        found.setdefault(date.fromisoformat(file.day), []).append(file.below(folder))
    return found


def of_days(files: DayFiles, days: Collection[date]) -> DayFiles:
    return {day: some for day, some in files.items() if day in days}


@contextmanager
def engine(threads: int = 0) -> Iterator[Backend]:
    import ibis

    with database(threads) as connection:
        yield ibis.duckdb.from_connection(connection)


@contextmanager
def database(threads: int = 0) -> Iterator[DuckDBPyConnection]:
    """An empty DuckDB in UTC without extensions, which spills to disk. ``threads=1`` takes least CPU. Raises
    :class:`LakehouseUnusable` for DuckDB's errors.
    """
    import duckdb

    cores = os.cpu_count() or 1
    share = SHARE_OF_MEMORY * min(threads or cores, cores) / cores
    with TemporaryDirectory(prefix=f"{_SPILL}-{os.getpid()}-") as spill:  # noqa: TID251 - others see whether it is gone
        _remove_spilled(Path(spill).parent)
        settings: dict[str, Any] = {
            "memory_limit": f"{int(usable_memory() * share)}B",
            "temp_directory": spill,
            "threads": threads or cores,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "enable_external_file_cache": False,
        }
        with duckdb.connect(config=settings) as connection:
            # DuckDB takes a process without a main file, such as Dagster's, for an interactive one.
            connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
            register(connection)
            register_structures(connection)
            try:
                yield connection
            except duckdb.Error as error:
                if lost := file_lost(error):
                    raise lost from error
                raise LakehouseUnusable(f"DuckDB: {without_query(error)}", hint=_FULL) from error


def without_query(error: Exception) -> str:
    return re.split(r"\n+LINE \d+:", str(error))[0].strip()


def _remove_spilled(folder: Path) -> None:
    """Killed processes leave folders; young ones may be another container's."""
    import psutil

    for left in folder.glob(f"{_SPILL}-*-*"):
        pid, of_old = left.name.split("-")[2], clock.now().timestamp() - _LEFT_SECONDS
        with suppress(OSError):
            if pid.isdigit() and not psutil.pid_exists(int(pid)) and left.stat().st_mtime < of_old:
                shutil.rmtree(left)


def declared_types(contract: type[Contract]) -> dict[str, pa.DataType]:
    return {name: to_arrow_type(kind, timezone="UTC") for name, kind in spark_types(contract).items() if name != DAY}


def columns_of(contract: type[Contract], hashes: Iterable[str] = ()) -> pa.Schema:
    also = [(name, pa.int64()) for name in hashes]
    return pa.schema([*declared_types(contract).items(), *also, (DAY, pa.date32())])


def rows_of_files(
    connection: Backend, storage: Storage, contract: type[Contract], files: DayFiles, hashes: Iterable[str] = ()
) -> ir.Table:
    """Lazy: missing columns are null, types are cast, ``day`` is that of ``files``."""
    import ibis

    columns = columns_of(contract, hashes)
    asked = select_rows(connection.con, storage, columns, DAY, files)
    # Ibis parses SQL in each query that is made of it.
    name = f"rows of {clock.token(16)}"
    connection.con.execute(f'CREATE TEMP MACRO "{name}"() AS TABLE {asked}')
    return connection.sql(f'SELECT * FROM "{name}"()', schema=ibis.Schema.from_pyarrow(columns))  # noqa: S608 - a name of ours


def select_rows(
    connection: DuckDBPyConnection, storage: Storage, columns: pa.Schema, label: str, files: LabelledFiles
) -> str:
    """:func:`rows_of_files` with ``columns``, among them ``label``, in SQL: Ibis compiles longer."""
    kinds, name = _kinds(columns), f"rows {clock.token(16)}"
    read = {each: quoted(each) for each in kinds}
    source, paths = f'"{name}"', [file.path for some in files.values() for file in some]
    if not paths:
        connection.register(name, columns.empty_table())
    elif storage.is_folder and not _PATTERN.search(" ".join([storage.uri(), *paths])):
        source, read[label] = _in_folder(connection, storage, columns, label, files, name), _LABEL_OF_FILE
    else:
        connection.register(name, _by_arrow(storage, columns, label, files))
    listed = ", ".join(f"CAST({read[each]} AS {kind}) AS {quoted(each)}" for each, kind in kinds.items())
    return f"SELECT {listed} FROM {source}"  # noqa: S608 - declared names, and types that are DuckDB's


def quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _kinds(columns: pa.Schema) -> Mapping[str, str]:
    return dict(zip(columns.names, _kinds_of(tuple(columns.types)), strict=True))


@lru_cache
def _kinds_of(types: tuple[pa.DataType, ...]) -> tuple[str, ...]:
    import duckdb

    nothing = pa.schema([(str(number), kind) for number, kind in enumerate(types)]).empty_table()
    return tuple(map(str, duckdb.from_arrow(nothing).types))


def stored(rows: ir.Table) -> ir.Table:
    from ibis.util import gen_name

    connection, name = rows.get_backend(), gen_name("stored")
    connection.raw_sql(f'CREATE TEMP TABLE "{name}" AS {connection.compile(rows)}')
    return connection.table(name)


def streamed(rows: ir.Table, at_once: int) -> Iterator[pa.RecordBatch]:
    """In order; rows need not fit into memory."""
    connection = rows.get_backend()
    # Ibis's own method calls a deprecated one of DuckDB.
    yield from batches(connection.con, connection.compile(rows), at_once)


def batches(connection: DuckDBPyConnection, asked: str, at_once: int) -> Iterator[pa.RecordBatch]:
    return _in_words(connection.execute(asked).to_arrow_reader(at_once))


def _in_words(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """After the first rows DuckDB's errors are Arrow's."""
    try:
        yield from reader
    except (OSError, pa.ArrowException) as error:
        raise LakehouseUnusable(f"DuckDB: {without_query(error)}", hint=_FULL) from error


def _in_folder(
    connection: DuckDBPyConnection,
    storage: Storage,
    columns: pa.Schema,
    label: str,
    files: LabelledFiles,
    name: str,
) -> str:
    """DuckDB opens files late; a view reads them when created."""
    # DuckDB reports each file by the path it was given.
    root = Path(storage.uri()).absolute()
    labels = {f"{root}/{file.path}": key for key, some in files.items() for file in some}
    if len(labels) < sum(map(len, files.values())):
        raise LakehouseUnusable("A file is named twice among those to be read.", hint="Look who wrote its table's log.")
    of_files = pa.array(labels.values(), columns.field(label).type)
    connection.register(name, pa.table({_FILE: list(labels), _LABEL: of_files}))
    connection.execute(f'SET VARIABLE "{name}" = ?', [list(labels)])
    # The empty select gives columns that no file has.
    none = ", ".join(
        f"CAST(NULL AS {kind}) AS {quoted(each)}" for each, kind in _kinds(columns).items() if each != label
    )
    return f"""(
        SELECT {none} WHERE false UNION ALL BY NAME FROM read_parquet(
            getvariable('{name}'), filename = '{_FILE}', hive_partitioning = false, union_by_name = true
        ) LEFT JOIN "{name}" USING ("{_FILE}")
    ) AS read"""  # noqa: S608 - the same; paths are a variable


def _by_arrow(storage: Storage, columns: pa.Schema, label: str, files: LabelledFiles) -> ds.Dataset:
    """Arrow reads object stores, and any name."""
    import pyarrow.dataset as ds

    parquet, filesystem, kind = ds.ParquetFileFormat(), storage.filesystem(), columns.field(label).type
    fragments = [
        parquet.make_fragment(file.path, filesystem, partition_expression=ds.field(label) == pa.scalar(key, kind))
        for key, some in files.items()
        for file in some
    ]
    return ds.FileSystemDataset(fragments, columns, parquet, filesystem)


# ------------------------------------------------------------------ memory

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def usable_memory() -> int:
    """The container's, if less than the machine's."""
    import psutil

    physical = psutil.virtual_memory().total
    return min([physical, *(limit for file in _LIMITS if (limit := _limit(file)) is not None)])


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
