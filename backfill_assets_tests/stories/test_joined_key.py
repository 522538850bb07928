"""A key that is joined of two fields: different fields are different keys, and equal values are one key."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2020-05-01..2020-05-02")
FIRST, SECOND = DAYS
CRATES = LandedDataset(
    name="crates",
    description="Crates in depots.",
    owners=("team:depots",),
    first_day=FIRST,
    rows="crates",
    most_rows=1_000,
    tolerated_rejects=0,
    supersession_window_days=7,
)


@CRATES.row("v1", "Newest of each crate.")
class Crate(Contract):
    """A sound crate, one per depot and number."""

    crate_id: T.StringType = Field(key=True, joined=("depot", "number"), description="Depot and number.")
    depot: T.StringType = Field(str_length={"min_value": 1}, description="Where it is.")
    number: T.LongType = Field(description="Of the crate.")
    counted_at: T.TimestampType = Field(event_day=True, description="When it was counted, in UTC.")
    pieces: T.LongType = Field(ge=0, description="In it.")
    sent_at: T.TimestampType = Field(version=True, description="When it was sent.")


def crate(depot: str, number: str, day: date, pieces: int) -> dict[str, str]:
    moment = f"{day}T08:00:0{pieces}Z"
    return {"depot": depot, "number": number, "counted_at": moment, "pieces": str(pieces), "sent_at": moment}


def test_fields_that_differ_are_two_keys_and_one_value_written_otherwise_is_one(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the first day two crates whose fields would join to one text; on the second day one is written otherwise."""
    declare(monkeypatch, CRATES.dataset())
    first = [crate("10", "-7", FIRST, 1), crate("10-", "7", FIRST, 2), crate("n", "7", FIRST, 3)]
    land(workshop.settings.landing, "crates", str(FIRST), "a", first)
    land(workshop.settings.landing, "crates", str(SECOND), "b", [crate("n", "07", SECOND, 4)])
    for table in ("raw_crates", "bronze_crates"):
        workshop.build(table, DAYS)
    bronze = workshop.read("bronze_crates")
    pieces = bronze[bronze["day"] == FIRST].set_index("crate_id")["pieces"].to_dict()
    assert pieces == {"10--7": 1, "10\\--7": 2, "n-7": 3}, "with 10--7 for both, one of them was lost"
    assert set(bronze["deduplicated_rows"]) == {0}
    found = bronze[bronze["depot"] == "n"].set_index("day")
    assert found["crate_id"].to_dict() == {FIRST: "n-7", SECOND: "n-7"}
    assert found["superseded_by_day"].dropna().to_dict() == {FIRST: SECOND}, "one of them is the current one"
    backfill = Backfill(workshop.settings.home, monkeypatch)
    for key, depot in (("10--7", "10"), ("10\\--7", "10-")):
        trail = backfill.json("trace", key)
        assert [each["outcome"] for each in trail["landed"]] == ["published"]
        assert {row["row"]["depot"] for row in trail["rows"]} == {depot}
