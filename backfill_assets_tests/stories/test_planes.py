"""Trips are joined with the planes of their day, which are landed whole when they change: states change, come late, and
are corrected, and each time just the days that a state holds on are computed again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.defs.location import code_location
from backfill_assets.defs.resources import SharedSpark
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import AsOf
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import TotalAgrees
from backfill_assets.plan.records import days_of
from backfill_assets.rebuild.reproduce import ReproductionVerdict
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.dagster_chain import WorkshopBackfill
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS = DayRange.parse("2017-03-01..2017-03-10")
TRIPS = DayRange.parse("2017-03-03..2017-03-10")
REPORT, SIZES, PLANES = "report_seats", "report_sizes", "bronze_planes"
State = Mapping[str, int]
"""The seats of each plane."""


class Plane(Contract):
    """A plane that is in service."""

    tailnum: str = Field(key=True, description="As it is painted.")
    seats: int = Field(ge=1, description="How many it has.")


class Trip(Contract):
    """A sound trip."""

    trip_id: str = Field(key=True, description="Of the line.")
    tailnum: str = Field(description="The plane that flew.")
    left_on: date = Field(event_day=True, description="When it left.")
    sent_at: str = Field(version=True, description="When the line sent it.")


class Seats(Contract):
    """The seats of each day's trips, by the planes as they were on that day."""

    tailnum: str = Field(key=True, description="The plane.")
    trips: int = Field(ge=1, made_of="trip_id", description="How many.")
    seats: int = Field(nullable=True, made_of="bronze_planes.seats", description="Of the plane; unknown without one.")
    day: T.DateType = Field(key=True, description="Of the trips.")


class Sizes(Contract):
    """The trips of each day by the size of their plane."""

    seats: int = Field(key=True, made_of="bronze_planes.seats", description="Of the plane.")
    trips: int = Field(ge=1, made_of="trip_id", description="How many.")
    day: T.DateType = Field(key=True, description="Of the trips.")


def sizes_of(trips: DataFrame, planes: DataFrame) -> DataFrame:
    flown = trips.join(planes.select("day", "tailnum", "seats"), ["day", "tailnum"])
    return flown.groupBy("day", "seats").agg(F.count("*").alias("trips"))


def seats_of(trips: DataFrame, planes: DataFrame) -> DataFrame:
    known = planes.select("day", "tailnum", "seats")
    return trips.groupBy("day", "tailnum").agg(F.count("*").alias("trips")).join(known, ["day", "tailnum"], "left")


def seats_with_crew(trips: DataFrame, planes: DataFrame) -> DataFrame:
    return seats_of(trips, planes).withColumn("seats", F.col("seats") + 2)


def flights() -> tuple[Dataset, Dataset]:
    planes = LandedDataset(
        name="planes",
        description="The planes in service.",
        owners=("team:fleet",),
        first_day=DAYS.first,
        rows="planes",
        most_rows=100,
        tolerated_rejects=0,
        replaced_whole=True,
    )
    planes.row("v1", "All that are in service.")(Plane)
    trips = LandedDataset(
        name="trips",
        description="Trips of a line.",
        owners=("team:line",),
        first_day=DAYS.first,
        rows="trips",
        most_rows=100,
        tolerated_rejects=0,
    )
    trips.row("v1", "Newest of each trip.")(Trip)
    trips.table(REPORT, rules=(TotalAgrees("trips", trips.bronze, "rows"),), totals=("trips",))(Seats)
    trips.version(Seats, "v1", "By the planes of the day.", trips.bronze, AsOf("planes"))(seats_of)
    with_crew = trips.version(Seats, "v2", "With the crew.", trips.bronze, AsOf("planes"), current=False)
    with_crew(seats_with_crew)
    trips.table(SIZES)(Sizes)
    trips.version(Sizes, "v1", "By the planes of the day.", trips.bronze, AsOf("planes"))(sizes_of)
    return planes.dataset(), trips.dataset()


class Line:
    """A lakehouse of trips and planes, and what has landed, as Python has it."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        self.states: dict[date, State] = {}
        for day in TRIPS:
            trips = [
                {"trip_id": f"{day}{tail}", "tailnum": tail, "left_on": str(day), "sent_at": "a"} for tail in "ABC"
            ]
            land(workshop.settings.landing, "trips", str(day), "1", trips)

    def land_planes(self, day: int, state: State) -> date:
        arrived = date(2017, 3, day)
        (self.workshop.settings.landing / f"planes/{arrived}/state.jsonl.gz").unlink(missing_ok=True)
        rows = [{"tailnum": tail, "seats": seats} for tail, seats in state.items()]
        land(self.workshop.settings.landing, "planes", str(arrived), "state", rows)
        self.states[arrived] = state
        return arrived

    def expected(self, crew: int = 0) -> dict[tuple[date, str], int | None]:
        """The seats by day and plane: of the newest state that had arrived by then."""
        held = {day: self.states[max(each for each in self.states if each <= day)] for day in TRIPS}
        seats = {(day, tail): state.get(tail) for day, state in held.items() for tail in "ABC"}
        return {key: found and found + crew for key, found in seats.items()}

    def found(self) -> dict[tuple[date, str], int | None]:
        rows = self.workshop.read(REPORT).to_dict("records")
        return {(row["day"], row["tailnum"]): None if row["seats"] != row["seats"] else row["seats"] for row in rows}


@pytest.fixture
def line(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Line:
    declare(monkeypatch, *flights())
    return Line(workshop)


def days(*numbers: int) -> list[str]:
    return [str(date(2017, 3, number)) for number in numbers]


def test_trips_are_joined_with_the_planes_of_their_day(line: Line, type_on: TypeOn) -> None:
    """From an empty project: a state before the first trip, two changes, a late state, and a corrected one."""
    backfill = type_on(line.workshop)

    def stale() -> list[str]:
        return [
            day for day, status in backfill.status_by_day(REPORT).items() if status == "stale: reference data changed"
        ]

    line.land_planes(1, {"A": 100, "B": 150})
    line.land_planes(5, {"A": 100, "B": 160, "C": 90})
    line.land_planes(9, {"B": 160, "C": 90})  # A is gone
    backfill("run", f"+{REPORT}", "--days", TRIPS)
    assert line.found() == line.expected()
    assert stale() == []

    # What the plan says before anything is computed again.
    said = backfill("plan", REPORT, "--days", TRIPS, "--force").stdout
    held = ("2017-03-01 on 2017-03-03..2017-03-04", "2017-03-05 on 2017-03-05..2017-03-08")
    assert f"{REPORT} reads {PLANES} as of each day: that of {', '.join(held)}, 2017-03-09 on" in said

    # A state that arrives late, for a day between: it holds until the next one.
    line.land_planes(7, {"A": 100, "B": 170, "C": 90})
    backfill("run", f"+{PLANES}", "--days", "2017-03-07")
    assert stale() == days(7, 8)
    backfill("run", REPORT, "--days", TRIPS)
    assert line.found() == line.expected()

    # An old state was wrong: it is read again, and just its days are planned.
    wrong = line.found()
    corrected = line.land_planes(5, {"A": 100, "B": 161, "C": 90})
    backfill("raw", "refresh", "raw_planes", corrected)
    plan = backfill.json("plan", PLANES, "--days", corrected, "--scope", "onwards")
    assert rebuilt(plan) == {PLANES: days(5), REPORT: days(5, 6), SIZES: days(5, 6)}
    before = {day: state.publication for day, state in line.workshop.states(REPORT).items()}
    backfill("run", plan["plan"])
    assert line.found() == wrong, "staged, and seen by nobody"
    backfill("approve", plan["plan"], "--yes")
    assert line.found() == line.expected() and stale() == []
    now = {day: state.publication for day, state in line.workshop.states(REPORT).items()}
    assert [str(day) for day in now if now[day] != before[day]] == days(5, 6)

    # Planes have a crew, too: by new logic, and a state that comes meanwhile. The undo makes its day by the old one.
    plan = backfill.json("plan", REPORT, "--days", TRIPS, "--version", "v2")
    backfill("run", plan["plan"])
    backfill("approve", plan["plan"], "--yes")
    assert line.found() == line.expected(crew=2) and stale() == []
    line.land_planes(4, {"A": 101, "B": 150})
    backfill("run", f"+{PLANES}", "--days", "2017-03-04")
    backfill("run", REPORT, "--days", TRIPS, "--version", "v2")
    assert line.found() == line.expected(crew=2)
    looked = backfill.json("rollback", plan["plan"], "--dry-run")
    assert {each["what"]: each["which_days"] for each in looked["days"] if each["what"] == "stage again"} == {
        "stage again": days(4)
    }
    backfill("rollback", plan["plan"], "--yes")
    assert line.found() == line.expected() and stale() == []

    # Back to before the late state: what is made of it goes back with it.
    late = line.workshop.states(PLANES)[date(2017, 3, 7)].publication
    backfill("timeline", "rewind", PLANES, "--to", f"{late}^", "--as", "early")
    assert backfill.statuses("--on", "early")[REPORT] == {"fresh": [str(TRIPS)]}

    # One trip, also in a table whose key is of the plane as it was; and what the declarations are tried on.
    backfill("run", SIZES, "--days", TRIPS)
    traced = backfill("trace", "2017-03-06B").stdout
    assert f"{REPORT}\treport\t2017-03-06" in traced and "seats 161, day 2017-03-06" in traced
    for dataset in ("trips", "planes"):
        assert "are declared soundly" in backfill("dataset", "check", dataset).stdout


def test_a_day_before_the_first_state_waits_for_one(line: Line, type_on: TypeOn) -> None:
    """A plan and a run say from when on there is one; the other days are built without a word of it."""
    backfill = type_on(line.workshop)
    line.land_planes(5, {"A": 100})
    line.land_planes(8, {"A": 110})
    said = backfill("plan", REPORT, "--days", TRIPS, "--scope", "whole", exit_code=1).stdout
    assert f"a state of {PLANES} up to 2017-03-03 (2017-03-05 is the first) was never published" in said
    said = backfill("run", f"+{REPORT}", "--days", TRIPS, exit_code=1).stderr
    assert f"a state of {PLANES} up to 2017-03-03 (2017-03-05 is the first) never published" in said
    backfill("run", REPORT, "--days", "2017-03-05..2017-03-10")
    assert {day for day, _ in line.found()} == set(DayRange.parse("2017-03-05..2017-03-10"))
    (publication,) = {state.publication for state in line.workshop.states(REPORT).values()}
    line.land_planes(6, {"A": 105})
    backfill("run", f"+{PLANES}", "--days", "2017-03-06")
    again = line.workshop.builder.reproduce(publication).days
    assert {each.verdict for each in again} == {ReproductionVerdict.EQUAL}, "of the states that there were then"


def test_dagster_asks_for_no_day_on_which_nothing_has_changed(line: Line) -> None:
    """One run of the chain: days without a folder are published without rows, and the state before them comes along."""
    line.land_planes(1, {"A": 100})
    line.land_planes(6, {"A": 110, "B": 90})
    workshop, catalog = line.workshop, declared()
    tables = [table.name for dataset in ("planes", "trips") for table in catalog.dataset(dataset).tables]
    spark = SharedSpark(settings=workshop.settings)
    backfill = WorkshopBackfill(settings=workshop.settings, catalog=catalog, spark=spark, workshop=workshop)
    chain = code_location(catalog, {"backfill_spark": spark, "backfill": backfill})
    ranged = {ASSET_PARTITION_RANGE_START_TAG: str(TRIPS.first), ASSET_PARTITION_RANGE_END_TAG: str(TRIPS.last)}
    with dg.DagsterInstance.ephemeral() as instance:
        done = chain.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, tags=ranged, asset_selection=[dg.AssetKey(table) for table in tables]
        )
        told = {table: instance.get_materialized_partitions(dg.AssetKey(table)) for table in tables}
    assert done.success
    assert all(told[table] >= {str(day) for day in TRIPS} for table in tables)
    assert line.found() == line.expected()


def rebuilt(plan: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """The days that a plan rebuilds, by step."""
    return {
        step["table"][0]: [str(day) for day in days_of(each for ranges in step["why"].values() for each in ranges)]
        for step in plan["steps"]
    }
