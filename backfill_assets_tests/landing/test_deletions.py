from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.landing.deletions import (
    as_deletions,
    days_with_deletions,
    deletions_by,
    landed_keys,
    rows_that_stand,
    standing_rows,
    tombstones,
    unreadable,
)
from backfill_assets.landing.rows_of_lines import rows_of_lines
from backfill_assets_tests.strategies.raw_sales import DAY, marker, raw_sales

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OTHER = date(2017, 3, 2)


def test_each_deletion_cancels_one_equal_row(spark: SparkSession) -> None:
    """Sound or not; a row that came back stands, and so does one that differs in an undeclared field alone.

    The deletion of an event does not say when it arrived, and neither does its place, as the path of a landed file
    does. That of a marker says that the source has taken back the newer version on another day.
    """
    event = {"source_file": "kafka:sales/0", "arrival_day": OTHER}
    gone: list[dict[str, object]] = [
        {},
        {"source_line": 2, "sales_value": "2.00"},
        {"source_line": 3, "quantity": "many"},
    ]
    moved = marker("2017-03-20T00:00:00.000000Z", 7, OTHER)
    rows: list[Mapping[str, object]] = [*gone, {**event, "source_line": 1}, moved]
    deleted = raw_sales(spark, rows)
    stay: list[Mapping[str, object]] = [
        {"source_line": 1},
        {"source_line": 1, "rescued": '{"a":"1"}'},
        {**event, "source_line": 2},
    ]
    raw = deleted.unionByName(as_deletions(deleted)).unionByName(raw_sales(spark, stay))
    columns = ("record_kind", "source_file", "source_line", "arrival_day", "rescued")
    landed = ("received", "sales/2017-03-01/a.jsonl.gz", 1, DAY)
    assert Counter(tuple(row[name] for name in columns) for row in standing_rows(raw).collect()) == Counter(
        [(*landed, None), (*landed, '{"a":"1"}'), ("received", "kafka:sales/0", 2, OTHER, None)]
    )


def test_only_days_that_may_have_deletions_are_looked_through(spark: SparkSession) -> None:
    """What a day holds says it. A foreign write does not say, and neither does an earlier state of the lakehouse."""
    clean, deleted = (DayContent(1, "1", metrics=each) for each in ({"received": 1}, {"received": 1, "deleted": 1}))
    states = {
        TableDay("raw_sales", day): DayState("raw_sales", day, "p", 1, "", content)
        for day, content in ((DAY, deleted), (OTHER, clean))
    }
    assert days_with_deletions(states, CATALOG.table("raw_sales"), [DAY, OTHER, date(2017, 3, 3)]) == [DAY]
    assert days_with_deletions({}, CATALOG.table("raw_sales"), [OTHER]) == [OTHER]
    assert days_with_deletions({}, CATALOG.table("bronze_sales"), [OTHER]) == []

    row = raw_sales(spark, [{}])
    raw = row.unionByName(as_deletions(row)).unionByName(raw_sales(spark, [{"day": OTHER}]))
    read: list[Sequence[date]] = []

    def rows(days: Iterable[date]) -> DataFrame:
        read.append(list(days))
        return raw.where(raw["day"].isin(list(days)))

    found = rows_that_stand(states, CATALOG.table("raw_sales"), [DAY, OTHER], rows)
    assert [row["day"] for row in found.collect()] == [OTHER]
    assert read == [[DAY], [OTHER]]


def test_a_key_is_one_text_or_an_object_and_may_name_a_day(spark: SparkSession, tmp_path: Path) -> None:
    """Of a source whose rows have their day as a part of what they are, a key alone deletes all of its days."""
    source, key_file = CATALOG.step("raw_fx_rates").source, str(tmp_path / "key")
    assert source is not None
    shape = "value binary, source_file string, source_line bigint, arrival_day date"
    currencies = ("EUR", "USD", "GBP", "SEK")
    rates = [{"currency": each, "rate_day": str(day), "rate": "1.1"} for each in currencies for day in (DAY, OTHER)]
    landed = [(json.dumps(rate).encode(), "kafka:rates/0", number, OTHER) for number, rate in enumerate(rates)]
    raw = rows_of_lines(source, spark.createDataFrame(landed, shape), key_file, OTHER)
    of_a_day = b'{"currency": "GBP", "rate_day": "2017-03-02"}'
    keys = [b"EUR", b' {"currency": "USD"}', of_a_day, b'{"rate_day": "2017-03-02"}', b"CHF", b"\xff", b'"']
    events = spark.createDataFrame([(key, "kafka:rates/0", 90 + n, OTHER) for n, key in enumerate(keys)], shape)
    tombs = tombstones(source, events, key_file, OTHER)
    found = deletions_by(source, raw, landed_keys(source, raw, tombs)).collect()
    assert sorted((row["currency"], row["day"]) for row in found) == [
        *(("EUR", DAY), ("EUR", OTHER), ("GBP", OTHER), ("USD", DAY), ("USD", OTHER)),
    ]
    assert {row["record_kind"] for row in found} == {"deletion"}
    assert [row["deleted by line"] for row in tombs.where(unreadable(tombs)).collect()] == [93]


def test_a_key_is_the_same_however_its_values_are_written(spark: SparkSession, tmp_path: Path) -> None:
    """The moment of a reading in another form, or in another place on earth; texts count as they stand."""
    source, key_file = CATALOG.step("raw_sea_temperatures").source, str(tmp_path / "key")
    assert source is not None
    shape = "value binary, source_file string, source_line bigint, arrival_day date"

    def lines(first: int, pairs: Sequence[tuple[str, str]]) -> DataFrame:
        texts = [json.dumps({"sensor_id": sensor, "measured_at": at}).encode() for sensor, at in pairs]
        return spark.createDataFrame([(text, "kafka:sea/0", first + n, DAY) for n, text in enumerate(texts)], shape)

    moments = ["2017-03-01T01:00:00Z", "2017-03-01T02:00:00.500Z", "soon", "2017-03-01T03:00:00Z"]
    raw = rows_of_lines(source, lines(0, [(sensor, at) for sensor in ("A", "a") for at in moments]), key_file, DAY)
    gone = [("A", "2017-03-01T01:00:00.000Z"), ("a", "2017-03-01T04:00:00.5+02:00"), ("a", "soon"), ("A", "soon ")]
    keys = landed_keys(source, raw, tombstones(source, lines(90, gone), key_file, DAY))
    deleted = [(row["sensor_id"], row["measured_at"]) for row in deletions_by(source, raw, keys).collect()]
    assert sorted(deleted) == [("A", moments[0]), ("a", moments[1]), ("a", moments[2])]
