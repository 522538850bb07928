from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.landing.deletions import as_deletions
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.landing.supersessions import supersessions
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.raw_sales import raw_sales


def _on(day: int, second: int, **changes: Any) -> dict[str, Any]:
    moment = f"2017-03-{day:02d}T12:00:00Z"
    return {
        "day": date(2017, 3, day),
        "transaction_timestamp": moment,
        "updated_at": f"2017-03-20T00:00:{second:02d}Z",
        "source_line": day * 100 + second,
        **changes,
    }


def _markers(spark: SparkSession, arrived: list[dict[str, Any]], existing: list[dict[str, Any]]) -> list[Any]:
    return supersessions(SALES.source, raw_sales(spark, arrived), raw_sales(spark, existing)).collect()


def _moves(markers: list[Any]) -> set[tuple[int, int, str]]:
    return {(row.day.day, row.superseded_by_day.day, row.updated_at) for row in markers}


def test_the_day_that_loses_a_transaction_gets_a_marker(spark: SparkSession) -> None:
    """The known answer: what a marker says, and that it says nothing about when or where anything arrived."""
    [row] = _markers(spark, [_on(4, 2)], [_on(1, 1)])
    newer = raw_sales(spark, [_on(4, 2)]).first()
    assert newer is not None
    assert (row.day, row.superseded_by_day) == (date(2017, 3, 1), date(2017, 3, 4))
    assert (row.basket_id, row.product_id) == (newer.basket_id, newer.product_id)
    assert (row.updated_at, row.content_hash) == ("2017-03-20T00:00:02.000000Z", newer.content_hash)
    assert row.record_kind == "supersession"
    assert (row.source_file, row.source_line, row.arrival_day, row.sales_value, row.household_token) == (None,) * 5


def test_an_older_version_that_arrives_last_loses_all_the_same(spark: SparkSession) -> None:
    """Overtaken on the way: the newer version was there before."""
    assert _moves(_markers(spark, [_on(1, 1)], [_on(4, 2)])) == {(1, 4, "2017-03-20T00:00:02.000000Z")}


def test_moments_are_compared_and_then_content_hashes(spark: SparkSession) -> None:
    """As text ``…00Z`` is greater than ``…00.5Z``; at equal moments exactly one of the two days loses."""
    later = _on(4, 0, updated_at="2017-03-20T00:00:00.5Z")
    assert _moves(_markers(spark, [later], [_on(1, 0)])) == {(1, 4, "2017-03-20T00:00:00.500000Z")}
    assert len(_markers(spark, [_on(4, 1)], [_on(1, 1)])) == 1


def test_what_gets_no_marker(spark: SparkSession) -> None:
    """The same day, another transaction, too far away, and rows that are quarantined where they are."""
    assert _markers(spark, [_on(1, 2)], [_on(1, 1)]) == []
    assert _markers(spark, [_on(4, 2, basket_id="other")], [_on(1, 1)]) == []
    assert _markers(spark, [_on(9, 2)], [_on(1, 1)]) == []
    assert len(_markers(spark, [_on(8, 2)], [_on(1, 1)])) == 1
    assert _markers(spark, [_on(4, 2, updated_at="later")], [_on(1, 1)]) == []
    assert _markers(spark, [_on(4, 2, day_is_arrival=True)], [_on(1, 1)]) == []
    assert _markers(spark, [_on(4, 2, product_id=None)], [_on(1, 1, product_id=None)]) == []


def test_what_is_there_is_looked_at_only_where_a_readable_version_of_its_key_arrived(spark: SparkSession) -> None:
    """What two rows of history owe each other was settled when they arrived; and history is long."""
    history = [_on(1, 1), _on(4, 2)]
    assert _markers(spark, [_on(5, 3, basket_id="other")], history) == []
    assert _markers(spark, [_on(5, 3, updated_at="later")], history) == []
    assert len(_markers(spark, [_on(5, 3)], history)) == 3


def test_a_version_that_was_taken_back_supersedes_nothing(spark: SparkSession) -> None:
    """Its marker is deleted, and written again if it comes back; another copy of it keeps the marker."""
    older, newer = raw_sales(spark, [_on(1, 1)]), raw_sales(spark, [_on(4, 2)])
    copy = raw_sales(spark, [_on(4, 2, source_line=9)])
    written = supersessions(SALES.source, newer, older)
    held, gone = older.unionByName(newer).unionByName(written), as_deletions(newer)
    [deletion] = supersessions(SALES.source, gone, held).collect()
    [marker] = written.collect()
    assert deletion.asDict() == {**marker.asDict(), "record_kind": "deletion"}

    assert supersessions(SALES.source, gone, held.unionByName(copy)).count() == 0

    after = held.unionByName(gone).unionByName(as_deletions(written))
    assert [row.asDict() for row in supersessions(SALES.source, copy, after).collect()] == [marker.asDict()]


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        ("date", "2017-03-01", "2017-03-04"),
        ("bigint", "7", "12"),
        ("decimal(6,2)", "7.50", "12.25"),
        ("string", "a", "b"),
    ],
)
def test_a_version_may_be_of_any_type(spark: SparkSession, kind: str, older: str, newer: str) -> None:
    """The marker's text is read as the version that it stands for."""
    source = replace(SALES.source, types={**SALES.source.types, "updated_at": kind})
    arrived, standing = (
        raw_sales(spark, [_on(day, 1, updated_at=version)]) for day, version in ((4, newer), (1, older))
    )
    [marker] = supersessions(source, arrived, standing).collect()
    assert (marker.updated_at, marker.day, marker.superseded_by_day) == (newer, date(2017, 3, 1), date(2017, 3, 4))


@pytest.mark.parametrize(
    ("kind", "texts", "key"),
    [
        ("bigint", ("7", "07"), "7"),
        ("bigint", ("+7", "007"), "7"),
        ("decimal(9,2)", ("7", "7.0"), "7.00"),
        ("timestamp", ("2017-03-01T10:00:00Z", "2017-03-01T10:00:00.000Z"), "2017-03-01T10:00:00Z"),
    ],
)
def test_keys_of_equal_values_are_one(spark: SparkSession, kind: str, texts: tuple[str, str], key: str) -> None:
    """As in bronze, however they were written; the marker has one text of it, whichever of both is newer."""
    source = replace(SALES.source, types={**SALES.source.types, "basket_id": kind})
    for older, newer in (texts, texts[::-1]):
        arrived, there = (raw_sales(spark, [_on(day, day, basket_id=text)]) for day, text in ((4, newer), (1, older)))
        written = supersessions(source, arrived, there)
        [marker] = written.collect()
        assert (marker.basket_id, marker.day, marker.superseded_by_day) == (key, date(2017, 3, 1), date(2017, 3, 4))
        assert supersessions(source, arrived, there.unionByName(written)).collect() == []


def test_a_key_that_is_no_value_takes_no_part(spark: SparkSession) -> None:
    """Its row is quarantined, so that it supersedes no other one."""
    source = replace(SALES.source, types={**SALES.source.types, "basket_id": "bigint"})
    arrived, there = (raw_sales(spark, [_on(day, day, basket_id="x")]) for day in (4, 1))
    assert supersessions(source, arrived, there).collect() == []


def test_the_deletion_of_a_marker_is_written_as_the_marker_is(spark: SparkSession) -> None:
    """It cancels an equal row, and an older marker has the key as the newer version had it."""
    source = replace(SALES.source, types={**SALES.source.types, "basket_id": "bigint"})
    older, newer = raw_sales(spark, [_on(1, 1, basket_id="7")]), raw_sales(spark, [_on(4, 2, basket_id="07")])
    before = supersessions(source, newer, older).withColumn("basket_id", F.lit("07"))
    [deletion] = supersessions(source, as_deletions(newer), older.unionByName(newer).unionByName(before)).collect()
    [marker] = before.collect()
    assert deletion.asDict() == {**marker.asDict(), "record_kind": "deletion"}


def test_a_marker_that_is_there_twice_is_deleted_twice(spark: SparkSession) -> None:
    """Raw may have one twice from a retried ingest; with one of them left, neither version would count."""
    older, newer = raw_sales(spark, [_on(1, 1)]), raw_sales(spark, [_on(4, 2)])
    written = supersessions(SALES.source, newer, older)
    held = older.unionByName(newer).unionByName(written).unionByName(written)
    deletions = supersessions(SALES.source, as_deletions(newer), held)
    assert [row.record_kind for row in deletions.collect()] == ["deletion", "deletion"]
    again = supersessions(SALES.source, as_deletions(newer), held.unionByName(deletions.limit(1)))
    assert again.count() == 1


def test_a_marker_is_written_once(spark: SparkSession) -> None:
    """A duplicate of the newer version, or of the older one, that arrives later changes nothing."""
    first = supersessions(SALES.source, raw_sales(spark, [_on(4, 2)]), raw_sales(spark, [_on(1, 1)]))
    existing = raw_sales(spark, [_on(1, 1), _on(4, 2)]).unionByName(first)
    again = raw_sales(spark, [_on(4, 2, source_line=999), _on(1, 1, source_line=998)])
    assert supersessions(SALES.source, again, existing).collect() == []


def test_a_source_whose_day_is_part_of_its_key_has_none(spark: SparkSession) -> None:
    """A rate of another day is another rate; and nothing is read to find that out."""
    empty = spark.createDataFrame([], raw_schema(FX_RATES.source))
    markers = supersessions(FX_RATES.source, empty, empty)
    assert markers.columns == raw_schema(FX_RATES.source).names
    assert markers.collect() == []


@settings(max_examples=drawn(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arrivals=st.lists(
        st.builds(
            lambda basket, day, second, n: _on(day, second, source_line=n, basket_id=basket),
            st.sampled_from(["one", "two", "three", "four"]),
            st.integers(1, 12),
            st.integers(0, 3),
            st.integers(1, 9),
        ),
        min_size=8,
        max_size=24,
    ),
    data=st.data(),
)
def test_markers_do_not_depend_on_order_or_chunks(
    spark: SparkSession, arrivals: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Each day must be a function of its own raw day, so raw must come out the same however it was ingested.

    Four transactions at once: each has the versions that it would have alone, and all take one look.
    """
    at_once = _ingested(spark, [arrivals])
    shuffled = data.draw(st.permutations(arrivals))
    cut = data.draw(st.integers(1, len(arrivals) - 1))
    assert _ingested(spark, [shuffled[:cut], shuffled[cut:]]) == at_once


def _ingested(spark: SparkSession, chunks: list[list[dict[str, Any]]]) -> set[tuple[Any, ...]]:
    raw: DataFrame = spark.createDataFrame([], raw_schema(SALES.source))
    markers: list[Any] = []
    for chunk in chunks:
        arrived = raw_sales(spark, chunk)
        found = supersessions(SALES.source, arrived, raw).collect()
        markers += found
        raw = raw.unionByName(arrived).unionByName(spark.createDataFrame(found, raw_schema(SALES.source)))
    assert len(markers) == len(set(markers))
    return {tuple(row) for row in markers}
