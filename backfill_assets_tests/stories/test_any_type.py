"""Numbers in base 2, truth values, lists, structures and maps: from landed lines to a report, and read again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.doubles import in_digits
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import TotalAgrees
from backfill_assets.upkeep.watch import Watch
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2020-05-01..2020-05-02")
FIRST, SECOND = DAYS
PARCELS = LandedDataset(
    name="parcels",
    description="Parcels on a scale.",
    owners=("team:depots",),
    first_day=FIRST,
    rows="parcels",
    most_rows=10_000,
    tolerated_rejects=6,
    tolerated_duplicates=1,
    totals=("kilos",),
)
Shares = T.MapType(T.StringType(), T.DoubleType())
Parts = T.StructType([T.StructField("lightest", T.DoubleType()), T.StructField("fragile", T.BooleanType())])


@PARCELS.row("v1", "Newest of each parcel.")
class Parcel(Contract):
    """A sound parcel."""

    parcel: str = Field(key=True, description="Which one.")
    depot: T.ShortType = Field(key=True, ge=1, description="Where it is.")
    kilos: float = Field(digits=3, ge=0, description="By the scale.")
    drift: T.FloatType = Field(nullable=True, description="Of the scale.")
    fragile: bool = Field(description="Glass.")
    floor: T.IntegerType = Field(isin=[-1, 0, 1], description="Of the depot.")
    labels: list[str] = Field(description="On it.")
    sides: list[T.ShortType] = Field(nullable=True, description="In centimetres.")
    weighed_at: datetime = Field(event_day=True, description="When, in UTC.")
    sent_at: datetime = Field(version=True, description="When it was sent.")


@PARCELS.table("report_depots", totals=("kilos", "exactly"), rules=(TotalAgrees("exactly", PARCELS.bronze, "kilos"),))
class Depots(Contract):
    """What each depot weighed on a day."""

    depot: T.ShortType = Field(key=True, description="Which one.")
    kilos: float = Field(digits=2, description="Of all parcels.")
    exactly: T.DecimalType(38, 3) = Field(made_of="kilos", description="The same.")  # type: ignore[valid-type]
    floors: list[int] = Field(made_of="floor", description="With parcels.")
    parts: Parts = Field(made_of=("kilos", "fragile"), description="Of all of them.")  # type: ignore[valid-type]
    shares: Shares = Field(made_of=("parcel", "kilos"), description="Kilos by parcel.")  # type: ignore[valid-type]
    day: date = Field(description="The day.")


def depots(parcels: DataFrame, added_up: Column, shares: Column) -> DataFrame:
    entries = F.collect_list(F.struct("parcel", "kilos"))
    found = parcels.groupBy("day", "depot").agg(
        entries.alias("entries"),
        F.sum(in_digits("kilos", 3)).alias("exactly"),
        F.array_sort(F.collect_set(F.col("floor").cast("bigint"))).alias("floors"),
        F.struct(F.min("kilos").alias("lightest"), F.bool_or("fragile").alias("fragile")).alias("parts"),
    )
    return found.withColumns({"kilos": added_up, "shares": shares})


def _added_up(values: Column) -> Column:
    return F.aggregate(values, F.lit(0.0), lambda total, each: total + each["kilos"])


@PARCELS.version(Depots, "v1", "In the order of parcels.", PARCELS.bronze)
def in_order(parcels: DataFrame) -> DataFrame:
    """Sums and maps in the order of parcels."""
    values = F.array_sort("entries")
    return depots(parcels, _added_up(values), F.map_from_entries(values))


@PARCELS.version(Depots, "v2", "In the other order.", PARCELS.bronze, current=False)
def in_other_order(parcels: DataFrame) -> DataFrame:
    """Sums and maps in the other order."""
    values = F.reverse(F.array_sort("entries"))
    return depots(parcels, _added_up(values), F.map_from_entries(values))


def parcel(number: int, day: date, **changes: Any) -> dict[str, Any]:
    """As its source writes it: some values are text, and some are not."""
    moment = f"{day}T08:00:00.123456789+02:00"
    written = {
        "parcel": f"p{number}",
        "depot": 1 + number % 2,
        "kilos": number / 10 if number % 3 else str(number / 10),
        "drift": "NaN" if number % 5 == 0 else 0.1,
        "fragile": number % 2 == 0,
        "floor": str(number % 3 - 1),
        "labels": ["glass", 'say "up", []', "\u00e9"][: number % 4],
        "sides": f"[ {number}, 30, null ]" if number % 2 else [number, 30, None],
        "weighed_at": moment,
        "sent_at": moment,
    }
    return {**written, **changes}


WRONG: Sequence[tuple[dict[str, Any], str]] = (
    ({"kilos": "NaN"}, f"kilos: not in [{-(10**12)}, {10**12}] (was nan)"),
    ({"kilos": "1e400"}, "kilos: '1e400' is not a double"),
    ({"kilos": -0.5}, "kilos: not greater than or equal to 0 (was -0.5)"),
    ({"fragile": "yes"}, "fragile: 'yes' is not a boolean"),
    ({"depot": 40_000}, "depot: '40000' is not a smallint"),
    ({"sides": [1, 40_000]}, "sides: '[1,40000]' is not an array<smallint>"),
    ({"floor": 5}, "floor: not one of -1, 0, 1 (was 5)"),
)
TABLES = ("raw_parcels", "bronze_parcels", "report_depots")


@pytest.fixture
def workshop_of_parcels(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    declare(monkeypatch, PARCELS.dataset())
    for day in DAYS:
        land(workshop.settings.landing, "parcels", str(day), "a", [parcel(number, day) for number in range(40)])
    wrong = [parcel(100 + number, FIRST, **changes) for number, (changes, _) in enumerate(WRONG[1:])]
    land(workshop.settings.landing, "parcels", str(FIRST), "wrong", [*wrong, parcel(1, FIRST)])
    land(workshop.settings.landing, "parcels", str(SECOND), "wrong", [parcel(100, SECOND, **WRONG[0][0])])
    for table in TABLES:
        workshop.build(table, DAYS)
    return workshop


def test_rows_of_any_type_are_landed_judged_and_read_again(
    workshop_of_parcels: Workshop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values as they were landed, why others were rejected, and a second opinion by Spark and pandera on all of it."""
    workshop = workshop_of_parcels
    rows = workshop.read("bronze_parcels", DayRange(FIRST, FIRST)).to_dict("records")
    bronze = {str(row["parcel"]): row for row in rows}
    assert {key: row["kilos"] for key, row in bronze.items()} == {f"p{number}": number / 10 for number in range(40)}
    assert [list(bronze[key]["labels"]) for key in ("p4", "p6", "p7")] == [
        [],
        ["glass", 'say "up", []'],
        ["glass", 'say "up", []', "\u00e9"],
    ]
    assert [list(bronze[key]["sides"]) for key in ("p6", "p7")] == [[6, 30, None], [7, 30, None]]
    assert math.isnan(bronze["p5"]["drift"]) and [bronze[key]["fragile"] for key in ("p4", "p3")] == [True, False]
    assert bronze["p4"]["weighed_at"].isoformat() == f"{FIRST}T06:00:00.123456+00:00"
    rejected = workshop.read("quarantine_parcels")
    reasons = sorted(reason for each in rejected["reasons"] for reason in each)
    assert reasons == sorted(["kilos: is not a number", *(why for _, why in WRONG)])
    lake = workshop.builder.lake
    tables = [declared().table(name) for name in (*TABLES, "quarantine_parcels")]
    seen = Watch(declared(), lake.storage, lake.publisher.log, lambda: spark).look(tables, DAYS)
    assert len(seen) == len(tables) * len(DAYS) and [each for each in seen if not each.passed] == []
    trail = Backfill(workshop.settings.home, monkeypatch).json("trace", "p7/2")
    assert {row["row"]["kilos"] for row in trail["rows"] if row["table"] == "bronze_parcels"} == {0.7}


def test_sums_and_maps_in_another_order_make_nothing_stale(workshop_of_parcels: Workshop) -> None:
    """The last bits of doubles are others, and so is the order of entries; content and totals are the same."""
    workshop = workshop_of_parcels
    before, read = workshop.states("report_depots"), workshop.read("report_depots").sort_values(["day", "depot"])
    workshop.build("report_depots", DAYS, "v2", force=True)
    after, again = workshop.states("report_depots"), workshop.read("report_depots").sort_values(["day", "depot"])
    assert read["kilos"].tolist() != again["kilos"].tolist()
    assert [list(entries) for entries in read["shares"]] == [list(entries)[::-1] for entries in again["shares"]]
    for day in DAYS:
        one, other = before[day].content, after[day].content
        assert one is not None and other is not None and one.logical == other.logical
        assert one.metrics["total_kilos"] == other.metrics["total_kilos"]
