"""Tables of others have no quarantine: days of broken rows are held back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.judge.by_pandera import said_of
from backfill_assets.judge.engine import columns_of
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import RuleOutcome, Table
from backfill_assets.model.measure import breaches, is_unsound
from backfill_assets.quality.gates import VIOLATING
from backfill_assets.spark.partition_query import ROWS, PartitionQuery, by_query
from backfill_assets.spark.worker_queries import sql_of
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_EXAMPLES = 200
_COUNTED = T.StructType([T.StructField("day", T.DateType()), T.StructField(VIOLATING, T.LongType())])
_COUNTED_COLUMNS = pa.schema([("day", pa.date32()), (VIOLATING, pa.int64())])


def broken_days(table: Table, rows: DataFrame) -> dict[date, tuple[RuleOutcome, ...]]:
    found: dict[date, tuple[RuleOutcome, ...]] = {}
    if _asks_anything(table):
        counted = by_query(rows, _counting(table), _COUNTED).groupBy("day").agg(F.sum(VIOLATING).alias(VIOLATING))
        violating = {row["day"]: row[VIOLATING] for row in counted.where(F.col(VIOLATING) > 0).collect()}
        said = _said(table, rows.where(F.col("day").isin([*violating]))) if violating else ()
        found = {day: (_breaks_contract(table, day, count, said),) for day, count in violating.items()}
    for day, count in _days_with_equal_keys(table, rows).items():
        found[day] = (*found.get(day, ()), _has_equal_keys(table, day, count))
    return found


def _asks_anything(table: Table) -> bool:
    return any(not each.nullable or each.checks for name, each in table.contract.fields().items() if name != "day")


@cache
def _counting(table: Table) -> PartitionQuery:
    import ibis

    columns = columns_of(table.contract)
    rows = ibis.table(ibis.Schema.from_pyarrow(columns), name=ROWS)
    counted = rows.group_by("day").agg(**{VIOLATING: rows.count(where=is_unsound(table.contract, rows))})
    return PartitionQuery(sql_of(counted), columns, _COUNTED_COLUMNS)


def _said(table: Table, rows: DataFrame) -> tuple[str, ...]:
    import ibis

    columns = columns_of(table.contract)
    given = ibis.table(ibis.Schema.from_pyarrow(columns), name=ROWS)
    each_kind = [given.filter(broken).limit(_MOST_EXAMPLES) for *_, broken in breaches(table.contract, given)]
    broken = ibis.union(*each_kind, distinct=True) if len(each_kind) > 1 else each_kind[0]
    query = PartitionQuery(_of_given(sql_of(broken)), columns, columns)
    some = by_query(rows, query, struct_type(table.contract)).limit(_MOST_EXAMPLES * len(each_kind))
    return said_of(table.contract, some.toArrow().cast(columns))


def _of_given(sql: str) -> str:
    """A stream can be read once."""
    return f'WITH "given" AS MATERIALIZED (FROM "{ROWS}"), "found" AS ({sql.replace(ROWS, "given")}) FROM "found"'


def _days_with_equal_keys(table: Table, rows: DataFrame) -> Mapping[date, int]:
    if not table.key:
        return {}
    equal = rows.groupBy("day", *table.key).count().where(F.col("count") > 1)
    return {row["day"]: row["count"] for row in equal.groupBy("day").count().collect()}


def _breaks_contract(table: Table, day: date, count: int, said: tuple[str, ...]) -> RuleOutcome:
    return RuleOutcome(
        rule=f"{table.name}_holds",
        dimension="validity",
        passed=False,
        observed=f"{format_count(count, 'row')} of {table.name} {day} break its contract",
        expected=f"every row fulfils {table.contract.__name__}",
        next_step=f"Have {table.name} corrected where it is written, or ask less of it in {table.contract.__name__}. "
        "Then build the day again.",
        details=said,
    )


def _has_equal_keys(table: Table, day: date, count: int) -> RuleOutcome:
    key = ", ".join(table.key)
    return RuleOutcome(
        rule=f"{table.name}_keys_unique",
        dimension="uniqueness",
        passed=False,
        observed=f"{format_count(count, 'value')} of {key} {'is' if count == 1 else 'are'} there more than once in "
        f"{table.name} {day}",
        expected="each once",
        next_step=f"Have {table.name} corrected where it is written, or declare its key in full. Then build again.",
    )
