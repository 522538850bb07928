"""Deletions cancel raw rows that a source took back; both are left out when raw is read. A refresh finds rows that
their file lost; a tombstone, an event without a value, deletes earlier rows of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache, reduce
from operator import and_
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayState
from backfill_assets.landing.raw_query import raw_rows
from backfill_assets.landing.rows_of_lines import asked_of_lines
from backfill_assets.model.declaration import Source, Table
from backfill_assets.model.deletion import DELETED, DELETION
from backfill_assets.model.landed_values import key_text
from backfill_assets.model.of_duckdb import of_duckdb
from backfill_assets.model.standing_query import PLACE, standing
from backfill_assets.spark.partition_query import ROWS, PartitionQuery, by_query, columns_of_rows
from backfill_assets.spark.worker_queries import sql_of

if TYPE_CHECKING:
    import ibis.expr.types as ir

_KEY, _DAY, _BY_FILE, _BY_LINE = "deleted key", "deleted day", "deleted by file", "deleted by line"


def days_with_deletions(states: Mapping[TableDay, DayState], table: Table, days: Iterable[date]) -> list[date]:
    if table.layer != "raw":
        return []
    return [day for day in days if not states or _may_have_deletions(states.get(TableDay(table.name, day)))]


def _may_have_deletions(state: DayState | None) -> bool:
    return state is not None and (state.content is None or DELETED in state.content.metrics)


def rows_that_stand(
    states: Mapping[TableDay, DayState], table: Table, days: Sequence[date], rows: Callable[[Sequence[date]], DataFrame]
) -> DataFrame:
    corrected = days_with_deletions(states, table, days)
    if not corrected:
        return rows(days)
    others = [day for day in days if day not in corrected]
    standing = standing_rows(rows(corrected))
    return rows(others).unionByName(standing) if others else standing


def standing_rows(raw: DataFrame) -> DataFrame:
    """Equal rows share a place: partitions by place suffice."""
    return by_query(raw.repartition(*PLACE), _standing(columns_of_rows(raw.schema)), raw.schema)


@cache
def _standing(columns: pa.Schema) -> PartitionQuery:
    import ibis

    raw = ibis.table(ibis.Schema.from_pyarrow(columns), name=ROWS)
    return PartitionQuery(sql_of(standing(raw)), columns, columns)


def as_deletions(rows: DataFrame) -> DataFrame:
    return rows.withColumns({"record_kind": F.lit(DELETION), "arrival_day": F.lit(None).cast("date")})


# ------------------------------------------------------------------ tombstones

_TOMBSTONES = T.StructType(
    [
        T.StructField(_KEY, T.StringType()),
        T.StructField(_DAY, T.DateType()),
        T.StructField(_BY_FILE, T.StringType()),
        T.StructField(_BY_LINE, T.LongType()),
    ]
)


def tombstones(source: Source, keys: DataFrame, token_key_file: str, today: date) -> DataFrame:
    """The key that each of ``keys`` deletes, and the event; null if unreadable. Lazy.

    ``keys`` are lines with an event's key as value: a JSON object, or a single key field's text. With the event day,
    only that day's row is deleted.
    """
    return asked_of_lines(source, _tombstones, keys, _TOMBSTONES, token_key_file, today)


def _tombstones(keys: ir.Table, source: Source) -> ir.Table:
    import ibis

    rows = raw_rows(keys.mutate(value=_key_line(source, keys.value)), source)
    readable = reduce(and_, (rows[name].length() > 0 for name in source.key_columns))
    return rows.select(
        **{
            _KEY: readable.ifelse(_key(source, rows), ibis.null("string")),
            _DAY: rows.day_is_arrival.ifelse(ibis.null("date"), rows.day),
            _BY_FILE: rows.source_file,
            _BY_LINE: rows.source_line,
        }
    )


def _key_line(source: Source, key: ir.StringValue) -> ir.StringValue:
    import ibis

    if set(source.key_fields) <= set(source.record_fields):
        return cast("ir.StringValue", ibis.literal("{}"))
    if len(source.key_fields) > 1:
        return key
    (name,) = source.key_fields
    as_object = of_duckdb("json_object", "string", name, key).cast("string")
    is_object = of_duckdb("ltrim", "string", key).startswith("{")
    return cast("ir.StringValue", is_object.ifelse(key, as_object))


def _key(source: Source, rows: ir.Table) -> ir.StringValue:
    import ibis

    values = ibis.struct({str(number): key_text(source, rows, name) for number, name in enumerate(source.key_columns)})
    return cast("ir.StringValue", of_duckdb("to_json", "string", values).cast("string"))


def unreadable(tombs: DataFrame) -> Column:
    return tombs[_KEY].isNull()


def is_event(tombs: DataFrame, file: Column, line: Column) -> Column:
    return (tombs[_BY_FILE] == file) & (tombs[_BY_LINE] == line)


# ------------------------------------------------------------------ what they delete


def landed_keys(source: Source, raw: DataFrame, tombs: DataFrame) -> DataFrame:
    landed = raw.select("day", *source.key_columns)
    schema = T.StructType([*landed.schema, _TOMBSTONES[_KEY]])
    keyed = by_query(landed, _with_key(source, columns_of_rows(landed.schema)), schema)
    of_day = tombs[_DAY].isNull() | (tombs[_DAY] == keyed["day"])
    found = keyed.join(F.broadcast(tombs), (keyed[_KEY] == tombs[_KEY]) & of_day)
    key = (found[name].alias(_of_key(name)) for name in source.key_columns)
    return found.select("day", *key, _BY_FILE, _BY_LINE)


@cache
def _with_key(source: Source, columns: pa.Schema) -> PartitionQuery:
    import ibis

    rows = ibis.table(ibis.Schema.from_pyarrow(columns), name=ROWS)
    asked = sql_of(rows.mutate(**{_KEY: _key(source, rows)}))
    return PartitionQuery(asked, columns, columns.append(pa.field(_KEY, pa.string())))


def deletions_by(source: Source, raw: DataFrame, keys: DataFrame) -> DataFrame:
    """Deletions of received rows of ``raw``, by its :func:`landed_keys`, earlier in the tombstone's partition: a key
    can come again.
    """
    of_keys = raw.join(F.broadcast(keys), _is_of(source, raw, keys), "left_semi")
    standing = standing_rows(of_keys).where(F.col("source_file").isNotNull())
    came_before = (standing["source_file"] != keys[_BY_FILE]) | (standing["source_line"] < keys[_BY_LINE])
    return as_deletions(standing.join(F.broadcast(keys), _is_of(source, standing, keys) & came_before, "left_semi"))


def _is_of(source: Source, raw: DataFrame, keys: DataFrame) -> Column:
    same = (raw[name].eqNullSafe(keys[_of_key(name)]) for name in source.key_columns)
    return reduce(and_, same, raw["day"] == keys["day"])


def _of_key(name: str) -> str:
    return f"{name} of key"
