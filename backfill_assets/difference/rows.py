"""Rows before and after, side by side: counts, sums, groups and examples. Reads each side once. DataFrames in and out.

A join would shuffle and sort every row. Instead each day and group gathers two hashes of each of its rows, of the key
and of the whole row, and what both sides have in common is counted as sets. That two keys of one day share a hash has a
chance of 3 in 100 million for a day of a million keys.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import add, or_
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from backfill_assets.difference.records import COUNTS
from backfill_assets.model.contract_columns import struct_type
from backfill_assets.model.declaration import Table
from backfill_assets.model.measure import KeyHash, RowHash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = "day"
_SIDES = _BEFORE, _AFTER = "before", "after"
_REPEATS = "repeats"


def compare_rows(
    table: Table, before: DataFrame, after: DataFrame, most_groups: int, *, buckets: int = 1, keys_repeat: bool = False
) -> DataFrame:
    """One row for each day and for each group of ``table.groups``: what became of its rows, and its sums.

    ``kind`` is ``day`` or the group's column, ``value`` the day or the group's value as text; then the counts, and
    ``before_<measure>`` and ``after_<measure>`` of each total. Of each column the ``most_groups`` groups that differ
    most; ``groups`` and ``differing`` say how many there are. A table without a key is compared by whole rows, of which
    none can be called changed. Days of very many rows are taken apart into ``buckets``.

    ``repeats`` is how many rows have a key that another row of their day and groups has, as only a foreign write brings
    them: if it is not 0, the counts are right only if they were asked for with ``keys_repeat``, which sorts all rows.
    """
    both = _side(table, before, _BEFORE).unionByName(_side(table, after, _AFTER))
    cells = _by_key(table, both, buckets, keys_repeat=keys_repeat) if table.key else _as_multisets(table, both)
    return _most(table, _parts(table, cells), most_groups)


def changed_rows(table: Table, before: DataFrame, after: DataFrame, withheld: Collection[str], most: int) -> DataFrame:
    """Up to ``most`` rows that both sides have and that differ, those whose first total differs most first.

    Columns: ``day``, ``key`` (array of values as text, without the ``withheld``), ``cells`` (array of column, before,
    after) and ``withheld`` (array of column names that differ).
    """
    old, new = before.alias(_BEFORE), after.alias(_AFTER)
    same = [F.col(f"before.{name}").eqNullSafe(F.col(f"after.{name}")) for name in (DAY, *table.key)]
    rest = [name for name in _columns(table) if name not in (DAY, *table.key)]
    cells = F.array_compact(F.array(*(_cell(name) for name in rest if name not in withheld)))
    hidden = F.array_compact(F.array(*(_hide(name) for name in rest if name in withheld)))
    shown_key = [F.col(f"after.{name}").cast("string") for name in table.key if name not in withheld]
    difference = reduce(or_, (_differs(name) for name in rest), F.lit(False))
    pairs = old.join(new, same, "inner").where(difference)
    return (
        pairs.orderBy(*_largest_first(table), *(f"after.{name}" for name in (DAY, *table.key)))
        .limit(most)
        .select(
            F.col(f"after.{DAY}").alias(DAY),
            F.array(*shown_key).cast("array<string>").alias("key"),
            cells.alias("cells"),
            hidden.cast("array<string>").alias("withheld"),
        )
    )


def _columns(table: Table) -> list[str]:
    return [field.name for field in struct_type(table.contract).fields]


# ------------------------------------------------------------------ days and groups


def _side(table: Table, rows: DataFrame, side: str) -> DataFrame:
    key_hash = [KeyHash.of(table).column().alias("key_hash")] if table.key else []
    return rows.select(
        DAY,
        F.lit(side).alias("side"),
        *key_hash,
        RowHash(table.contract).column().alias("row_hash"),
        *(F.col(name).cast("string").alias(group) for name, group in zip(table.groups, _groups(table), strict=True)),
        *(F.col(name).alias(f"sum_{n}") for n, name in enumerate(table.totals)),
    )


def _by_key(table: Table, both: DataFrame, buckets: int, *, keys_repeat: bool) -> DataFrame:
    """Rows of both sides that have the same day and groups, with the keys that only one side has.

    A row that goes to another day is removed from one and added to the other.
    """
    rows = both.withColumn("bucket", F.pmod("key_hash", F.lit(buckets)))
    cells = (
        (_numbered(table, rows) if keys_repeat else rows)
        .groupBy(DAY, *_groups(table), "bucket")
        .agg(
            *(
                F.collect_list(_of(side, what)).alias(f"{side}_{what}")
                for side in _SIDES
                for what in ("key_hash", "row_hash")
            ),
            *_sums_of_sides(table),
        )
    )
    kept = F.size(F.array_intersect("before_key_hash", "after_key_hash"))
    same = F.size(F.array_intersect("before_row_hash", "after_row_hash"))
    counts = (F.size("after_key_hash") - kept, F.size("before_key_hash") - kept, kept - same, same)
    repeats = (F.size(keys) - F.size(F.array_distinct(keys)) for keys in ("before_key_hash", "after_key_hash"))
    return cells.select(
        reduce(add, repeats).cast("bigint").alias(_REPEATS),
        *(DAY, "bucket", *_groups(table), *_sums(table)),
        *(count.cast("bigint").alias(name) for name, count in zip(COUNTS, counts, strict=True)),
        F.array_except("before_key_hash", "after_key_hash").alias("lost"),
        F.array_except("after_key_hash", "before_key_hash").alias("gained"),
    )


def _numbered(table: Table, rows: DataFrame) -> DataFrame:
    """The n-th row of a key and its groups is matched with the n-th one of the other side, and so are equal rows."""
    cell = (DAY, *_groups(table), "side")
    place_of_key = F.row_number().over(Window.partitionBy(*cell, "key_hash").orderBy("row_hash"))
    place_of_row = F.row_number().over(Window.partitionBy(*cell, "row_hash").orderBy("key_hash"))
    return rows.withColumns(
        {"key_hash": F.xxhash64("key_hash", place_of_key), "row_hash": F.xxhash64("row_hash", place_of_row)}
    )


def _as_multisets(table: Table, both: DataFrame) -> DataFrame:
    """Equal rows cancel out; what is left over on a side was removed, or is added."""
    rows = [F.count(_of(side, "row_hash")).alias(side) for side in _SIDES]
    counted = both.groupBy(DAY, *_groups(table), "row_hash").agg(*rows, *_sums_of_sides(table))
    none, zero = F.array().cast("array<bigint>"), F.lit(0).cast("bigint")
    counts = (F.greatest(F.col(_AFTER) - F.col(_BEFORE), zero), F.greatest(F.col(_BEFORE) - F.col(_AFTER), zero), zero)
    return (
        counted.select("*", *(c.alias(n) for n, c in zip(COUNTS, (*counts, F.least(_BEFORE, _AFTER)), strict=True)))
        .groupBy(DAY, *_groups(table))
        .agg(*(F.sum(name).alias(name) for name in (*COUNTS, *_sums(table))))
        .select("*", zero.alias("bucket"), zero.alias(_REPEATS), none.alias("lost"), none.alias("gained"))
    )


def _parts(table: Table, cells: DataFrame) -> DataFrame:
    """Each day, and each group of each column. A key that one cell lost and another one gained stands for a changed row
    wherever both cells belong together: of its day, and of the groups that it did not leave.
    """
    numbers = [F.col(name).alias(name) for name in (*COUNTS, _REPEATS, *_sums(table), "lost", "gained", "bucket", DAY)]
    kinds = [(DAY, F.col(DAY).cast("string"))]
    kinds += [(name, F.col(group)) for name, group in zip(table.groups, _groups(table), strict=True)]
    parts = F.array(*(F.struct(F.lit(kind).alias("kind"), value.alias("value"), *numbers) for kind, value in kinds))
    together = (
        cells.select(F.inline(parts))
        .groupBy("kind", "value", DAY, "bucket")
        .agg(
            *(F.sum(name).alias(name) for name in (*COUNTS, _REPEATS, *_sums(table))),
            *(F.flatten(F.collect_list(name)).alias(name) for name in ("lost", "gained")),
        )
        .withColumn("moved", F.size(F.array_intersect("lost", "gained")))
    )
    moved = {"added": -1, "removed": -1, "changed": 1, "unchanged": 0}
    return together.groupBy("kind", "value").agg(
        *(F.sum(F.col(name) + F.col("moved") * sign).alias(name) for name, sign in moved.items()),
        *(F.sum(name).alias(name) for name in (_REPEATS, *_sums(table))),
    )


def _of(side: str, column: str) -> Column:
    return F.when(F.col("side") == side, F.col(column))


def _sums_of_sides(table: Table) -> list[Column]:
    zero, schema = F.lit(0), struct_type(table.contract)
    return [
        _exact(F.coalesce(F.sum(_of(side, f"sum_{n}")), zero), schema[name].dataType).alias(f"{side}_sum_{n}")
        for n, name in enumerate(table.totals)
        for side in _SIDES
    ]


def _groups(table: Table) -> list[str]:
    return [f"group_{n}" for n in range(len(table.groups))]


def _sums(table: Table) -> list[str]:
    return [f"{side}_sum_{n}" for n in range(len(table.totals)) for side in _SIDES]


def _exact(column: Column, kind: T.DataType) -> Column:
    """A sum of values of ``kind``, with their decimals and with all the digits before the point that Spark has."""
    scale = kind.scale if isinstance(kind, T.DecimalType) else 0
    return column.cast(f"decimal(38,{scale})")


def _largest_change(before: Column, after: Column) -> Column:
    """The order of the largest change first: one that has more digits than Spark has is null, and the largest."""
    return F.abs(F.try_subtract(after, before)).desc_nulls_first()


def _most(table: Table, parts: DataFrame, most: int) -> DataFrame:
    differing = F.col("added") + F.col("removed") + F.col("changed")
    order = [differing.desc(), F.col("value")]
    if table.totals:
        order.insert(0, _largest_change(F.col("before_sum_0"), F.col("after_sum_0")))
    kind = Window.partitionBy("kind")
    ranked = parts.select(
        "*",
        F.row_number().over(kind.orderBy(*order)).alias("place"),
        F.count("*").over(kind).alias("groups"),
        F.count(F.when(differing > 0, True)).over(kind).alias("differing"),
    )
    names = {f"{side}_sum_{n}": f"{side}_{name}" for n, name in enumerate(table.totals) for side in (_BEFORE, _AFTER)}
    return ranked.where((F.col("kind") == DAY) | (F.col("place") <= most)).withColumnsRenamed(names)


# ------------------------------------------------------------------ examples


def _differs(name: str) -> Column:
    return ~F.col(f"before.{name}").eqNullSafe(F.col(f"after.{name}"))


def _cell(name: str) -> Column:
    before, after = (F.col(f"{side}.{name}").cast("string").alias(side) for side in (_BEFORE, _AFTER))
    return F.when(_differs(name), F.struct(F.lit(name).alias("column"), before, after))


def _hide(name: str) -> Column:
    return F.when(_differs(name), F.lit(name))


def _largest_first(table: Table) -> list[Column]:
    if not table.totals:
        return []
    first = table.totals[0]
    before, after = (F.coalesce(F.col(f"{side}.{first}"), F.lit(0)) for side in (_BEFORE, _AFTER))
    return [_largest_change(before, after)]
