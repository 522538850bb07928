from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.model.canonical import (
    all_well_written,
    content_hash_as_before,
    content_hash_of_values,
    parsed,
    raw_content_hash,
    sum_of_hashes,
)
from backfill_assets.model.measure import ContentHash
from backfill_assets_tests.strategies.by_the_query import accepted, rejected
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.raw_sales import TOKEN, raw_sales
from backfill_assets_tests.strategies.xxh64 import chained, xxh64

SOURCE = SALES.source


VALUES = [
    ("decimal(18,2)", "12.5", "12.50"),
    ("decimal(18,2)", "-0.10", "-0.10"),
    ("decimal(18,2)", "3.1000", "3.10"),
    ("decimal(18,2)", "12.345", None),
    ("decimal(18,2)", "12,50", None),
    ("decimal(18,2)", "1e2", None),
    ("decimal(18,2)", " 1", None),
    ("decimal(18,2)", "1.", None),
    ("decimal(18,2)", "12345678901234567", None),
    ("bigint", "0012", "12"),
    ("bigint", "1.0", None),
    ("int", "2147483648", None),
    ("smallint", "-32768", "-32768"),
    ("tinyint", "128", None),
    ("double", "0.1e1", "1.0"),
    ("double", "1e999", None),
    ("double", "-Infinity", "-Infinity"),
    ("double", "1d", None),
    ("float", "1e39", None),
    ("float", "-0.5", "-0.5"),
    ("boolean", "true", "true"),
    ("boolean", "t", None),
    ("date", "2017-02-28", "2017-02-28"),
    ("date", "2017-02-30", None),
    ("date", "2017-2-3", None),
    ("timestamp", "2017-03-01T11:20:00.000001Z", "2017-03-01 11:20:00.000001"),
    ("timestamp", "2017-03-01T11:20:00+01:00", "2017-03-01 10:20:00"),
    ("timestamp", "2017-03-01T01:20:00.123456789+0530", "2017-02-28 19:50:00.123456"),
    ("timestamp", "9999-12-31T23:59:59.999999999-00:00", "9999-12-31 23:59:59.999999"),
    ("timestamp", "9999-12-31T23:59:59-01:00", None),
    ("timestamp", "2016-12-31T23:59:60Z", None),
    ("timestamp", "2017-03-01T11:20:00 +02", None),
    ("timestamp", "2017-03-01T11:20:00+18:30", None),
    ("timestamp", "2017-03-01T25:20:00Z", None),
    ("timestamp", "2017-03-01", None),
    ("timestamp", "", None),
]
"""A type, a landed text, and its value."""


def test_text_is_a_value_or_nothing(spark: SparkSession) -> None:
    """Spark's own casts round, guess the time zone and read half a date: mistakes would pass for data."""
    kinds = list(dict.fromkeys(kind for kind, *_ in VALUES))
    texts = spark.createDataFrame([(number, text) for number, (_, text, _) in enumerate(VALUES)], "n int, text string")
    columns = [parsed(F.col("text"), kind).cast("string").alias(kind) for kind in kinds]
    rows = texts.select("n", *columns).orderBy("n").collect()
    found = [(kind, text, row[kind]) for (kind, text, _), row in zip(VALUES, rows, strict=True)]
    assert found == VALUES


WRITTEN: Sequence[tuple[Mapping[str, str | None], bool]] = [
    ({}, True),
    ({"sales_value": "-7.10", "quantity": "+3", "updated_at": "2017-03-01T23:59:59.120Z"}, True),
    ({"coupon_disc": None, "retail_disc": ""}, True),
    ({"household_token": "any text", "currency": "\u001f"}, True),
    ({"quantity": "1.0"}, False),
    ({"sales_value": "1e2"}, False),
    ({"sales_value": " 1"}, False),
    ({"updated_at": "yesterday"}, False),
    ({"quantity": "1\u001f2"}, False),
    ({"quantity": "1\u001f2", "sales_value": None}, False),
]
"""What a sale says otherwise, and whether all of it is well written."""


def test_all_fields_are_well_written_or_each_is_looked_at(spark: SparkSession) -> None:
    """One look at all of them must never let through what a look at each would not."""
    raw = raw_sales(spark, [changed for changed, _ in WRITTEN])
    each, beside = (
        F.array(*[parsed(F.col(name), SOURCE.type_of(name), *sure).cast("string") for name in SOURCE.parsed_columns])
        for sure in ((), (all_well_written(SOURCE),))
    )
    hashes = [raw_content_hash(SOURCE), raw_content_hash(SOURCE, all_well_written(SOURCE))]
    rows = raw.orderBy("source_line").select(all_well_written(SOURCE), each, beside, *hashes).collect()
    assert [(changed, row[0]) for (changed, _), row in zip(WRITTEN, rows, strict=True)] == WRITTEN
    assert [(row[1], row[3]) for row in rows] == [(row[2], row[4]) for row in rows]


def test_a_landed_day_is_always_looked_at(spark: SparkSession) -> None:
    """It is the partition's column, too, and not among those that one pattern is about."""
    rates = replace(SOURCE, fields=("day", "quantity"), types={"day": "date", "quantity": "bigint"}, personal_fields={})
    days = ["2017-03-01", "2017-3-1", "2017-02-30", " 2017-03-01", "2017", "", None]
    raw = spark.createDataFrame([(day, "1", None) for day in days], "day string, quantity string, unparsed_line string")
    rows = raw.select("day", raw_content_hash(rates), raw_content_hash(rates, all_well_written(rates))).collect()
    assert len(rows) == len(days) and [row.day for row in rows if row[1] != row[2]] == []


@given(groups=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=20), min_size=5, max_size=20))
@settings(max_examples=drawn(2))
def test_hashes_are_added_up_exactly(spark: SparkSession, groups: list[list[int | None]]) -> None:
    """In halves, and beyond what a bigint holds; 0 for no hash at all."""
    rows = [(number, each) for number, hashes in enumerate(groups) for each in [*hashes, None]]
    summed = spark.createDataFrame(rows, "n int, hash bigint").groupBy("n").agg(sum_of_hashes(F.col("hash")))
    expected = {number: sum(each for each in hashes if each is not None) for number, hashes in enumerate(groups)}
    assert dict(map(tuple, summed.collect())) == expected


def test_a_type_without_a_text_form_cannot_be_declared() -> None:
    """A source that asks for bytes would get hashes that no typed row can repeat."""
    with pytest.raises(InvalidRequest, match="binary"):
        parsed(None, "binary")  # type: ignore[arg-type]


def test_the_independent_hash_is_xxh64() -> None:
    """The specification's own answer, so that the tests do not compare Spark with a slip of ours."""
    assert xxh64(b"", 0) == 0xEF46DB3751D8E999
    assert xxh64(b"abc", 0) == 0x44BC2CF5AD770999


def test_a_content_hash_is_what_the_specification_says(spark: SparkSession) -> None:
    """It is written down for good in every raw row: another formula would make all history look changed."""
    row = raw_sales(spark, [{"sales_value": "0.5", "coupon_disc": None}]).first()
    assert row is not None
    assert row.content_hash == chained(
        [
            f"household_token={TOKEN}",
            "store_id=330",
            "basket_id=31198570044",
            "product_id=1095275",
            "quantity=1",
            "sales_value=0.50",
            "retail_disc=0.00",
            "coupon_match_disc=0.00",
            "transaction_timestamp=1488369206000000",
            "currency=USD",
            "updated_at=1488412799000000",
        ]
    )


def test_equal_moments_have_one_hash_however_they_are_written(spark: SparkSession) -> None:
    """A producer that writes them otherwise from some day on has changed no content."""
    forms = ["23:59:59.120Z", "23:59:59.12+00:00", "23:59:59.120000999-0000", "23:59:59.120000Z"]
    written = [f"2017-03-01T{form}" for form in forms] + ["2017-03-02T05:29:59.12+05:30", "2017-03-01T23:59:60Z"]
    rows = raw_sales(spark, [{"updated_at": text} for text in written]).orderBy("source_line").collect()
    *equal, leap = [row.content_hash for row in rows]
    assert len(set(equal)) == 1 and leap != equal[0]


def test_a_row_that_landed_before_its_moment_was_read_keeps_its_hash_and_stays_rejected(spark: SparkSession) -> None:
    """Its values have another hash: accepted, it would be accounted for nowhere, and its day be held back for good."""
    raw = raw_sales(spark, [{"updated_at": "2017-03-01T10:00:00+02:00"}, {"updated_at": "2017-03-01T10:00:00Z\n"}])
    before = raw.withColumn("content_hash", content_hash_as_before(SOURCE))
    carried_and_computed = before.select("content_hash", ContentHash(SOURCE, "text").column()).collect()
    assert all(carried == computed for carried, computed in carried_and_computed)
    assert [row.reasons for row in rejected(before, SALES.refinement()).collect()] == [
        ["line: has a form of a moment that was not read when it was landed; land it again"]
    ]
    assert accepted(before, SALES.refinement()).count() == 1
    assert rejected(raw, SALES.refinement()).count() == 0


def test_typed_rows_repeat_the_hash_of_their_text(spark: SparkSession) -> None:
    """Otherwise sums of raw and of facts could not be compared, whichever way the source writes a number."""
    variants = [
        {"basket_id": "1", "sales_value": "3.1"},
        {"basket_id": "2", "sales_value": "+03.10", "quantity": "007"},
        {"basket_id": "3", "updated_at": "2017-03-01T23:59:59.120Z"},
        {"basket_id": "4", "rescued": '{"till":"7"}'},
    ]
    typed = accepted(raw_sales(spark, variants), SALES.refinement())
    found = typed.select("content_hash", content_hash_of_values(SOURCE).alias("again")).collect()
    assert len(found) == 4
    assert all(row.content_hash == row.again for row in found)


def test_swapped_and_moved_values_change_the_hash(spark: SparkSession) -> None:
    """Two fields that change places, a value next door and another amount are all other content."""
    rows = raw_sales(
        spark,
        [
            {"retail_disc": "1.00", "coupon_disc": None},
            {"retail_disc": None, "coupon_disc": "1.00"},
            {"store_id": "3", "basket_id": "31"},
            {"store_id": "33", "basket_id": "1"},
            {"sales_value": "12,3x"},
            {"sales_value": "12,3y"},
            {"unparsed_line": "a"},
            {"unparsed_line": "b"},
        ],
    )
    assert rows.select(raw_content_hash(SOURCE)).distinct().count() == 8
