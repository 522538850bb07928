"""Rides are on the day that the clocks of their city show, also where the clocks change; and on it from now on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import TotalAgrees
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.reproduce import ReproductionVerdict
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPRING, AUTUMN = DayRange.parse("2017-03-25..2017-03-27"), DayRange.parse("2017-10-28..2017-10-30")
SHORT, LONG = date(2017, 3, 26), date(2017, 10, 29)
ARRIVED = [*SPRING, *AUTUMN]
BERLIN = "Europe/Berlin"


class Ride(Contract):
    """A sound ride."""

    ride_id: T.StringType = Field(key=True, description="Of the city.")
    began_at: T.TimestampType = Field(event_day=True, version=True, description="When it began, in UTC.")


class ReportRides(Contract):
    """The rides of each day of the city."""

    rides: T.LongType = Field(ge=1, made_of="ride_id", description="How many.")
    day: T.DateType = Field(key=True, description="The day there.")


def daily(rides: DataFrame) -> DataFrame:
    return rides.groupBy("day").agg(F.count("*").alias("rides"))


def rides_in(zone: str) -> Dataset:
    rides = LandedDataset(
        name="rides",
        description="Rides in a city.",
        owners=("team:city",),
        first_day=SPRING.first,
        rows="rides",
        most_rows=1_000,
        tolerated_rejects=0,
        event_zone=zone,
    )
    rides.row("v1", "Newest of each ride.")(Ride)
    agrees = TotalAgrees("rides", rides.bronze, "rows")
    rides.table("report_rides", rules=(agrees,), totals=("rides",))(ReportRides)
    rides.version(ReportRides, "v1", "Counts.", rides.bronze)(daily)
    return rides.dataset()


def half_hours(day: date) -> Iterator[datetime]:
    """All of a day of UTC."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return (midnight + timedelta(minutes=30 * number) for number in range(48))


def land_rides(workshop: Workshop) -> None:
    for day in ARRIVED:
        rides = [{"ride_id": f"{moment:%m%d%H%M}", "began_at": f"{moment:%FT%TZ}"} for moment in half_hours(day)]
        land(workshop.settings.landing, "rides", str(day), "a", rides)


def rides_by_day(zone: str) -> Mapping[date, int]:
    """As Python has it."""
    return Counter(moment.astimezone(ZoneInfo(zone)).date() for day in ARRIVED for moment in half_hours(day))


def in_raw(workshop: Workshop) -> Mapping[date, int]:
    raw = workshop.read("raw_rides")
    signs: Callable[[str], int] = {"received": 1, "deletion": -1}.__getitem__
    found: Counter[date] = Counter()
    for row in raw.to_dict("records"):
        found[row["day"]] += signs(row["record_kind"])
    return +found


def test_days_of_23_and_of_25_hours_from_raw_to_the_report(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rides an hour: 46 and 50 of them. Rides of the last evening are on a day that has not arrived in UTC."""
    declare(monkeypatch, rides_in(BERLIN))
    land_rides(workshop)
    workshop.build("raw_rides", ARRIVED)
    expected = rides_by_day(BERLIN)
    assert (expected[SHORT], expected[LONG]) == (46, 50) and expected[date(2017, 3, 28)] == 4
    assert in_raw(workshop) == expected
    for table in ("bronze_rides", "report_rides"):
        workshop.build(table, [*expected])
    assert workshop.read("report_rides").set_index("day")["rides"].to_dict() == expected
    backfill = Backfill(workshop.settings.home, monkeypatch)
    trail = backfill.json("trace", "03252330")
    assert [each["day"] for each in trail["landed"]] == [str(SHORT)]
    checked = backfill.json("status", "--days", f"{SHORT}..{SHORT}")
    assert {table["table"] for table in checked["tables"]} >= {"raw_rides", "report_rides"}


def test_days_are_put_right_once_their_zone_is_declared(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw has its rows by UTC: they are stale, a refresh moves them, and undoing it puts them back."""
    backfill = Backfill(workshop.settings.home, monkeypatch)
    declare(monkeypatch, rides_in("UTC"))
    land_rides(workshop)
    (taken_in,) = workshop.build("raw_rides", ARRIVED).publications
    assert in_raw(workshop) == dict.fromkeys(ARRIVED, 48)
    declare(monkeypatch, rides_in(BERLIN))
    assert set(backfill.status_by_day("raw_rides", "--days", SPRING).values()) == {"stale: code changed"}
    step = declared().step("raw_rides")
    done = workshop.builder.refresh(step, ARRIVED, run=RunInfo("refresh"), progress=workshop.messages.append)
    assert in_raw(workshop) == rides_by_day(BERLIN)
    assert set(backfill.status_by_day("raw_rides", "--days", SPRING).values()) == {"fresh"}
    reproduced = workshop.builder.reproduce(taken_in).days
    assert {day.verdict for day in reproduced} == {ReproductionVerdict.EQUAL}, "in UTC, as it was declared then"
    backfill("rollback", done.publication, "--yes")
    assert in_raw(workshop) == dict.fromkeys(ARRIVED, 48)
