"""``backfill raw release``: a day that a gate holds back from a stream is told everywhere, and is published by it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.landing_writer import landing
from backfill_assets.examples.sample.references import RATES_LEAD_DAYS, rate_lines
from backfill_assets.stream.lease import read_stream
from backfill_assets.stream.sources import LandingFolder
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stream.small_stream import DAY, SmallStream, sale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BRONZE = "bronze_sales"
TABLES = ("raw_sales", BRONZE, "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue")
WORDS = ("raw", "release", BRONZE)


@pytest.fixture
def stream(spark: SparkSession, backfill: Backfill) -> SmallStream:
    return SmallStream(spark, backfill.home, LandingFolder())


def land(stream: SmallStream, numbers: range, **changes: str) -> None:
    with landing(stream.home / "landing") as files:
        lines = [sale(number, DAY, currency="USD", **changes) for number in numbers]
        files.write("sales", DAY.date(), lines, f"from-{numbers[0]}")


def statuses(backfill: Backfill) -> dict[str, list[str]]:
    tables = backfill.json("status")["tables"]
    return {name: [each["status"] for each in tables if each["table"] == name] for name in TABLES}


@pytest.mark.timeout(420)
def test_a_day_that_a_gate_holds_back_is_told_everywhere_until_a_person_releases_it(
    stream: SmallStream, backfill: Backfill
) -> None:
    """Three of four events break the contract: a day of which more is wrong than right is not published unasked."""
    with landing(stream.home / "landing") as files:
        for day in DayRange(DAY.date(), DAY.date()).widened(before=RATES_LEAD_DAYS):
            files.write("fx_rates", day, rate_lines(day))
    land(stream, range(20))
    stream.run(follow=True)
    land(stream, range(100, 160), quantity="many")
    stream.run(follow=True)
    (told,) = (each.text for each in stream.reports if each.kind == "behind")
    command = f'backfill raw release {BRONZE} {DAY:%Y-%m-%d} "REASON"'
    assert "few_rejected: 60 of 80 rows quarantined" in told and told.endswith(command)
    assert "60 events of 2026-03-02 held back by few_rejected" in stream.reports[-1].text
    (held,) = read_stream(stream.storage, "raw_sales").held_back  # type: ignore[union-attr]
    assert (held.events, held.rejected, held.reasons) == (60, 60, {"quantity: is not a bigint": 60})

    (shown,) = backfill.json("status")["held_back"]
    assert (shown["table"], shown["day"], shown["events"], shown["rejected"]) == (BRONZE, "2026-03-02", 60, 60)
    assert command in backfill("status").output
    assert statuses(backfill) == {"raw_sales": ["fresh"]} | {table: ["held back"] for table in TABLES[1:]}
    assert backfill.json("raw", "quarantine")["held_back"] == [shown]

    done = backfill.json(*WORDS, DAY.date(), "a till; the shop knows")
    assert done["publication"] and done["reason"] == "a till; the shop knows"
    assert not backfill.json("status").get("held_back")
    assert statuses(backfill) == {table: ["fresh"] for table in TABLES}
    land(stream, range(200, 230), quantity="more")
    stream.run(follow=True)
    assert read_stream(stream.storage, "raw_sales").held_back == ()  # type: ignore[union-attr]
    (rejected,) = backfill.json("raw", "quarantine")["reasons"]
    assert (rejected["reason"], rejected["rows"]) == ("quantity: is not a bigint", 90)


def test_a_release_names_a_day_that_raw_has_and_a_reason(stream: SmallStream, backfill: Backfill) -> None:
    land(stream, range(3))
    stream.run()
    day = DAY.date() - timedelta(days=1)
    assert f"raw_sales has nothing of {day}" in backfill(*WORDS, day, "why", exit_code=1).stderr
    assert "A release has a reason" in backfill(*WORDS, DAY.date(), " ", exit_code=1).stderr
