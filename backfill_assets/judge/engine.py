"""DuckDB through Ibis, in this process, over the files of a lakehouse; what memory does not hold goes to the disk.

Nothing that every command imports may import this room's libraries: they are imported where something is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import spark_types

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow.dataset as ds
    from ibis.backends.duckdb import Backend

    from backfill_assets.model.contract import Contract

DAY = "day"
DayFiles = Mapping[date, Sequence[AddedFile]]
"""The files that have the rows of each day, as the lakehouse names them."""
SHARE_OF_MEMORY = 0.25
"""As much of the machine's as Spark's driver takes. What needs more is written to a temporary folder."""
_FILE, _FILE_DAY = "its file", "its day"
"""No column has a space in its name."""
_PATTERN = re.compile(r"([*?\[])")


def files_by_day(folder: str, files: Iterable[AddedFile]) -> DayFiles:
    """``files`` of the Delta table in ``folder`` of a lakehouse, by day."""
    found: dict[date, list[AddedFile]] = {}
    for file in files:
        found.setdefault(date.fromisoformat(file.day), []).append(file.below(folder))
    return found


@contextmanager
def engine() -> Iterator[Backend]:
    """A DuckDB without tables. It counts in UTC, and looks for no extension outside this package."""
    import ibis
    import psutil

    with TemporaryDirectory(prefix="backfill-judge-") as spill:
        connection = ibis.duckdb.connect(
            memory_limit=f"{int(psutil.virtual_memory().total * SHARE_OF_MEMORY)}B",
            temp_directory=spill,
            preserve_insertion_order=False,
            autoinstall_known_extensions=False,
            enable_external_file_cache=False,
        )
        try:
            yield connection
        finally:
            connection.disconnect()


def declared_types(contract: type[Contract]) -> dict[str, pa.DataType]:
    """How files have each column, without the day, which is that of their folder."""
    return {name: to_arrow_type(kind, timezone="UTC") for name, kind in spark_types(contract).items() if name != DAY}


def rows_of_files(connection: Backend, storage: Storage, contract: type[Contract], files: DayFiles) -> ir.Table:
    """The rows of ``files`` with every column of ``contract``: one that a file lacks is null. Nothing is read yet.

    Their ``day`` is the one that ``files`` names. A file's own types are cast to those that are declared.
    """
    return typed_rows(connection, storage, declared_types(contract), files)


def typed_rows(connection: Backend, storage: Storage, types: Mapping[str, pa.DataType], files: DayFiles) -> ir.Table:
    """:func:`rows_of_files` with the columns and ``types`` that are given."""
    import ibis

    declared = pa.schema([*types.items(), (DAY, pa.date32())])
    if not any(files.values()):
        read = _registered(connection, declared.empty_table())
    elif storage.is_folder:
        read = _from_folder(connection, storage, files, declared)
    else:
        read = _from_store(connection, storage, files, declared)
    return read.select(
        **{
            name: (read[name] if name in read.columns else ibis.null()).cast(kind)
            for name, kind in ibis.Schema.from_pyarrow(declared).items()
        }
    )


def stored(rows: ir.Table) -> ir.Table:
    """``rows`` in a table of their engine: they are computed now, and once however often they are asked."""
    from ibis.util import gen_name

    connection, name = rows.get_backend(), gen_name("stored")
    connection.raw_sql(f'CREATE TEMP TABLE "{name}" AS {connection.compile(rows)}')
    return connection.table(name)


def streamed(rows: ir.Table, at_once: int) -> Iterator[pa.RecordBatch]:
    """``rows`` in their order, some of them ``at_once``: not all need to fit into memory."""
    connection = rows.get_backend()
    # Ibis's own way to do this calls what DuckDB has deprecated.
    yield from connection.raw_sql(connection.compile(rows)).to_arrow_reader(at_once)


def _from_folder(connection: Backend, storage: Storage, files: DayFiles, declared: pa.Schema) -> ir.Table:
    """DuckDB opens each file once for a query, and not before it: a view of them would be read when it is made."""
    import ibis

    # DuckDB names each file as it was asked for.
    root = Path(storage.uri()).absolute()
    days = {f"{root}/{file.path}": day for day, some in files.items() for file in some}
    named = _registered(connection, pa.table({_FILE: list(days), _FILE_DAY: pa.array(days.values(), pa.date32())}))
    # No file needs to have a column that is declared.
    none = _registered(connection, declared.remove(declared.get_field_index(DAY)).empty_table())
    paths = f"paths_of_{named.get_name()}"
    connection.con.execute(f'SET VARIABLE "{paths}" = ?', [[_PATTERN.sub(r"[\1]", path) for path in days]])
    schema = ibis.Schema.from_pyarrow(declared)
    kinds = {name: connection.compiler.type_mapper.to_string(kind) for name, kind in schema.items()}
    columns = ", ".join(
        f'CAST("{_FILE_DAY if name == DAY else name}" AS {kind}) AS "{name}"' for name, kind in kinds.items()
    )
    return connection.sql(
        f"""
        FROM (
            FROM "{none.get_name()}" UNION ALL BY NAME
            FROM read_parquet(
                getvariable('{paths}'), filename = '{_FILE}', hive_partitioning = false, union_by_name = true
            ) INNER JOIN "{named.get_name()}" USING ("{_FILE}")
        ) AS read
        SELECT {columns}
        """,
        schema=schema,
    )


def _from_store(connection: Backend, storage: Storage, files: DayFiles, declared: pa.Schema) -> ir.Table:
    """Arrow reads, with its own file system for the store, and DuckDB takes batch after batch."""
    import pyarrow.dataset as ds

    parquet, filesystem = ds.ParquetFileFormat(), storage.filesystem()
    fragments = [
        parquet.make_fragment(file.path, filesystem, partition_expression=ds.field(DAY) == pa.scalar(day))
        for day, some in files.items()
        for file in some
    ]
    return _registered(connection, ds.FileSystemDataset(fragments, declared, parquet, filesystem))


def _registered(connection: Backend, rows: pa.Table | ds.Dataset) -> ir.Table:
    """``rows`` under a name of their own: a view, of which nothing is copied."""
    from ibis.util import gen_name

    name = gen_name("rows")
    connection.con.register(name, rows)
    return connection.table(name)
