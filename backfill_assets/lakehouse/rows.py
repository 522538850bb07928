"""Rows in and out of the lakehouse through Spark: published days as inputs, computed days into a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_assets.datasets.contract import as_declared
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.publication import InputRead
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline, TimelineEntry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def published_rows(spark: SparkSession, storage: Storage, read: InputRead, schema: StructType) -> DataFrame:
    """The days of a published table at the version it was pinned to, in the shape of ``schema``.

    A table that was never published (version None) has no rows. Columns that ``schema`` gained since read as null.
    """
    if read.version is None:
        return spark.createDataFrame([], schema)
    rows = spark.read.format("delta").option("versionAsOf", read.version).load(storage.spark_uri(read.table))
    return _shaped(rows.where(_in_days(read.days)), schema)


def staged_rows(spark: SparkSession, timeline: Timeline, days: Iterable[str] | None = None) -> DataFrame:
    """The rows that a timeline holds, of all its days or of ``days``."""
    rows = spark.read.format("delta").load(timeline.spark_uri)
    return rows if days is None else rows.where(_in_days(days))


def stage(rows: DataFrame, timeline: Timeline, staged: Mapping[str, StagedAs]) -> None:
    """Append computed days to ``timeline`` in one Spark job, and record which days and from what, in that commit.

    A day without rows is recorded like any other. Raises :class:`PublicationRefused` when a file was written for a
    day that is not in ``staged``: the transform made up days it was not asked for.
    """
    entry = TimelineEntry(staged=dict(staged))
    (
        rows.write.format("delta")
        .mode("append")
        .partitionBy(PARTITION_COLUMN)
        .option("userMetadata", entry.model_dump_json())
        .save(timeline.spark_uri)
    )


def refuse_other_days(timeline: Timeline) -> None:
    """Raise when ``timeline`` has files of days that no commit lists as staged."""
    stray = timeline.days_with_files() - timeline.days().keys()
    if stray:
        raise PublicationRefused(
            f"{timeline.table}: rows were computed for {', '.join(sorted(stray)[:5])}, which nobody asked for.",
            hint="A transform may only return rows of the days it was given; correct it in a new version.",
        )


def _in_days(days: Iterable[str]) -> str:
    """A partition filter. The days are ours (parsed dates), so they can stand in SQL."""
    listed = ", ".join(f"DATE'{day}'" for day in sorted(set(days)))
    return f"{PARTITION_COLUMN} IN ({listed})" if listed else "false"


def _shaped(rows: DataFrame, schema: StructType) -> DataFrame:
    present = set(rows.columns)
    return rows.select(
        *(F.col(field.name) if field.name in present else as_declared(F.lit(None), field) for field in schema.fields)
    )
