"""Rows of a table of others, pinned, with tokens for personal values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import contiguous
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.external.delta_table import DeltaTableOfOthers
from backfill_assets.external.files import VERSION
from backfill_assets.external.observe import require_observed, there_of
from backfill_assets.external.parquet_folder import ParquetFolderOfOthers
from backfill_assets.lakehouse.records import DayContent, DayRecord, InputRead
from backfill_assets.lakehouse.storage import Storage, literal_path
from backfill_assets.landing.token_key import tokens_by
from backfill_assets.model.checks import struct_type
from backfill_assets.model.external_table import ExternalTable, on_days
from backfill_assets.model.placement import IN_UTC
from backfill_assets.spark.workers import carrying, require_workers
from backfill_assets.state.view import View

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_A_DAY = timedelta(days=1)


DaysToRead = Mapping[int, Mapping[date, DayContent]]
"""Recorded contents, by version."""


def external_rows(
    spark: SparkSession,
    external: ExternalTable,
    days: DaysToRead,
    token_key_file: str,
) -> DataFrame:
    """Opens no files of other days. Raises :class:`LakehouseUnusable` for a cleaned-up version, and for other files
    than observed.
    """
    schema, there = struct_type(on_days(external.contract)), there_of(external)
    parts = [
        _rows_of(_at_version(spark, there, version, of), external, of, schema)
        if isinstance(there, DeltaTableOfOthers)
        else _rows_of(_of_files(spark, there, of, schema), external, of, schema)
        for version, of in days.items()
        if of
    ]
    rows = reduce(lambda one, other: one.union(other), parts) if parts else spark.createDataFrame([], schema)
    return _with_tokens(rows, external.personal, token_key_file) if external.personal else rows


def require_as_looked_at(external: ExternalTable, days: DaysToRead) -> None:
    """Raises :class:`LakehouseUnusable` if a folder's files changed during reading."""
    there = there_of(external)
    if isinstance(there, ParquetFolderOfOthers):
        for of in days.values():
            there.paths_of(of)


def days_to_read(
    storage: Storage,
    external: ExternalTable,
    read: InputRead,
    contents: Mapping[date, DayContent],
    laid: Mapping[date, DayRecord],
) -> DaysToRead:
    """Days of ``read`` by version: main's when pinned. Days ``laid`` over main have the newest version unless moved
    since, else the one observed.
    """
    found: dict[int, dict[date, DayContent]] = {}
    if through := read.days.keys() - laid.keys():
        version = require_observed(storage, external, read.version).version
        found[version] = {day: contents[day] for day in sorted(through) if day in contents}
    if not laid:
        return found
    newest = View.newest(storage)
    now, at = newest.records([external.name])[external.name], newest.versions.get(external.name)
    for day, record in laid.items():
        is_still = day in now and now[day].logical == record.logical
        version = require_observed(storage, external, at).version if is_still else _looked_at_in(external, record)
        found.setdefault(version, {})[day] = now[day].measured if is_still else record.measured
    return found


def _looked_at_in(external: ExternalTable, record: DayRecord) -> int:
    version = record.measured.metrics.get(VERSION)
    if not isinstance(version, int):
        raise LakehouseUnusable(f"{external.name} {record.day} was never looked at.")
    return version


def _rows_of(rows: DataFrame, external: ExternalTable, days: Collection[date], schema: T.StructType) -> DataFrame:
    (day,) = (each for each in rows.schema if each.name.lower() == external.day.lower())
    column, types = F.col(f"`{day.name}`"), {each.name: each.dataType for each in schema}
    chosen = rows.where(_may_be_of(column, day.dataType, days))
    on_days = chosen.withColumn(_DAY, _day_of(column, day.dataType, external.event_zone))
    there = {**external.columns, "day": _DAY}
    return on_days.where(F.col(_DAY).isin([*days])).select(
        *(F.col(f"`{there[name]}`").cast(types[name]).alias(name) for name in schema.names)
    )


def _of_files(
    spark: SparkSession, there: ParquetFolderOfOthers, days: Mapping[date, DayContent], schema: T.StructType
) -> DataFrame:
    external = there.external
    paths = list(map(literal_path, there.paths_of(days)))
    types = {external.columns[each.name]: each.dataType for each in schema if each.name in external.columns}
    kinds = {**types, external.day: there.type_of_day()}
    asked = T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
    if not paths:
        return spark.createDataFrame([], asked)
    return spark.read.schema(asked).option("basePath", there.spark_uri).parquet(*paths)


_DAY = "the day of the row"


def _at_version(spark: SparkSession, there: DeltaTableOfOthers, version: int, days: Collection[date]) -> DataFrame:
    from pyspark.errors import PySparkException

    if gone := there.cleaned_up(version, days):
        raise _cleaned_up(there, version, f"its file {gone} is gone")
    try:
        rows = spark.read.format("delta").option("versionAsOf", version).load(there.spark_uri)
        rows.schema  # noqa: B018 - Connect analyses a plan only on access
    except PySparkException as error:
        raise _cleaned_up(there, version, str(error).strip().splitlines()[0]) from error
    return rows


def _cleaned_up(there: DeltaTableOfOthers, version: int, why: str) -> LakehouseUnusable:
    return LakehouseUnusable(
        f"Version {version} of {there.external.name} cannot be read any more: {why}",
        hint="Others have cleaned it up. Run on main again, which looks at the newest version; what was published "
        "of it stays as it is, and cannot be computed again from just these rows.",
    )


def _day_of(column: Column, kind: T.DataType, zone: str) -> Column:
    """Sessions are in UTC."""
    if isinstance(kind, T.StringType):
        return F.try_to_timestamp(F.substring(column, 1, 10), F.lit("yyyy-MM-dd")).cast("date")
    if isinstance(kind, T.TimestampType) and zone != IN_UTC:
        return F.to_date(F.from_utc_timestamp(column, zone))
    return F.to_date(column)


def _may_be_of(column: Column, kind: T.DataType, days: Collection[date]) -> Column:
    """On the raw column, so that Delta skips files."""

    def between(first: date, last: date) -> Column:
        if isinstance(kind, T.DateType):
            return column.between(F.lit(first), F.lit(last))
        if isinstance(kind, T.StringType):
            return (column >= F.lit(str(first))) & (column < F.lit(str(last + _A_DAY)))
        # Clocks are less than a day from UTC.
        return (column >= F.lit(str(first - _A_DAY)).cast(kind)) & (column < F.lit(str(last + 2 * _A_DAY)).cast(kind))

    return reduce(or_, (between(each.first, each.last) for each in contiguous(days)), F.lit(False))


# ------------------------------------------------------------------ tokens of personal values


def _with_tokens(rows: DataFrame, columns: Sequence[str], key_file: str) -> DataFrame:
    """Workers read the key from a file: no plan has it."""
    require_workers(rows.sparkSession)
    tokenised = partial(_tokenised, columns=tuple(columns), key_file=key_file)
    return rows.mapInArrow(carrying(tokenised), rows.schema)


def _tokenised(batches: Iterator[pa.RecordBatch], columns: Sequence[str], key_file: str) -> Iterator[pa.RecordBatch]:
    tokens = tokens_by(Path(key_file))
    for batch in batches:
        made = {name: tokens(batch.column(name).cast(pa.string())) for name in columns}
        arrays = [made.get(name, batch.column(name)) for name in batch.schema.names]
        yield pa.RecordBatch.from_arrays(arrays, batch.schema.names)
