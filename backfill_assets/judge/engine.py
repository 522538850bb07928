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
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import spark_types
from backfill_assets.model.measure import hash_columns

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow.dataset as ds
    from ibis.backends.duckdb import Backend

    from backfill_assets.model.contract import Contract

DAY = "day"
DayFiles = Mapping[date, Sequence[AddedFile]]
"""The files that have the rows of each day, as the lakehouse names them."""
LabelledFiles = Mapping[Any, Sequence[AddedFile]]
"""The same with any label in place of the day."""
SHARE_OF_MEMORY = 0.25
"""As much of the machine's as Spark's driver takes. What needs more is written to a temporary folder."""
_FILE, _LABEL = "its file", "its label"
"""No column has a space in its name."""
_PATTERN = re.compile(r"([*?\[])")


def files_by_day(folder: str, files: Iterable[AddedFile]) -> DayFiles:
    """``files`` of the Delta table in ``folder`` of a lakehouse, by day."""
    found: dict[date, list[AddedFile]] = {}
    for file in files:
        found.setdefault(date.fromisoformat(file.day), []).append(file.below(folder))
    return found


@contextmanager
def engine(**more: int) -> Iterator[Backend]:
    """A DuckDB without tables. It counts in UTC, and looks for no extension outside this package.

    ``more`` of its settings: by itself it takes all cores, and the least CPU time with ``threads=1``.
    """
    import ibis
    import psutil

    with TemporaryDirectory(prefix="backfill-judge-") as spill:
        connection = ibis.duckdb.connect(
            memory_limit=f"{int(psutil.virtual_memory().total * SHARE_OF_MEMORY)}B",
            temp_directory=spill,
            preserve_insertion_order=False,
            autoinstall_known_extensions=False,
            enable_external_file_cache=False,
            **more,
        )
        try:
            yield connection
        finally:
            connection.disconnect()


def declared_types(contract: type[Contract]) -> dict[str, pa.DataType]:
    """How files have each column, without the day, which is that of their folder."""
    return {name: to_arrow_type(kind, timezone="UTC") for name, kind in spark_types(contract).items() if name != DAY}


def columns_of(contract: type[Contract], *, hashed: bool = False) -> pa.Schema:
    """How rows of ``contract`` are read: its columns, with those that have ``hashed`` them, and the day."""
    hashes = [(name, pa.int64()) for name in hash_columns(contract)] if hashed else []
    return pa.schema([*declared_types(contract).items(), *hashes, (DAY, pa.date32())])


def rows_of_files(
    connection: Backend, storage: Storage, contract: type[Contract], files: DayFiles, *, hashed: bool = False
) -> ir.Table:
    """The rows of ``files`` with :func:`columns_of` ``contract``: one that a file lacks is null. Nothing is read yet.

    Their ``day`` is the one that ``files`` names. A file's own types are cast to those that are declared.
    """
    return labelled_rows(connection, storage, columns_of(contract, hashed=hashed), DAY, files)


def labelled_rows(
    connection: Backend, storage: Storage, columns: pa.Schema, label: str, files: LabelledFiles
) -> ir.Table:
    """Like :func:`rows_of_files`, with ``columns``: one of them is the ``label`` that ``files`` give each file."""
    import ibis

    if not any(files.values()):
        return _registered(connection, columns.empty_table())
    if storage.is_folder:
        return _from_folder(connection, storage, columns, label, files)
    read = _from_store(connection, storage, columns, label, files)
    return read.select(**{name: read[name].cast(kind) for name, kind in ibis.Schema.from_pyarrow(columns).items()})


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


def _from_folder(
    connection: Backend, storage: Storage, columns: pa.Schema, label: str, files: LabelledFiles
) -> ir.Table:
    """DuckDB opens each file once for a query, and not before it: a view of them would be read when it is made."""
    import ibis

    # DuckDB names each file as it was asked for.
    root = Path(storage.uri()).absolute()
    labels = {f"{root}/{file.path}": key for key, some in files.items() for file in some}
    of_files = pa.array(labels.values(), columns.field(label).type)
    named = _registered(connection, pa.table({_FILE: list(labels), _LABEL: of_files}))
    # No file needs to have a column that is declared.
    none = _registered(connection, columns.remove(columns.get_field_index(label)).empty_table())
    paths = f"paths_of_{named.get_name()}"
    connection.con.execute(f'SET VARIABLE "{paths}" = ?', [[_PATTERN.sub(r"[\1]", path) for path in labels]])
    schema = ibis.Schema.from_pyarrow(columns)
    kinds = {name: connection.compiler.type_mapper.to_string(kind) for name, kind in schema.items()}
    listed = ", ".join(
        f'CAST("{_LABEL if name == label else name}" AS {kind}) AS "{name}"' for name, kind in kinds.items()
    )
    return connection.sql(
        f"""
        FROM (
            FROM "{none.get_name()}" UNION ALL BY NAME
            FROM read_parquet(
                getvariable('{paths}'), filename = '{_FILE}', hive_partitioning = false, union_by_name = true
            ) INNER JOIN "{named.get_name()}" USING ("{_FILE}")
        ) AS read
        SELECT {listed}
        """,
        schema=schema,
    )


def _from_store(
    connection: Backend, storage: Storage, columns: pa.Schema, label: str, files: LabelledFiles
) -> ir.Table:
    """Arrow reads, with its own file system for the store, and DuckDB takes batch after batch."""
    import pyarrow.dataset as ds

    parquet, filesystem, kind = ds.ParquetFileFormat(), storage.filesystem(), columns.field(label).type
    fragments = [
        parquet.make_fragment(file.path, filesystem, partition_expression=ds.field(label) == pa.scalar(key, kind))
        for key, some in files.items()
        for file in some
    ]
    return _registered(connection, ds.FileSystemDataset(fragments, columns, parquet, filesystem))


def _registered(connection: Backend, rows: pa.Table | ds.Dataset) -> ir.Table:
    """``rows`` under a name of their own: a view, of which nothing is copied."""
    from ibis.util import gen_name

    name = gen_name("rows")
    connection.con.register(name, rows)
    return connection.table(name)
