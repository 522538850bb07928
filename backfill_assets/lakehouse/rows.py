from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.records import InputRead
from backfill_assets.lakehouse.storage import Storage, literal_path
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import WRITE, write_folder, written_files
from backfill_assets.model.checks import as_declared, struct_type
from backfill_assets.model.declaration import Table
from backfill_assets.model.measure import hashes_written_of, is_hash
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_PART = "write-part"
"""Older folders have it for :data:`WRITE`."""
_MOST_FILES = 1_000
_MOST_FOLDERS = 8
_COUNT_SECONDS = 120.0
_COMPRESSED = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
_DIFFERENT_IN_EACH_ROW = ("content_hash", "source_line")


def published_rows(spark: SparkSession, storage: Storage, read: InputRead, schema: StructType) -> DataFrame:
    """Empty for a table never published; columns that ``schema`` gained since are null."""
    if read.version is None:
        return spark.createDataFrame([], schema)
    by_day = read_log(storage, read.table, read.version).of_days(read.days)
    files = [file for of_day in by_day.values() for file in of_day]
    # Named one by one: else Delta first runs several small jobs to find them.
    if len(files) <= _MOST_FILES and all(map(_lies_in_its_day, files)):
        return _named_rows(spark, storage, read.table, files, schema)
    rows = spark.read.format("delta").option("versionAsOf", read.version).load(storage.spark_uri(read.table))
    return _with_schema(rows.where(_in_days(read.days)), schema)


def rows_as_of(rows: DataFrame, held: Mapping[date, date]) -> DataFrame:
    """``rows`` repeated for each day on which they hold; ``held`` maps it to the rows' day."""
    pairs = rows.sparkSession.createDataFrame(sorted(held.items()), "day date, held_day date")
    columns = (F.col(f"rows.{name}") for name in rows.columns if name != "day")
    return (
        rows.alias("rows")
        .join(F.broadcast(pairs.alias("held")), F.col("rows.day") == F.col("held.held_day"))
        .select(*columns, F.col("held.day").alias("day"))
    )


def rows_of_files(spark: SparkSession, timeline: Timeline, files: Sequence[AddedFile]) -> DataFrame:
    schema = StructType.fromJson(json.loads(timeline.schema()))
    if not all(map(_lies_in_its_day, files)):
        raise LakehouseUnusable(
            f"The timeline {timeline.path} has files outside the folders of their days.",
            hint="Nothing here writes such files: look who did, remove the timeline, and run the days again.",
        )
    return _all_of(spark, _in_parts(spark, timeline.storage, timeline.path, files, schema), schema)


def rows_of_main_files(
    spark: SparkSession, storage: Storage, table: str, files: Sequence[AddedFile], schema: StructType
) -> DataFrame:
    """Files of any versions; the add action has the day, as foreign files lie anywhere."""
    ordered = sorted(files, key=lambda file: file.path)
    parts = _in_parts(spark, storage, table, [file for file in ordered if _lies_in_its_day(file)], schema)
    parts += [_foreign_rows(spark, storage, table, file, schema) for file in ordered if not _lies_in_its_day(file)]
    return _all_of(spark, parts, schema)


def _foreign_rows(spark: SparkSession, storage: Storage, table: str, file: AddedFile, schema: StructType) -> DataFrame:
    return (
        spark.read.schema(_without_day(schema))
        .parquet(literal_path(storage.spark_uri(f"{table}/{file.path}")))
        .withColumn(PARTITION_COLUMN, F.lit(file.day).cast("date"))
        .select(*schema.names)
    )


def _lies_in_its_day(file: AddedFile) -> bool:
    return file.path.rpartition("/")[0].rpartition("/")[2] == f"{PARTITION_COLUMN}={file.day}"


FILE = "file of the row"


def rows_and_files(spark: SparkSession, storage: Storage, table: Table, files: Sequence[AddedFile]) -> DataFrame:
    """One scan, with paths as :data:`FILE`. Raises :class:`LookupError` for an unknown path."""
    if not all(map(_lies_in_its_day, files)):
        raise LookupError(f"{table.name} has files outside the folders of their days.")
    schema = struct_type(table.contract)
    if not files:
        return spark.createDataFrame([], schema).withColumn(FILE, F.lit(""))
    return _scan(spark, _paths(storage, table.name, files), schema)


def _scan(spark: SparkSession, paths: Sequence[str], schema: StructType) -> DataFrame:
    """The path has the day: Spark discovers partitions below one base path only."""
    rows = spark.read.schema(_without_day(schema)).option("recursiveFileLookup", "true").parquet(*paths)
    path = F.col("_metadata.file_path")
    return rows.select("*", path.alias(FILE), _day_of(path).alias(PARTITION_COLUMN)).select(*schema.names, FILE)


def _paths(storage: Storage, folder: str, files: Iterable[AddedFile]) -> list[str]:
    return [literal_path(storage.spark_uri(f"{folder}/{file.path}")) for file in files]


def _without_day(schema: StructType) -> StructType:
    return StructType([field for field in schema.fields if field.name != PARTITION_COLUMN])


def path_in(table: str, file: str) -> str:
    return unquote(file).rpartition(f"/{table}/")[2]


def stage(
    rows: DataFrame,
    timeline: Timeline,
    staged: Mapping[date, StagedAs],
    *,
    table: Table | None = None,
    other_days: bool = False,
) -> list[AddedFile]:
    """Write computed days into ``timeline`` in one Spark job, and record them in one commit.

    Row hashes of a declared ``table`` are columns that Delta's schema lacks. A job that dies leaves unnamed files.

    Raises :class:`PublicationRefused` for days not ``staged``, unless ``other_days``, and :class:`LakehouseUnusable`
    for other rows than Spark counted.
    """
    files = write(rows, timeline, table)
    take_in(files, rows.schema, timeline, staged, other_days=other_days)
    return files


def write(rows: DataFrame, timeline: Timeline, table: Table | None = None) -> list[AddedFile]:
    """Half of :func:`stage`: files that no log names yet. Several writes may run at once."""
    folder, written = write_folder(), Observation()
    hashes = hashes_written_of(table) if table else ()
    hashed = rows.select("*", *(each.column().alias(each.name) for each in hashes))
    counted = hashed.observe(written, F.count(F.lit(1)).alias("rows"))
    writer = counted.write.options(**_COMPRESSED, **_without_dictionaries(hashed.schema, table.key if table else ()))
    writer.partitionBy(PARTITION_COLUMN).parquet(f"{timeline.spark_uri}/{folder}")
    files = written_files(timeline.storage, timeline.path, folder)
    _require_rows(files, int(observed(written).get("rows", 0)), f"{timeline.path}/{folder}")
    return files


def take_in(
    files: Sequence[AddedFile],
    schema: StructType,
    timeline: Timeline,
    staged: Mapping[date, StagedAs],
    *,
    other_days: bool = False,
) -> None:
    stray = {file.day for file in files} - {str(day) for day in staged}
    if stray and not other_days:
        raise PublicationRefused(
            f"{timeline.table}: rows were computed for {', '.join(sorted(stray)[:5])}, which were not asked for.",
            hint="A transform may only return rows of the days it was given; correct it in a new version.",
        )
    timeline.add(files, nullable_schema(schema), staged)


def _without_dictionaries(schema: StructType, key: Sequence[str]) -> dict[str, str]:
    moments = [field.name for field in schema.fields if isinstance(field.dataType, TimestampType)]
    hashes = filter(is_hash, schema.names)
    names = {*moments, *hashes, *_DIFFERENT_IN_EACH_ROW, *(key if len(key) == 1 else ())}
    return {f"parquet.enable.dictionary#{name}": "false" for name in names.intersection(schema.names)}


def observed(written: Observation, patience: float = _COUNT_SECONDS) -> dict[str, Any]:
    """Raises :class:`LakehouseUnusable` if Spark reports too late."""
    answer: Future[dict[str, Any]] = Future()

    def ask() -> None:
        try:
            answer.set_result(written.get)
        except BaseException as error:
            answer.set_exception(error)

    # Embedded Spark reports by an event, drops events when its queue is full, and then waits forever. A daemon thread
    # does not keep the process alive.
    threading.Thread(target=ask, name="rows-written", daemon=True).start()
    try:
        return answer.result(patience)
    except TimeoutError:
        raise LakehouseUnusable(
            f"Spark wrote rows and did not report within {patience:.0f} s how many.",
            hint="Nothing was published. Raise spark.scheduler.listenerbus.eventqueue.capacity and run the days again.",
        ) from None


def _require_rows(files: Sequence[AddedFile], written: int, folder: str) -> None:
    """Given-up tasks may leave files."""
    held = sum(file.rows for file in files)
    if held != written:
        raise LakehouseUnusable(
            f"Spark wrote {format_count(written, 'row')} to {folder}. The files there ({len(files)}) hold {held:,}.",
            hint="Nothing was published. Run the days again: they are written to a new folder.",
        )


def nullable_schema(schema: StructType) -> str:
    """Like published tables: contracts say what may be null."""
    return json.dumps(schema.toNullable().jsonValue())


def _in_parts(
    spark: SparkSession, storage: Storage, table: str, files: Sequence[AddedFile], schema: StructType
) -> list[DataFrame]:
    starts = range(0, len(files), _MOST_FILES)
    return [_named_rows(spark, storage, table, files[start : start + _MOST_FILES], schema) for start in starts]


def _named_rows(
    spark: SparkSession, storage: Storage, table: str, files: Sequence[AddedFile], schema: StructType
) -> DataFrame:
    folders: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for file in files:
        folder, names = _write_of(file.path.rpartition("/")[0].rpartition("/")[0])
        folders.setdefault((folder, names), []).extend(_paths(storage, table, [file]))
    if len(folders) > _MOST_FOLDERS:  # a stream leaves a folder for each batch
        return _scan(spark, _paths(storage, table, files), schema).drop(FILE)
    # Spark takes a folder's name as it is only for a declared type. Otherwise it tries numbers first, even with type
    # inference off, and would compute 3e0228148540.
    parts = [
        spark.read.schema(StructType([*schema.fields, *(StructField(name, StringType()) for name in names)]))
        .option("basePath", storage.spark_uri(f"{table}/{folder}".rstrip("/")))
        .parquet(*paths)
        .select(*schema.names)
        for (folder, names), paths in folders.items()
    ]
    return _all_of(spark, parts, schema)


def _write_of(folder: str) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []
    before, _, last = folder.rpartition("/")
    while (name := last.partition("=")[0]) in (WRITE, _PART):
        names.append(name)
        folder = before
        before, _, last = folder.rpartition("/")
    return folder, tuple(names)


def _day_of(path: Column) -> Column:
    folder = F.substring_index(F.substring_index(path, "/", -2), "/", 1)
    return F.substring(folder, len(PARTITION_COLUMN) + 2, 10).cast("date")


def _all_of(spark: SparkSession, parts: Sequence[DataFrame], schema: StructType) -> DataFrame:
    return reduce(lambda one, other: one.union(other), parts) if parts else spark.createDataFrame([], schema)


def _in_days(days: Iterable[date]) -> str:
    listed = ", ".join(f"DATE'{day}'" for day in sorted(set(days)))
    return f"{PARTITION_COLUMN} IN ({listed})" if listed else "false"


def _with_schema(rows: DataFrame, schema: StructType) -> DataFrame:
    present = set(rows.columns)
    return rows.select(
        *(F.col(field.name) if field.name in present else as_declared(F.lit(None), field) for field in schema.fields)
    )
