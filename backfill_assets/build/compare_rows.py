"""Rows before and after, side by side: counts, sums, groups and examples. Reads each side once. DataFrames in and out.

Rows are joined by hashes of their keys and compared by hashes of the rest, so that few bytes move. That two keys of
one day share a hash has a chance of 3 in 100 million for a day of a million keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from backfill_assets.datasets.contract import struct_type
from backfill_assets.datasets.dataset import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = "day"
COUNTS = ("added", "removed", "changed", "unchanged")
_BEFORE, _AFTER = "before", "after"


def compared(table: Table, before: DataFrame, after: DataFrame, most_groups: int, *, whole_rows: bool) -> DataFrame:
    """One row for each day and for each group of ``table.groups``: what became of its rows, and its sums.

    ``kind`` is ``day`` or the group's column, ``value`` the day or the group's value as text; then the counts, and
    ``before_<measure>`` and ``after_<measure>`` of each total. Of each column the ``most_groups`` groups that differ
    most; ``groups`` and ``differing`` say how many there are.
    """
    pairs = _as_multisets(table, before, after) if whole_rows else _by_key(table, before, after)
    return _most(table, _parts(table, _by_day_and_groups(table, pairs)), most_groups)


def changed_rows(table: Table, before: DataFrame, after: DataFrame, withheld: Collection[str], most: int) -> DataFrame:
    """Up to ``most`` rows that both sides have and that differ, those whose first total differs most first.

    Columns: ``day``, ``key`` (array of values as text, without the ``withheld``), ``cells`` (array of column, before,
    after) and ``withheld`` (array of column names that differ).
    """
    old, new = before.alias(_BEFORE), after.alias(_AFTER)
    same = [F.col(f"before.{name}").eqNullSafe(F.col(f"after.{name}")) for name in (DAY, *table.key)]
    rest = [name for name in _columns(table) if name not in (DAY, *table.key)]
    cells = F.array_compact(F.array(*(_cell(name) for name in rest if name not in withheld)))
    hidden = F.array_compact(F.array(*(_hidden(name) for name in rest if name in withheld)))
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


# ------------------------------------------------------------------ pairs


def _by_key(table: Table, before: DataFrame, after: DataFrame) -> DataFrame:
    old, new = _side(table, before, _BEFORE), _side(table, after, _AFTER)
    pairs = old.join(new, [DAY, "key_hash"], "full_outer")
    there, comes = F.col("before_hash").isNotNull(), F.col("after_hash").isNotNull()
    same = F.col("before_hash") == F.col("after_hash")
    return pairs.select(
        "*",
        *_flags(comes & ~there, there & ~comes, there & comes & ~same, there & comes & same),
    )


def _side(table: Table, rows: DataFrame, side: str) -> DataFrame:
    columns = [F.col(DAY), F.xxhash64(*table.key).alias("key_hash")]
    columns.append(_row_hash(table, (DAY, *table.key)).alias(f"{side}_hash"))
    columns += [F.col(name).cast("string").alias(f"{side}_group_{n}") for n, name in enumerate(table.groups)]
    columns += [F.col(name).alias(f"{side}_sum_{n}") for n, name in enumerate(table.totals)]
    return rows.select(*columns)


def _as_multisets(table: Table, before: DataFrame, after: DataFrame) -> DataFrame:
    """Equal rows cancel out; what is left over on a side was removed, or is added."""
    both = _whole(table, before, F.lit(1), F.lit(0)).unionByName(_whole(table, after, F.lit(0), F.lit(1)))
    values = [c for c in both.columns if c not in ("before_rows", "after_rows")]
    counted = both.groupBy(*values).agg(F.sum("before_rows").alias("b"), F.sum("after_rows").alias("a"))
    groups = range(len(table.groups))
    sums = range(len(table.totals))
    return counted.select(
        DAY,
        *(F.when(F.col("b") > 0, F.col(f"group_{n}")).alias(f"before_group_{n}") for n in groups),
        *(F.when(F.col("a") > 0, F.col(f"group_{n}")).alias(f"after_group_{n}") for n in groups),
        *((F.col(f"sum_{n}") * F.col("b")).alias(f"before_sum_{n}") for n in sums),
        *((F.col(f"sum_{n}") * F.col("a")).alias(f"after_sum_{n}") for n in sums),
        F.greatest(F.col("a") - F.col("b"), F.lit(0)).alias("added"),
        F.greatest(F.col("b") - F.col("a"), F.lit(0)).alias("removed"),
        F.lit(0).cast("bigint").alias("changed"),
        F.least("a", "b").alias("unchanged"),
    )


def _whole(table: Table, rows: DataFrame, before: Column, after: Column) -> DataFrame:
    return rows.select(
        DAY,
        _row_hash(table, (DAY,)).alias("row_hash"),
        *(F.col(name).cast("string").alias(f"group_{n}") for n, name in enumerate(table.groups)),
        *(F.col(name).alias(f"sum_{n}") for n, name in enumerate(table.totals)),
        before.alias("before_rows"),
        after.alias("after_rows"),
    )


def _flags(*flags: Column) -> list[Column]:
    return [flag.cast("bigint").alias(name) for name, flag in zip(COUNTS, flags, strict=True)]


def _row_hash(table: Table, without: Sequence[str]) -> Column:
    """XXH64 passes over nulls, so which columns are null is in it."""
    fields = [field for field in struct_type(table.contract).fields if field.name not in without]
    nulls = [F.col(field.name).isNull() for field in fields if field.nullable]
    return F.xxhash64(*[F.col(field.name) for field in fields], *nulls, F.lit(0))


# ------------------------------------------------------------------ days and groups


def _by_day_and_groups(table: Table, pairs: DataFrame) -> DataFrame:
    groups = [f"{side}_group_{n}" for side in (_BEFORE, _AFTER) for n in range(len(table.groups))]
    there = (F.col("removed") + F.col("changed") + F.col("unchanged") > 0).alias("there")
    comes = (F.col("added") + F.col("changed") + F.col("unchanged") > 0).alias("comes")
    sums = [f"{side}_sum_{n}" for n in range(len(table.totals)) for side in (_BEFORE, _AFTER)]
    return pairs.groupBy(DAY, *groups, there, comes).agg(
        *(F.sum(name).alias(name) for name in COUNTS),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums),
    )


def _parts(table: Table, found: DataFrame) -> DataFrame:
    """Each day, and each group of each column, added up from days and groups together."""
    sums = [f"{side}_sum_{n}" for n in range(len(table.totals)) for side in (_BEFORE, _AFTER)]
    parts = [_part(F.lit(DAY), F.col(DAY).cast("string"), {name: F.col(name) for name in (*COUNTS, *sums)})]
    for n, column in enumerate(table.groups):
        parts += _group_parts(column, n, sums)
    exploded = found.select(F.inline(F.array_compact(F.array(*parts))))
    return exploded.groupBy("kind", "value").agg(*(F.sum(name).alias(name) for name in (*COUNTS, *sums)))


def _group_parts(column: str, n: int, sums: Sequence[str]) -> Iterator[Column]:
    """A row that changes its group is removed from one and added to the other."""
    old, new, there, comes = F.col(f"before_group_{n}"), F.col(f"after_group_{n}"), F.col("there"), F.col("comes")
    moved = there & comes & ~old.eqNullSafe(new)
    zero = F.lit(0)
    lost = {"added": zero, "removed": F.col("changed"), "changed": zero, "unchanged": zero}
    gained = {"added": F.col("changed"), "removed": zero, "changed": zero, "unchanged": zero}
    stays = {name: F.col(name) for name in (*COUNTS, *sums)}
    yield F.when(~moved, _part(F.lit(column), F.coalesce(old, new), stays))
    yield F.when(moved, _part(F.lit(column), old, lost | _only(sums, _BEFORE)))
    yield F.when(moved, _part(F.lit(column), new, gained | _only(sums, _AFTER)))


def _only(sums: Sequence[str], side: str) -> dict[str, Column]:
    return {name: F.col(name) if name.startswith(side) else F.col(name) * 0 for name in sums}


def _part(kind: Column, value: Column, numbers: dict[str, Column]) -> Column:
    counts = [numbers[name].cast("bigint").alias(name) for name in COUNTS]
    sums = [_exact(column).alias(name) for name, column in numbers.items() if name not in COUNTS]
    return F.struct(kind.alias("kind"), value.alias("value"), *counts, *sums)


def _exact(column: Column) -> Column:
    return column.cast("decimal(38,10)")


def _most(table: Table, parts: DataFrame, most: int) -> DataFrame:
    differing = F.col("added") + F.col("removed") + F.col("changed")
    order = [differing.desc(), F.col("value")]
    if table.totals:
        order.insert(0, F.abs(F.col("after_sum_0") - F.col("before_sum_0")).desc())
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


def _hidden(name: str) -> Column:
    return F.when(_differs(name), F.lit(name))


def _largest_first(table: Table) -> list[Column]:
    if not table.totals:
        return []
    first = table.totals[0]
    before, after = (F.coalesce(F.col(f"{side}.{first}"), F.lit(0)) for side in (_BEFORE, _AFTER))
    return [F.abs(after - before).desc()]
