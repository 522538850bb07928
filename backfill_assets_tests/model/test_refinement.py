from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import ibis
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.engine import engine
from backfill_assets.model.checks import struct_type
from backfill_assets.model.landed import quarantine_contract
from backfill_assets.model.landed_values import joined_key, parts_of_key
from backfill_assets.model.refinement import Refinement
from backfill_assets_tests.strategies.by_the_query import accepted, both, rejected
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.landed_sales import versions
from backfill_assets_tests.strategies.raw_sales import DAY, SOURCE, marker, raw_sales

REFINEMENT = SALES.refinement()

OTHER_DAY = date(2017, 3, 4)


def sold(version: Mapping[str, str]) -> dict[str, Any]:
    """A landed version as a raw row of any basket has it, with a token for its household."""
    return {name: value for name, value in version.items() if name not in ("household_id", "basket_id")}


def test_a_sound_row_is_typed_and_keeps_its_provenance(spark: SparkSession) -> None:
    """The known answer for one row, column by column."""
    [row] = accepted(raw_sales(spark, [{}]), REFINEMENT).collect()
    assert row.transaction_id == "31198570044-1095275"
    assert (row.quantity, row.sales_value, row.currency) == (1, Decimal("0.50"), "USD")
    assert row.transaction_timestamp.isoformat() == "2017-03-01T11:53:26"
    assert (row.source_file, row.source_line, row.arrival_day) == ("sales/2017-03-01/a.jsonl.gz", 1, DAY)
    assert (row.deduplicated_rows, row.deduplicated_hash, row.superseded_by_day) == (0, Decimal(0), None)


def test_both_tables_have_the_columns_and_types_of_their_contracts(spark: SparkSession) -> None:
    """A schema that drifts from the contract is refused at publication, for every day at once."""
    outputs = both(raw_sales(spark, [{}]), REFINEMENT)
    for name, contract in (
        ("bronze_sales", REFINEMENT.contract),
        ("quarantine_sales", quarantine_contract(SALES.source)),
    ):
        expected = [(field.name, field.dataType) for field in struct_type(contract).fields]
        assert [(field.name, field.dataType) for field in outputs[name].schema.fields] == expected


def test_late_rows_are_rejected_where_that_is_declared(spark: SparkSession) -> None:
    """With that reason beside all others. A marker is not late, nor what landed on its day."""
    week = Refinement(SOURCE, REFINEMENT.contract, REFINEMENT.key, REFINEMENT.derived, 7)
    rows = raw_sales(
        spark,
        [
            {"basket_id": "1", "arrival_day": date(2017, 3, 8)},
            {"basket_id": "2", "arrival_day": date(2017, 3, 9)},
            {"basket_id": "3", "arrival_day": date(2017, 3, 20), "quantity": "x"},
            {"basket_id": "4", "day_is_arrival": True},
            marker("2017-03-02T00:00:00Z", 9, OTHER_DAY, basket_id="1"),
        ],
    )
    late = "late: sales takes rows up to 7 days after their day (was {})"
    expected = {
        "2": [late.format(8)],
        "3": ["quantity: 'x' is not a bigint", late.format(19)],
        "4": ["transaction_timestamp: '2017-03-01T11:53:26Z' is no plausible day"],
    }
    (winner,) = accepted(rows, week).collect()
    assert (winner.basket_id, winner.superseded_by_day) == ("1", OTHER_DAY)
    assert {row.basket_id: list(row.reasons) for row in rejected(rows, week).collect()} == expected
    assert {row.basket_id for row in accepted(rows, REFINEMENT).collect()} == {"1", "2"}


BREACHES: Sequence[tuple[Mapping[str, Any], list[str]]] = [
    ({"sales_value": "12,3x"}, ["sales_value: '12,3x' is not a decimal(18,2)"]),
    ({"sales_value": "-1.20"}, ["sales_value: not greater than or equal to 0 (was -1.20)"]),
    ({"sales_value": ""}, ["sales_value: '' is not a decimal(18,2)"]),
    ({"sales_value": None}, ["sales_value: is missing"]),
    ({"currency": "usd"}, ["currency: does not match ^[A-Z]{3}$ (was usd)"]),
    ({"household_token": None}, ["household_token: is missing"]),
    ({"household_token": "900"}, ["household_token: does not match ^[0-9a-f]{64}$ (was 900)"]),
    ({"household_token": 64 * "x"}, [f"household_token: does not match ^[0-9a-f]{{64}}$ (was {64 * 'x'})"]),
    ({"updated_at": "yesterday"}, ["updated_at: 'yesterday' is not a timestamp"]),
    ({"basket_id": None}, ["basket_id: is missing", "transaction_id: is missing"]),
    ({"product_id": ""}, ["product_id: not 1.. characters long (was )", "transaction_id: is missing"]),
    ({"quantity": "x", "store_id": None}, ["store_id: is missing", "quantity: 'x' is not a bigint"]),
    (
        {"transaction_timestamp": "2099-12-31T00:00:00Z", "day_is_arrival": True},
        ["transaction_timestamp: '2099-12-31T00:00:00Z' is no plausible day"],
    ),
    (
        {"transaction_timestamp": "yesterday", "day_is_arrival": True},
        ["transaction_timestamp: 'yesterday' is not a timestamp"],
    ),
    (
        {"unparsed_line": "[1]", "day_is_arrival": True, "store_id": None, "updated_at": None},
        ["line: is not one JSON object with distinct fields"],
    ),
    (
        {**dict.fromkeys(SOURCE.columns), "rescued": '{"unreadable":"it is no Avro"}', "day_is_arrival": True},
        ["event: it is no Avro"],
    ),
]
"""What a sale says otherwise, and why it is rejected."""


def test_a_row_that_breaks_the_contract_is_rejected_with_every_reason(spark: SparkSession) -> None:
    """The reasons are what a person sends to the source system: in words, with the value as it was landed."""
    raw = raw_sales(spark, [row for row, _ in BREACHES])
    found = rejected(raw, REFINEMENT).orderBy("source_line").collect()
    assert [(row, each.reasons) for (row, _), each in zip(BREACHES, found, strict=True)] == BREACHES
    assert {each.source_file for each in found} == {"sales/2017-03-01/a.jsonl.gz"}
    assert accepted(raw, REFINEMENT).collect() == []


def test_a_row_of_which_something_is_not_known_is_in_one_of_the_tables(spark: SparkSession) -> None:
    """A condition that is neither true nor false would leave it out of both."""
    raw = raw_sales(spark, [{}]).withColumn("day_is_arrival", F.lit(None).cast("boolean"))
    assert [table(raw, REFINEMENT).count() for table in (accepted, rejected)] == [1, 0]


MOMENT = "2017-03-02T00:00:00.000000Z"
VERSIONS: Mapping[str, list[dict[str, Any]]] = {
    "several": [
        {"updated_at": "2017-03-01T10:00:00.000002Z", "sales_value": "3.00"},
        {"updated_at": "2017-03-01T10:00:00.000001Z", "sales_value": "2.00", "arrival_day": OTHER_DAY},
        {"updated_at": "2017-03-01T10:00:00Z", "sales_value": "1.00"},
        {"sales_value": "broken", "updated_at": "2017-03-01T11:00:00Z"},
    ],
    "half a second": [
        {"updated_at": "2017-03-01T10:00:00Z", "sales_value": "1.00"},
        {"updated_at": "2017-03-01T10:00:00.5Z", "sales_value": "2.00"},
    ],
    "duplicates": [
        {"arrival_day": OTHER_DAY, "source_file": "sales/2017-03-04/a.jsonl.gz"},
        {"arrival_day": DAY, "source_file": "sales/2017-03-01/z.jsonl.gz", "source_line": 9},
        {"arrival_day": DAY, "source_file": "sales/2017-03-01/z.jsonl.gz", "source_line": 8},
    ],
    "newer marker": [{}, marker(MOMENT, 5, OTHER_DAY)],
    "older marker": [{}, marker("2017-03-01T00:00:00.000000Z", 5, OTHER_DAY)],
    "several markers": [
        *({}, marker(MOMENT, 5, OTHER_DAY)),
        *(marker(MOMENT, -7, date(2017, 3, 2)), marker(MOMENT, 4, date(2017, 3, 3))),
    ],
    "marker alone": [marker(MOMENT, 5, OTHER_DAY)],
}
"""Raw rows of a transaction each."""


@pytest.fixture(scope="module")
def versions_of(spark: SparkSession) -> DataFrame:
    return raw_sales(spark, [{**row, "basket_id": name} for name, rows in VERSIONS.items() for row in rows])


@pytest.fixture(scope="module")
def winners(versions_of: DataFrame) -> dict[str, Any]:
    """The row that is accepted of each transaction."""
    rows = accepted(versions_of, REFINEMENT).collect()
    found = {row.basket_id: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_the_greatest_version_wins_and_accounts_for_the_others(winners: dict[str, Any], versions_of: DataFrame) -> None:
    """Never the one that arrived last: here it arrived first, in the first line."""
    hashes = {row.sales_value: row.content_hash for row in versions_of.where("basket_id = 'several'").collect()}
    winner = winners["several"]
    assert (winner.sales_value, winner.source_line) == (Decimal("3.00"), 1)
    assert winner.deduplicated_rows == 2
    assert winner.deduplicated_hash == Decimal(hashes["2.00"] + hashes["1.00"])


def test_versions_are_compared_as_moments_not_as_text(winners: dict[str, Any]) -> None:
    """As text, ``10:00:00Z`` is greater than ``10:00:00.5Z``."""
    assert winners["half a second"].sales_value == Decimal("2.00")


def test_of_exact_duplicates_the_first_arrival_stands_for_all(winners: dict[str, Any]) -> None:
    """A late duplicate must not change the row that is already published."""
    winner = winners["duplicates"]
    assert (winner.arrival_day, winner.source_line, winner.deduplicated_rows) == (DAY, 8, 2)


def test_only_a_newer_marker_supersedes(winners: dict[str, Any]) -> None:
    """A transaction that moved away and came back in a still newer version belongs here again."""
    found = [winners[name] for name in ("newer marker", "older marker")]
    assert [row.superseded_by_day for row in found] == [OTHER_DAY, None]
    assert [row.deduplicated_rows for row in found] == [0, 0]


def test_of_several_markers_the_greatest_names_the_day(winners: dict[str, Any]) -> None:
    """And at equal moments the content hash decides, as between rows."""
    assert winners["several markers"].superseded_by_day == OTHER_DAY


def test_a_marker_without_a_row_gives_nothing(winners: dict[str, Any], versions_of: DataFrame) -> None:
    """Its row may have been rejected; a marker is neither a sale nor a reject."""
    assert VERSIONS.keys() - winners.keys() == {"marker alone"}
    assert [row.sales_value for row in rejected(versions_of, REFINEMENT).collect()] == ["broken"]


def test_days_are_independent_and_lie_in_one_partition_each(spark: SparkSession) -> None:
    """One winner per day, not per range; and a day in two partitions would become two files."""
    days = [date(2017, 3, n) for n in range(1, 8)]
    rows = [{"day": day, "basket_id": str(n)} for day in days for n in range(20)]
    winners = accepted(raw_sales(spark, rows).repartition(7), REFINEMENT)
    placed = winners.withColumn("partition", F.spark_partition_id())
    found = placed.groupBy("day").agg(F.count("*").alias("rows"), F.count_distinct("partition").alias("partitions"))
    assert {(row.day, row.rows, row.partitions) for row in found.collect()} == {(day, 20, 1) for day in days}


BROKEN = st.sampled_from(
    [
        {"sales_value": "12,3x"},
        {"basket_id": None},
        {"unparsed_line": "[1]", "day_is_arrival": True, "store_id": None},
        {"transaction_timestamp": "2099-12-31T00:00:00Z", "day_is_arrival": True},
    ]
)
MOVED = st.builds(
    marker, st.sampled_from(["2017-03-01T23:00:02Z", "2017-03-01T23:00:09Z"]), st.just(5), st.just(OTHER_DAY)
)


BASKETS = st.sampled_from(["1", "2", "3", "4"])
"""Rows of four transactions: one look at all of them tries what four looks at one would."""


@settings(max_examples=drawn(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), found=st.lists(st.tuples(BASKETS, versions), min_size=4, max_size=24))
def test_the_winner_does_not_depend_on_the_order_of_rows(
    spark: SparkSession, data: st.DataObject, found: list[tuple[str, Any]]
) -> None:
    """In any order and any cutting into tasks, the same row comes out, and it is the one plain Python picks."""
    placed = [
        {"basket_id": basket, "updated_at": row["updated_at"], "sales_value": row["sales_value"], "source_line": n}
        for n, (basket, row) in enumerate(found)
    ]
    shuffled = data.draw(st.permutations(placed))
    rows = sorted(
        raw_sales(spark, placed).collect(), key=lambda row: (row.updated_at, row.content_hash, -row.source_line)
    )
    expected = {row.basket_id: (row.content_hash, row.source_line) for row in rows}
    winners = accepted(raw_sales(spark, shuffled).repartition(3), REFINEMENT).collect()
    assert {row.basket_id: (row.content_hash, row.source_line) for row in winners} == expected
    copies = Counter(basket for basket, _ in found)
    assert {row.basket_id: row.deduplicated_rows + 1 for row in winners} == copies and len(winners) == len(copies)


def test_different_parts_never_join_to_one_key(spark: SparkSession) -> None:
    r"""Of ``10-1`` and ``2``, and of ``10`` and ``1-2``, the dash between is not the one within; nor is a backslash."""
    keys = [
        ("10-1", "2"),
        ("10", "1-2"),
        ("10\\", "1-2"),
        ("10\\-1", "2"),
        ("10\\\\", "1-2"),
        ("10", "\\1-2"),
        ("1", "2"),
    ]
    rows = [{"basket_id": basket, "product_id": product} for basket, product in keys]
    winners = accepted(raw_sales(spark, rows), REFINEMENT).collect()
    texts = {(row.basket_id, row.product_id): row.transaction_id for row in winners}
    assert sorted(texts) == sorted(keys) and len(set(texts.values())) == len(keys)
    assert {key: parts_of_key(text, 2) for key, text in texts.items()} == {key: list(key) for key in keys}
    assert (texts["10", "1-2"], texts["1", "2"]) == ("10-1-2", "1-2"), "they are what they were"
    assert texts["10-1", "2"] == "10\\-1-2"


TAKEN_APART: Sequence[tuple[str, list[str] | None]] = [
    ("10-2", ["10", "2"]),
    ("10-1-2", ["10", "1-2"]),
    ("10\\-1-2", ["10-1", "2"]),
    ("10\\\\-2", ["10\\", "2"]),
    ("10-\\-2", ["10", "\\-2"]),
    ("10\\-2", None),
    ("10", None),
]


def test_a_joined_key_is_taken_apart_into_as_many_parts_as_there_are_fields() -> None:
    """The last one is all that is left."""
    assert [(key, parts_of_key(key, 2)) for key, _ in TAKEN_APART] == TAKEN_APART
    found = [parts_of_key(key, fields) for key, fields in (("a\\-b-c-d-e", 3), ("a-b", 3), ("a-b", 1))]
    assert found == [["a-b", "c", "d-e"], None, ["a-b"]]


PARTS: Sequence[tuple[str, list[str], str]] = [
    ("bigint", ["7", "07", "+7"], "7-1095275"),
    ("decimal(9,2)", ["7.00", "7", "07.0"], "7.00-1095275"),
    ("date", ["2017-03-01"], "2017\\-03\\-01-1095275"),
    ("timestamp", ["2017-03-01T10:00:00Z", "2017-03-01T10:00:00.0Z"], "2017\\-03\\-01T10:00:00Z-1095275"),
    ("timestamp", ["2017-03-01T10:00:00.5Z", "2017-03-01T10:00:00.500Z"], "2017\\-03\\-01T10:00:00.5Z-1095275"),
]
"""A type, texts of one value of it, and the key that each of them gives."""


def keys_of(kind: str, rows: Sequence[tuple[str | None, str]]) -> list[str | None]:
    """The keys of baskets and products, where baskets are of a type."""
    source = replace(SOURCE, types={**SOURCE.types, "basket_id": kind})
    baskets, products = zip(*rows, strict=True)
    held = ibis.memtable({"at": range(len(rows)), "basket_id": baskets, "product_id": products})
    key = joined_key(source, held, ("basket_id", "product_id"))
    with engine(threads=1) as connection:
        return list(connection.to_pyarrow(held.select("at", key=key).order_by("at"))["key"].to_pylist())


def test_a_part_of_a_key_counts_as_its_value() -> None:
    """The key is what the typed columns say, and its text is that which most sources write."""
    found = [(kind, texts, set(keys_of(kind, [(text, "1095275") for text in texts]))) for kind, texts, _ in PARTS]
    assert found == [(kind, texts, {key}) for kind, texts, key in PARTS]


def test_a_part_that_is_no_value_is_joined_as_it_stands() -> None:
    """What is wrong with the row is said of the part; a part that is missing leaves no key."""
    assert keys_of("bigint", [("x", "1"), ("", "1"), (None, "1")]) == ["x-1", None, None]
