"""``backfill stream``: events into raw, and facts that follow, from the landing folder and from a topic."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.live import LiveLanding, LiveSpec, land_references, live_events
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream import live
from backfill_assets.stream.lease import read_stream
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.examples.sample.live_tally import LiveTally
from backfill_assets_tests.stream.small_stream import Topic
from backfill_assets_tests.stream.winners import require_winners

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_assets_tests.stream.broker import Broker

EVENTS = 600


@pytest.fixture(autouse=True)
def settings_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream's own settings would stay in the session that all tests share."""
    monkeypatch.setattr(live, "stream_settings", lambda *_, **__: {})


def batches(stdout: str, kind: str = "batch") -> list[dict[str, Any]]:
    events = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    return [event for event in events if event["event"] == kind]


@pytest.mark.timeout(420)
def test_facts_follow_landed_events_of_today(backfill: Backfill, spark: SparkSession) -> None:
    """Batch by batch; the facts of today and of late days equal the tally, and each day is fresh."""
    spec = LiveSpec(seed=5, start=datetime.now(UTC) - timedelta(seconds=30), events_per_second=50)
    landing, events = LiveLanding(spec, backfill.home / "landing"), list(islice(live_events(spec), EVENTS))
    landing.land(events[:400])
    stream = ("stream", "raw_sales", "--from", "landing", "--available-now", "--json")
    first = batches(backfill(*stream).stdout)
    fact = "fact_sales_transactions"
    days = DayRange(min(LiveTally(events[:400]).days()), max(LiveTally(events[:400]).days()))
    days = DayRange(days.first, min(days.last, spec.start.date() - timedelta(days=1)))
    plan = backfill.json("plan", fact, "--days", days, "--version", "v1")["plan"]
    landing.land(events[400:])
    second = batches(backfill(*stream, "--rate", "2000", "--rate", "06:00-22:00=500").stdout)
    assert sum(batch["events"] for batch in (*first, *second)) == EVENTS
    assert batches(backfill(*stream).stdout) == []
    assert not backfill.json("plan", plan)["moved"], "a plan holds while a stream extends its days"
    assert {(batch["pace"], batch["slowed_down"]) for batch in (*first, *second)} == {(1.0, "")}
    _require_all_files_read(backfill)
    tally = LiveTally(events)
    facts = spark.read.format("delta").load(str(backfill.home / "lakehouse" / "fact_sales_transactions"))
    require_winners(facts, tally)
    for table in ("bronze_sales", "fact_sales_transactions", "fact_daily_revenue"):
        by_day = backfill.status_by_day(table, "--days", DayRange(min(tally.days()), max(tally.days())))
        assert {by_day[str(day)] for day in tally.days()} == {"fresh"}, table


def _require_all_files_read(backfill: Backfill) -> None:
    """The positions of landed files, by the folder of their arrival day."""
    home = backfill.home
    status = read_stream(Storage(str(home / "lakehouse")), "raw_sales")
    landed = Counter(path.parent.name for path in (home / "landing" / "sales").glob("*/*.jsonl.gz"))
    assert status is not None
    assert {each.partition: (each.position, each.end) for each in status.positions} == {
        day: (files, files) for day, files in landed.items()
    }


@pytest.mark.timeout(420)
def test_a_topic_is_read_from_its_beginning_and_a_null_value_takes_its_sale_out_until_a_rollback(
    backfill: Backfill, spark: SparkSession, kafka_broker: Broker
) -> None:
    """By one command, with a history to begin with. Facts are those of the events that are left."""
    yesterday = datetime.now(UTC).replace(hour=12) - timedelta(days=1)
    spec = LiveSpec(seed=5, start=yesterday, events_per_second=50)
    topic, events = Topic.new(kafka_broker), list(islice(live_events(spec), 60))
    topic.send(event.text for event in events)
    land_references(backfill.home / "landing", DayRange(spec.first_day, spec.start.date()))
    stream = ("stream", "raw_sales", "--from", topic.source, "--available-now", "--json")
    assert sum(batch["events"] for batch in batches(backfill(*stream, "--from-beginning").stdout)) == 60
    status = read_stream(Storage(str(backfill.home / "lakehouse")), "raw_sales")
    assert status is not None
    assert (sum(each.position for each in status.positions), status.lag) == (60, 0)
    reasons = [each["reason"] for each in backfill.json("history", "raw_sales")["publications"]]
    assert any("begins with its history" in reason for reason in reasons)
    _require_facts(backfill, spark, LiveTally(events))
    deleted = _key(events[0].text)
    topic.send([None], partition=0, key=json.dumps(dict(zip(("basket_id", "product_id"), deleted, strict=True))))
    said = backfill(*stream).stdout
    (batch,), (followed,) = batches(said), batches(said, "followed")
    assert (batch["events"], followed["events"], followed["batches"]) == (1, 1, 1)
    assert ({*batch["delays"]}, {*followed["delays"]}) == ({"raw_sales"}, {"fact_daily_revenue"})
    _require_facts(backfill, spark, LiveTally([event for event in events if _key(event.text) != deleted]))
    backfill("rollback", batch["publication"], "--yes")
    days = DayRange(min(map(date.fromisoformat, batch["days"])), max(map(date.fromisoformat, batch["days"])))
    for table in ("bronze_sales", "fact_sales_transactions", "fact_daily_revenue"):
        backfill("run", table, "--days", days)
    _require_facts(backfill, spark, LiveTally(events))


def _key(text: str) -> tuple[str, str]:
    landed = json.loads(text)
    return landed["basket_id"], landed["product_id"]


def _require_facts(backfill: Backfill, spark: SparkSession, tally: LiveTally) -> None:
    lakehouse = backfill.home / "lakehouse"
    require_winners(spark.read.format("delta").load(str(lakehouse / "fact_sales_transactions")), tally)
    days = DayRange(min(tally.days()), max(tally.days()))
    by_day = backfill.status_by_day("fact_daily_revenue", "--days", days)
    assert {by_day[str(day)] for day in tally.days()} == {"fresh"}


def test_what_cannot_be_streamed_is_refused_before_spark_starts(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ("stream", "raw_sales", "--from")
    assert "is no source of a stream" in backfill(*stream, "http://one/sales", exit_code=1).stderr
    topic = "kafka://127.0.0.1:1/sales"
    refused = backfill(*stream, "landing", "--from-beginning", "2026-03-01", exit_code=1).stderr
    assert "A day to begin at is for topics: from landing, a stream reads all files" in refused
    assert "Leave the day of --from-beginning out" in refused
    assert "'soon' is not a day" in backfill(*stream, topic, "--from-beginning", "soon", exit_code=1).stderr
    assert "'rw_sales'" in backfill("stream", "--from-beginning", "rw_sales", "--from", topic, exit_code=1).stderr
    assert "Missing argument 'TABLE'" in backfill("stream", "--from-beginning", exit_code=2).stderr
    assert "--new-topic is for topics" in backfill(*stream, "landing", "--new-topic", exit_code=1).stderr
    assert "is not a rate" in backfill(*stream, "landing", "--rate", "fast", exit_code=1).stderr
    assert "fact_daily_revenue is no raw table" in backfill("stream", "fact_daily_revenue", exit_code=1).stderr
    assert "The rate of a topic counts records" in backfill(*stream, topic, "--rate", "5MB", exit_code=1).stderr
    monkeypatch.setenv("BACKFILL_KAFKA_PROPERTIES", str(backfill.home / "absent"))
    assert "BACKFILL_KAFKA_PROPERTIES names" in backfill(*stream, "landing", exit_code=1).stderr
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    assert "Unset SPARK_REMOTE" in backfill(*stream, "landing", exit_code=1).stderr
