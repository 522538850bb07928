"""Deletions: how rows that a source took back are cancelled in raw, which keeps them, and left out when raw is read.

A refresh finds them as what a file does not have any more. A tombstone, an event without a value, names their key: it
deletes the rows of that key that came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayState
from backfill_assets.landing.raw_rows import rows_of_lines
from backfill_assets.model.canonical import key_text
from backfill_assets.model.declaration import Source, Table
from backfill_assets.model.deletion import DELETED, DELETION

_ARRIVAL, _COUNTS = "arrival_day", "rows left"
_KEY, _DAY, _BY_FILE, _BY_LINE = "deleted key", "deleted day", "deleted by file", "deleted by line"
"""No landed field has a space in its name."""


def days_with_deletions(states: Mapping[TableDay, DayState], table: Table, days: Iterable[date]) -> list[date]:
    """Those of ``days`` of a raw table that have deletions, or may have some: where ``states`` does not say it.

    None of any other table. No state at all is that of an earlier moment, which the log was not asked for.
    """
    if table.layer != "raw":
        return []
    return [day for day in days if not states or _may_have_deletions(states.get(TableDay(table.name, day)))]


def _may_have_deletions(state: DayState | None) -> bool:
    return state is not None and (state.content is None or DELETED in state.content.metrics)


def rows_that_stand(
    states: Mapping[TableDay, DayState], table: Table, days: Sequence[date], rows: Callable[[Sequence[date]], DataFrame]
) -> DataFrame:
    """What ``rows`` reads of ``days`` of a table; of raw days with deletions, and only of these, what stands."""
    corrected = days_with_deletions(states, table, days)
    if not corrected:
        return rows(days)
    others = [day for day in days if day not in corrected]
    standing = standing_rows(rows(corrected))
    return rows(others).unionByName(standing) if others else standing


def standing_rows(raw: DataFrame) -> DataFrame:
    """``raw`` without its deletions, and without one equal row for each of them.

    A deletion does not say when the row that it cancels arrived: the place of a row does. Of equal rows it makes no
    difference which one goes, so the rest is the same in any order.
    """
    kinds = raw.withColumns({_COUNTS: F.when(_is_deletion(), -1).otherwise(1), "record_kind": _kind()})
    same = kinds.groupBy(*(name for name in raw.columns if name != _ARRIVAL))
    left = same.agg(F.max(_ARRIVAL).alias(_ARRIVAL), F.sum(_COUNTS).cast("int").alias(_COUNTS)).where(
        F.col(_COUNTS) > 0
    )
    return left.withColumn(_COUNTS, F.explode(F.array_repeat(F.lit(0), F.col(_COUNTS)))).select(*raw.columns)


def as_deletions(rows: DataFrame) -> DataFrame:
    """The rows that cancel ``rows``, which are raw rows that stand."""
    return rows.withColumns({"record_kind": F.lit(DELETION), "arrival_day": F.lit(None).cast("date")})


def _is_deletion() -> Column:
    return F.col("record_kind") == DELETION


def _kind() -> Column:
    """What a row is, and of a deletion what it cancels: a marker is the only row without a file."""
    cancelled = F.when(F.col("source_file").isNull(), "supersession").otherwise("received")
    return F.when(_is_deletion(), cancelled).otherwise(F.col("record_kind"))


# ------------------------------------------------------------------ tombstones


def key_line(source: Source, key: Column) -> Column:
    """The key of an event as a landed line: a JSON object; or, where the key is one field, its text."""
    if len(source.key_fields) > 1:
        return key
    (name,) = source.key_fields
    return F.when(F.startswith(F.ltrim(key), F.lit("{")), key).otherwise(F.to_json(F.struct(key.alias(name))))


def tombstones(
    spark: SparkSession, source: Source, lines: DataFrame, token_key_file: str, today: date | None = None
) -> DataFrame:
    """The key that each of ``lines`` deletes, and the event that does; null for a key that cannot be read.

    ``lines`` are those of :func:`~backfill_assets.landing.raw_rows.rows_of_lines`, with :func:`key_line` as values. A
    key that names the day of the event, too, is that of a row on that day.
    """
    rows = rows_of_lines(spark, source, lines, token_key_file, today)
    readable = reduce(and_, (F.length(name) > 0 for name in source.key_columns))
    return rows.select(
        F.when(readable, _key(source)).alias(_KEY),
        F.when(~F.col("day_is_arrival"), F.col("day")).alias(_DAY),
        F.col("source_file").alias(_BY_FILE),
        F.col("source_line").alias(_BY_LINE),
    )


def unreadable(tombs: DataFrame) -> Column:
    """Whether one of ``tombs`` names no key of its source."""
    return tombs[_KEY].isNull()


def is_event(tombs: DataFrame, file: Column, line: Column) -> Column:
    """Whether one of ``tombs`` is the event that ``file`` and ``line`` name."""
    return (tombs[_BY_FILE] == file) & (tombs[_BY_LINE] == line)


def rows_of_keys(source: Source, raw: DataFrame, tombs: DataFrame) -> DataFrame:
    """The rows of ``raw`` with a key that one of ``tombs`` deletes; also their deletions, and rows that came later."""
    return raw.join(F.broadcast(tombs), _is_of(source, raw, tombs), "left_semi")


def deletions_by(source: Source, raw: DataFrame, tombs: DataFrame) -> DataFrame:
    """The rows that cancel what ``tombs`` delete of ``raw``: each received row of the key that stands.

    Of the partition that a tombstone is in, only rows before it: a key can come again.
    """
    standing = standing_rows(rows_of_keys(source, raw, tombs)).where(F.col("source_file").isNotNull())
    came_before = (standing["source_file"] != tombs[_BY_FILE]) | (standing["source_line"] < tombs[_BY_LINE])
    return as_deletions(standing.join(F.broadcast(tombs), _is_of(source, standing, tombs) & came_before, "left_semi"))


def _is_of(source: Source, raw: DataFrame, tombs: DataFrame) -> Column:
    return (_key(source) == tombs[_KEY]) & (tombs[_DAY].isNull() | (tombs[_DAY] == raw["day"]))


def _key(source: Source) -> Column:
    """The values of a key as one text, however they are written."""
    values: Sequence[Column] = [key_text(source, name) for name in source.key_columns]
    return F.to_json(F.struct(*(value.alias(str(number)) for number, value in enumerate(values))))
