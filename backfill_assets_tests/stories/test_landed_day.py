"""A source whose fields are called as columns of ours: each is kept as it was landed, under a name of its own."""

from __future__ import annotations

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
SHIFTS = LandedDataset(
    name="shifts",
    description="Shifts of crews.",
    owners=("team:crews",),
    first_day=FIRST,
    rows="shifts",
    most_rows=1_000,
    tolerated_rejects=5,
)


@SHIFTS.row("v1", "Newest of each shift.")
class CrewShift(Contract):
    """A sound shift, one for each crew and day."""

    crew: T.StringType = Field(key=True, description="Who.")
    work_day: T.DateType = Field(key=True, event_day=True, landed="day", description="As the source wrote it.")
    why: T.StringType = Field(landed="reasons", description="A word that quarantine has a column of, too.")
    round: T.LongType = Field(version=True, landed="Round", description="Of the plan.")


def shift(crew: str, day: object, number: int = 1) -> dict[str, str]:
    return {"crew": crew, "day": str(day), "reasons": "planned", "Round": str(number)}


def test_what_was_landed_stays_beside_the_day_that_a_row_is_put_on(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day that cannot be is in raw and in quarantine as it was written; so is the line that is landed again."""
    declare(monkeypatch, SHIFTS.dataset())
    landing = workshop.settings.landing
    land(landing, "shifts", str(FIRST), "a", [shift("n", FIRST), shift("n", FIRST, 2), shift("s", "2020-05-99")])
    land(landing, "shifts", str(SECOND), "b", [shift("n", SECOND), shift("s", FIRST)])
    for table in ("raw_shifts", "bronze_shifts"):
        workshop.build(table, DAYS)
    raw = workshop.read("raw_shifts")
    assert sorted(raw["work_day"]) == [*[str(FIRST)] * 3, str(SECOND), "2020-05-99"]
    unreadable = raw[raw["work_day"] == "2020-05-99"]
    assert unreadable["day"].tolist() == [FIRST] and unreadable["day_is_arrival"].tolist() == [True]
    bronze = workshop.read("bronze_shifts").sort_values(["crew", "day"])
    columns = ["crew", "work_day", "why", "round", "day"]
    assert bronze[columns].to_numpy().tolist() == [
        ["n", FIRST, "planned", 2, FIRST],
        ["n", SECOND, "planned", 1, SECOND],
        ["s", FIRST, "planned", 1, FIRST],
    ]
    rejected = workshop.read("quarantine_shifts").to_dict("records")
    assert [(row["work_day"], row["why"], row["day"]) for row in rejected] == [("2020-05-99", "planned", FIRST)]
    assert [list(row["reasons"]) for row in rejected] == [["work_day: '2020-05-99' is not a date"]]
    backfill = Backfill(workshop.settings.home, monkeypatch)
    trail = backfill.json("trace", f"n/{FIRST}")
    assert {each["outcome"] for each in trail["landed"]} == {"published", "deduplicated"}
    assert {row["row"]["work_day"] for row in trail["rows"]} == {str(FIRST)}
