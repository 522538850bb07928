"""CSV with the day in its name, days of a city, doubles and a person: what one day meets, from a check to an undo."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.landing.csv_files import Csv
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.doubles import in_digits
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import TotalAgrees
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHORT, NEXT, LATER = (date(2017, 3, day) for day in (26, 27, 28))
"""Clocks in Berlin go forward on the first of them."""
HEADER = "tab;opened_at;amount;guest_id;sent_at"
TABS = LandedDataset(
    name="tabs",
    description="Tabs of a bar.",
    owners=("team:bar",),
    first_day=SHORT,
    rows="tabs",
    most_rows=1_000,
    tolerated_rejects=2,
    totals=("amount",),
    format=Csv(delimiter=";"),
    files="tabs_{day:%Y%m%d}.csv",
    event_zone="Europe/Berlin",
)


@TABS.row("v1", "Newest of each tab.")
class Tab(Contract):
    """A sound tab."""

    tab: str = Field(key=True, description="Its number.")
    opened_at: datetime = Field(event_day=True, description="When it was opened.")
    amount: float = Field(digits=2, ge=0, description="In euros.")
    guest: str = Field(personal="guest_id", description="Who pays.")
    sent_at: datetime = Field(version=True, description="When it was sent.")


@TABS.table(
    "report_tabs",
    rules=(TotalAgrees("tabs", TABS.bronze, "rows"), TotalAgrees("amount", TABS.bronze, "amount")),
    totals=("tabs", "amount"),
)
class ReportTabs(Contract):
    """What a day was worth."""

    tabs: int = Field(ge=1, made_of="tab", description="How many.")
    amount: Annotated[T.DecimalType, 38, 2] = Field(description="All of them together.")
    day: date = Field(key=True, description="The day there.")


@TABS.version(ReportTabs, "v1", "Sums by day.", TABS.bronze)
def daily(tabs: DataFrame) -> DataFrame:
    return tabs.groupBy("day").agg(F.count("*").alias("tabs"), F.sum(in_digits("amount", 2)).alias("amount"))


def land(workshop: Workshop, day: date, *records: str) -> None:
    file = workshop.settings.landing / "tabs" / f"tabs_{day:%Y%m%d}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([HEADER, *records, ""]))


def published(workshop: Workshop) -> Mapping[date, tuple[Any, ...]]:
    rows = workshop.read("report_tabs")[["day", "tabs", "amount"]].itertuples(index=False)
    return {day: (tabs, amount) for day, tabs, amount in rows}


def build(workshop: Workshop, arrived: date) -> list[str]:
    """The publications, of all days that there are."""
    workshop.build("raw_tabs", [arrived])
    days = sorted(workshop.states("raw_tabs"))
    built = [workshop.build(table, days) for table in ("bronze_tabs", "report_tabs")]
    return [publication for each in built for publication in each.publications]


def test_one_day_meets_a_late_row_a_correction_and_an_undo(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, TABS.dataset())
    backfill = Backfill(workshop.settings.home, monkeypatch)
    land(
        workshop,
        SHORT,
        "1;2017-03-26T00:30:00Z;0.1;ann;2017-03-26T01:00:00Z",
        "2;2017-03-26T21:59:59Z;0.2;ben;2017-03-26T22:00:00Z",
        "3;2017-03-26T22:00:00Z;1e1;ann;2017-03-26T22:01:00Z",
        "4;2017-03-26T12:00:00Z;abc;ann;2017-03-26T12:01:00Z",
    )
    checked = backfill.json("dataset", "check", "tabs", exit_code=1)
    (file,) = checked["files"]
    assert (file["rows"], file["quarantined"]) == (4, 1)
    (report,) = (each for each in checked["versions"] if each["table"] == "report_tabs")
    assert "amount 10.30 of 10.30" in str(report)

    first = build(workshop, SHORT)
    before = {SHORT: (2, Decimal("0.30")), NEXT: (1, Decimal("10.00"))}
    assert published(workshop) == before
    rejected = workshop.read("quarantine_tabs")
    assert rejected["day"].tolist() == [SHORT] and rejected["source_line"].tolist() == [5]

    # The broken one comes again, the second one is corrected, and one is late; all of the same day there.
    land(
        workshop,
        LATER,
        "4;2017-03-26T12:00:00Z;3.33;ann;2017-03-28T09:00:00Z",
        "2;2017-03-26T21:59:59Z;0.7;ben;2017-03-28T09:00:00Z",
        "5;2017-03-25T23:00:00Z;0.01;eve;2017-03-28T09:00:00Z",
    )
    second = build(workshop, LATER)
    assert published(workshop) == {SHORT: (4, Decimal("4.14")), NEXT: (1, Decimal("10.00"))}
    reasons = backfill.json("raw", "quarantine")["reasons"]
    assert [each["resolved"] for each in reasons] == [1]

    assert len(first) == len(second) == 2
    for publication in second:
        backfill("rollback", publication, "--yes")
    assert published(workshop) == before
    raw = workshop.read("raw_tabs")
    assert len(raw) == 7 and not set(raw.astype(str).to_numpy().ravel()) & {"ann", "ben", "eve"}
