"""Rows in and out of the lakehouse through Spark: published days as inputs, computed days into a timeline."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill_assets.datasets.contract import as_declared
from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.publication import InputRead
from backfill_assets.lakehouse.storage import Storage, literal_path
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import written_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_FILES = 1_000
_MOST_FOLDERS = 8
_WRITE = "write-id"
"""The folders that one timeline was written to look like partitions, so that Spark reads all of them at once. It is no
name that a column could have."""


def published_rows(spark: SparkSession, storage: Storage, read: InputRead, schema: StructType) -> DataFrame:
    """The days of a published table at the version it was pinned to, in the shape of ``schema``.

    A table that was never published (version None) has no rows. Columns that ``schema`` gained since read as null.
    """
    if read.version is None:
        return spark.createDataFrame([], schema)
    by_day = read_log(storage, read.table, read.version).of_days(read.days)
    found = _file_rows(spark, storage, read.table, [file for files in by_day.values() for file in files], schema)
    if found is not None:
        return found
    rows = spark.read.format("delta").option("versionAsOf", read.version).load(storage.spark_uri(read.table))
    return _shaped(rows.where(_in_days(read.days)), schema)


def staged_rows(spark: SparkSession, timeline: Timeline, days: Iterable[str] | None = None) -> DataFrame:
    """The rows that a timeline holds, of all its days or of ``days``."""
    return rows_of_files(spark, timeline, timeline.files(days))


def rows_of_files(spark: SparkSession, timeline: Timeline, files: Sequence[AddedFile]) -> DataFrame:
    """The rows of ``files``, as ``timeline`` names them: all of its files, or those of one write."""
    schema = StructType.fromJson(json.loads(timeline.schema()))
    parts = [
        _file_rows(spark, timeline.storage, timeline.path, files[start : start + _MOST_FILES], schema)
        for start in range(0, len(files), _MOST_FILES)
    ]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        raise LakehouseUnusable(
            f"The timeline {timeline.path} has files outside the folders of their days.",
            hint="Nothing here writes such files: look who did, remove the timeline, and run the days again.",
        )
    return _all_of(found) if found else spark.createDataFrame([], schema)


def stage(rows: DataFrame, timeline: Timeline, staged: Mapping[str, StagedAs], *, other_days: bool = False) -> None:
    """Write computed days into ``timeline`` in one Spark job, and record which days and from what, in one commit.

    Spark writes plain Parquet into a folder that nobody else knows, and delta-rs commits what is there then: Delta's
    own writer takes a second or more for each write, however little it has to write, and looks at every row once more
    for statistics that Parquet's footers have as well. A job that dies leaves files that no log names.

    A day without rows is recorded like any other. Raises :class:`PublicationRefused` when there are rows of a day that
    is not in ``staged``, unless ``other_days`` are wanted: the transform made up days it was not asked for.
    """
    folder = f"{_WRITE}={uuid.uuid4().hex[:12]}"
    rows.write.partitionBy(PARTITION_COLUMN).parquet(f"{timeline.spark_uri}/{folder}")
    files = written_files(timeline.storage, timeline.path, folder)
    stray = {file.day for file in files} - staged.keys()
    if stray and not other_days:
        raise PublicationRefused(
            f"{timeline.table}: rows were computed for {', '.join(sorted(stray)[:5])}, which nobody asked for.",
            hint="A transform may only return rows of the days it was given; correct it in a new version.",
        )
    timeline.add(files, _all_nullable(rows.schema), staged)


def _all_nullable(schema: StructType) -> str:
    """As every published table has it, within lists and structures too: what may be null is for contracts to say."""
    return json.dumps(schema.toNullable().jsonValue())


def _file_rows(
    spark: SparkSession, storage: Storage, table: str, files: Sequence[AddedFile], schema: StructType
) -> DataFrame | None:
    """The rows of ``files``, named one by one: to find them, Delta would first run several small jobs of its own.

    None where only Delta can: a path does not say its day, or there are more files or folders than are worth naming.
    """
    folders: dict[str, list[str]] = {}
    for file in files:
        folder, _, day = file.path.rpartition("/")[0].rpartition("/")
        if day != f"{PARTITION_COLUMN}={file.day}":
            return None
        before, _, last = folder.rpartition("/")
        folder = before if last.startswith(f"{_WRITE}=") else folder
        folders.setdefault(folder, []).append(literal_path(storage.spark_uri(f"{table}/{file.path}")))
    if len(files) > _MOST_FILES or len(folders) > _MOST_FOLDERS:
        return None
    parts = [
        spark.read.schema(schema)
        .option("basePath", storage.spark_uri(f"{table}/{folder}".rstrip("/")))
        .parquet(*paths)
        .select(*schema.names)
        for folder, paths in folders.items()
    ]
    return _all_of(parts) if parts else spark.createDataFrame([], schema)


def _all_of(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), parts)


def _in_days(days: Iterable[str]) -> str:
    """A partition filter. The days are ours (parsed dates), so they can stand in SQL."""
    listed = ", ".join(f"DATE'{day}'" for day in sorted(set(days)))
    return f"{PARTITION_COLUMN} IN ({listed})" if listed else "false"


def _shaped(rows: DataFrame, schema: StructType) -> DataFrame:
    present = set(rows.columns)
    return rows.select(
        *(F.col(field.name) if field.name in present else as_declared(F.lit(None), field) for field in schema.fields)
    )
