"""Rows before and after, by key and by group, on both kinds of Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Context, Decimal
from typing import Annotated, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from backfill_assets.difference.records import EXACT
from backfill_assets.difference.rows import changed_rows, compare_rows
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.contract_columns import struct_type
from backfill_assets.model.declaration import Table

FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


class Sold(Contract):
    """A sale, with a person in it."""

    id: T.StringType = Field()
    currency: T.StringType = Field(nullable=True)
    person: T.StringType = Field(nullable=True)
    note: T.StringType = Field(nullable=True)
    amount: Annotated[T.DecimalType, 18, 2] = Field(nullable=True)
    day: T.DateType = Field()


TABLE = Table("sold", "fact", "", Sold, key=("id",), totals=("amount",), groups=("currency",))
Row = tuple[str, str | None, str | None, str | None, str | None, date]
BEFORE: list[Row] = [
    ("same", "EUR", "p1", None, "1.00", FIRST),
    ("dearer", "USD", "p1", "x", "2.00", FIRST),
    ("far dearer", "USD", "p1", None, "3.00", FIRST),
    ("moves", "USD", "p1", None, "4.00", FIRST),
    ("gone", "GBP", "p1", None, "5.00", FIRST),
    ("other day", "EUR", "p1", None, "7.00", FIRST),
    ("person", "EUR", "p1", "x", "1.00", SECOND),
    ("swapped", "EUR", None, "x", "1.00", SECOND),
]
AFTER: list[Row] = [
    ("same", "EUR", "p1", None, "1.00", FIRST),
    ("dearer", "USD", "p1", "x", "2.10", FIRST),
    ("far dearer", "USD", "p1", None, "9.00", FIRST),
    ("moves", None, "p1", None, "4.00", FIRST),
    ("new", "GBP", "p1", None, "6.00", FIRST),
    ("other day", "EUR", "p1", None, "7.00", SECOND),
    ("person", "EUR", "p2", "x", "1.00", SECOND),
    ("swapped", "EUR", "x", None, "1.00", SECOND),
]


def rows(spark: SparkSession, values: list[Row]) -> DataFrame:
    typed = [(*value[:4], None if value[4] is None else Decimal(value[4]), value[5]) for value in values]
    return spark.createDataFrame(typed, struct_type(Sold))


def told(found: DataFrame) -> dict[tuple[str, str | None], tuple[Any, ...]]:
    """Added, removed, changed, unchanged, amount before and after."""
    names = ("added", "removed", "changed", "unchanged", "before_amount", "after_amount")
    return {(row.kind, row.value): tuple(row[name] for name in names) for row in found.collect()}


def test_every_row_is_added_removed_changed_or_unchanged(each_spark: SparkSession) -> None:
    """By key within its day; a row that changes its group leaves one and comes to the other; null is not any value."""
    found = compare_rows(TABLE, rows(each_spark, BEFORE), rows(each_spark, AFTER), 10)
    assert told(found) == {
        ("day", "2017-03-01"): (1, 2, 3, 1, Decimal("22.00"), Decimal("22.10")),
        ("day", "2017-03-02"): (1, 0, 2, 0, Decimal("2.00"), Decimal("9.00")),
        ("currency", "EUR"): (1, 1, 2, 1, Decimal("10.00"), Decimal("10.00")),
        ("currency", "USD"): (0, 1, 2, 0, Decimal("9.00"), Decimal("11.10")),
        ("currency", "GBP"): (1, 1, 0, 0, Decimal("5.00"), Decimal("6.00")),
        ("currency", None): (1, 0, 0, 0, Decimal("0.00"), Decimal("4.00")),
    }
    (first,) = (
        compare_rows(TABLE, rows(each_spark, BEFORE), rows(each_spark, AFTER), 1).where("kind = 'currency'").collect()
    )
    assert (first.value, first.groups, first.differing) == (None, 4, 4), "the largest change of the first total"


def test_the_rows_that_change_most_are_shown_without_anything_of_a_person(each_spark: SparkSession) -> None:
    """Only the columns that differ; of a personal one only that it does."""
    before, after = rows(each_spark, BEFORE), rows(each_spark, AFTER)
    found = [row.asDict(recursive=True) for row in changed_rows(TABLE, before, after, {"person"}, 4).collect()]
    assert [row["key"] for row in found] == [["far dearer"], ["dearer"], ["moves"], ["person"]]
    assert found[0]["cells"] == [{"column": "amount", "before": "3.00", "after": "9.00"}]
    assert found[2]["cells"] == [{"column": "currency", "before": "USD", "after": None}]
    assert (found[3]["cells"], found[3]["withheld"], found[3]["day"]) == ([], ["person"], SECOND)
    by_person = changed_rows(replace(TABLE, key=("person",)), before, after, {"person"}, 1).collect()
    assert [row.key for row in by_person] == [[]]


def test_without_a_key_rows_are_a_multiset(spark: SparkSession) -> None:
    """Two equal rows of which one stays: one unchanged, one removed; what differs at all is removed and added."""
    twice = [BEFORE[0], BEFORE[0], BEFORE[1]]
    table = replace(TABLE, key=())
    found = told(compare_rows(table, rows(spark, twice), rows(spark, [AFTER[0], AFTER[1]]), 10))
    assert found == {
        ("day", "2017-03-01"): (1, 2, 0, 1, Decimal("4.00"), Decimal("3.10")),
        ("currency", "EUR"): (0, 1, 0, 1, Decimal("2.00"), Decimal("1.00")),
        ("currency", "USD"): (1, 1, 0, 0, Decimal("2.00"), Decimal("2.10")),
    }


class Weighed(Contract):
    """Something very heavy."""

    id: T.LongType = Field()
    shop: T.StringType = Field()
    grams: Annotated[T.DecimalType, 38, 2] = Field(nullable=True)
    day: T.DateType = Field()


HEAVY = Decimal("123456789012345678901234567890123.45")
"""Thirty-three digits before the point."""


def test_sums_have_all_the_digits_that_spark_has(each_spark: SparkSession) -> None:
    """Not 28 of them before the point; and what changes by a cent changes."""
    table = Table("weighed", "fact", "", Weighed, key=("id",), totals=("grams",), groups=("shop",))
    before = [(1, "a", HEAVY, FIRST), (2, "a", HEAVY, FIRST), (3, "b", Decimal("1.00"), FIRST)]
    heavier = HEAVY.next_plus(Context(prec=35))
    after = [(1, "a", HEAVY, FIRST), (2, "a", heavier, FIRST), (3, "b", None, FIRST)]
    whole = EXACT.add(HEAVY, HEAVY)
    of_a, sums = (whole, EXACT.add(HEAVY, heavier)), (EXACT.add(whole, Decimal(1)), EXACT.add(HEAVY, heavier))
    old, new = (each_spark.createDataFrame(rows, struct_type(Weighed)) for rows in (before, after))
    found = compare_rows(table, old, new, 10).orderBy("place").collect()
    assert {(row.kind, row.value): (row.before_grams, row.after_grams) for row in found} == {
        ("day", "2017-03-01"): sums,
        ("shop", "a"): of_a,
        ("shop", "b"): (Decimal(1), Decimal(0)),
    }
    assert [row.value for row in found if row.kind == "shop"] == ["b", "a"], "the largest change first"


def test_a_change_of_more_digits_than_spark_has_is_the_largest(spark: SparkSession) -> None:
    """It is shown first, and raises nothing."""
    table = Table("weighed", "fact", "", Weighed, key=("id",), totals=("grams",), groups=("shop",))
    most = Decimal("9" + "0" * 35)
    before = [(1, "b", Decimal(0), FIRST), (2, "a", most.copy_negate(), FIRST)]
    after = [(1, "b", Decimal(1), FIRST), (2, "a", most, FIRST)]
    old, new = (spark.createDataFrame(rows, struct_type(Weighed)) for rows in (before, after))
    groups = compare_rows(table, old, new, 10).where("kind = 'shop'").orderBy("place")
    assert [row.value for row in groups.collect()] == ["a", "b"]
    assert [row.key for row in changed_rows(table, old, new, set(), 10).collect()] == [["2"], ["1"]]


ONE, OTHER, THIRD = BEFORE[0], (*BEFORE[0][:4], "2.00", FIRST), (*BEFORE[0][:4], "3.00", FIRST)
NEW: Row = ("new", "EUR", "p1", None, "5.00", FIRST)


@pytest.mark.parametrize(
    ("before", "after", "counts", "repeats"),
    [
        ([ONE, OTHER], [ONE, OTHER], (0, 0, 0, 2), 2),
        ([ONE, OTHER], [ONE, OTHER, NEW], (1, 0, 0, 2), 2),
        ([ONE, ONE], [ONE, ONE], (0, 0, 0, 2), 2),
        ([ONE, ONE], [ONE], (0, 1, 0, 1), 1),
        ([ONE, OTHER], [THIRD, ONE], (0, 0, 1, 1), 2),
        ([ONE, OTHER], [(*THIRD[:1], "USD", *THIRD[2:]), ONE], (1, 1, 0, 1), 1),
    ],
)
def test_rows_of_a_key_that_repeats_are_matched_one_by_one(
    spark: SparkSession, before: list[Row], after: list[Row], counts: tuple[int, ...], repeats: int
) -> None:
    """A foreign write has brought them. Sets of keys and rows would say that the same rows come and go.

    Which of them changed its group is not known: one goes, and one comes.
    """
    both = rows(spark, before), rows(spark, after)
    assert {row.repeats for row in compare_rows(TABLE, *both, 10).where("kind = 'day'").collect()} == {repeats}
    for buckets in (1, 3):
        found = told(compare_rows(TABLE, *both, 10, buckets=buckets, keys_repeat=True))
        assert found["day", str(FIRST)][:4] == counts
        assert all(count >= 0 for each in found.values() for count in each[:4])


def test_where_no_key_repeats_matching_one_by_one_is_the_same(spark: SparkSession) -> None:
    both = rows(spark, BEFORE), rows(spark, AFTER)
    plain = compare_rows(TABLE, *both, 10).collect()
    assert compare_rows(TABLE, *both, 10, keys_repeat=True).collect() == plain
    assert {row.repeats for row in plain} == {0}


def test_a_table_without_totals_and_groups_is_compared_too(spark: SparkSession) -> None:
    """Days and counts are all there is."""
    bare = replace(TABLE, totals=(), groups=())
    found = compare_rows(bare, rows(spark, BEFORE), rows(spark, AFTER), 10).orderBy("value").collect()
    assert [(row.value, row.added, row.removed, row.changed, row.unchanged) for row in found] == [
        ("2017-03-01", 1, 2, 3, 1),
        ("2017-03-02", 1, 0, 2, 0),
    ]
    assert len(changed_rows(bare, rows(spark, BEFORE), rows(spark, AFTER), (), 3).collect()) == 3
