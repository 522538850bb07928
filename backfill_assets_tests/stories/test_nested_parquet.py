"""A folder of Parquet with nested columns, from an empty project: what one day meets, from a check to an undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.measure import ContentHash, RowHash, hashes_of
from backfill_assets.model.rules import TotalAgrees
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
ITEM = T.StructType([T.StructField("sku", T.StringType()), T.StructField("price", T.DecimalType(10, 2))])
VISITS = LandedDataset(
    name="visits",
    description="Visits to a shop.",
    owners=("team:shop",),
    first_day=DAY,
    rows="visits",
    most_rows=1_000,
    tolerated_rejects=2,
    format=Parquet(zone="UTC"),
)


@VISITS.row("v1", "Newest of each visit.")
class Visit(Contract):
    """A sound visit."""

    visit: int = Field(key=True, description="Its number.")
    at: datetime = Field(event_day=True, version=True, description="When it was.")
    items: T.ArrayType(ITEM) = Field(description="What was bought.")  # type: ignore[valid-type]
    till: T.StructType([T.StructField("id", T.LongType())]) = Field(  # type: ignore[valid-type]
        nullable=True, description="Where."
    )
    tags: dict[str, str] = Field(nullable=True, description="What else is known.")


@VISITS.table("report_visits", rules=(TotalAgrees("visits", VISITS.bronze, "rows"),), totals=("visits", "amount"))
class ReportVisits(Contract):
    """What a day was worth."""

    visits: int = Field(ge=1, made_of="visit", description="How many.")
    amount: Annotated[T.DecimalType, 38, 2] = Field(made_of="items", description="Of all items.")
    day: date = Field(key=True, description="The day.")


@VISITS.version(ReportVisits, "v1", "Sums by day.", VISITS.bronze)
def daily(visits: DataFrame) -> DataFrame:
    prices = F.aggregate(
        "items.price", F.lit(0).cast("decimal(38,2)"), lambda sum_, each: (sum_ + each).cast("decimal(38,2)")
    )
    return visits.groupBy("day").agg(F.count("*").alias("visits"), F.sum(prices).cast("decimal(38,2)").alias("amount"))


def visit(number: int, price: str, colour: str = "red", **more: Any) -> dict[str, Any]:
    at = datetime(2017, 3, 1, 10, 0, number)  # noqa: DTZ001 - as pandas writes moments
    items = [{"sku": "a", "price": Decimal(price), "colour": colour}]
    return {"visit": number, "at": at, "items": items, "till": {"id": 7}, "tags": [("k", "v"), ("a", None)], **more}


def land(workshop: Workshop, arrived: date, name: str, rows: Sequence[Mapping[str, Any]], price: pa.DataType) -> None:
    file = workshop.settings.landing / "visits" / f"day={arrived}" / f"{name}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    items = pa.list_(pa.struct([("sku", pa.string()), ("colour", pa.string()), ("price", price)]))
    till, tags = pa.struct([("id", pa.int32())]), pa.map_(pa.string(), pa.string())
    schema = pa.schema(
        [("visit", pa.int64()), ("at", pa.timestamp("us")), ("items", items), ("till", till), ("tags", tags)]
    )
    pq.write_table(pa.Table.from_pylist(list(rows), schema), file)


def published(workshop: Workshop) -> list[tuple[Any, ...]]:
    rows = workshop.read("report_visits")[["visits", "amount"]]
    return list(rows.itertuples(index=False, name=None))


def test_nested_columns_of_parquet_from_a_check_to_an_undo(
    spark: SparkSession, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raw keeps what is not declared within them, and bronze has values; what is none is quarantined, and repaired."""
    declare(monkeypatch, VISITS.dataset())
    backfill = Backfill(workshop.settings.home, monkeypatch)
    tenths, cents = pa.decimal128(9, 3), pa.decimal128(9, 2)
    land(workshop, DAY, "a", [visit(1, "1.500"), visit(2, "2.125"), visit(3, "3.000", till=None, tags=None)], tenths)
    (file,) = backfill.json("dataset", "check", "visits", exit_code=1)["files"]
    assert (file["rows"], file["quarantined"]) == (3, 1)

    for table in ("raw_visits", "bronze_visits", "report_visits"):
        workshop.build(table, [DAY])
    assert published(workshop) == [(2, Decimal("4.50"))]
    raw = workshop.read("raw_visits").sort_values("source_line")
    assert raw["items"].tolist()[0] == '[{"sku":"a","colour":"red","price":1.500}]'
    assert raw["tags"].tolist()[:1] == ['{"k":"v","a":null}']
    bronze = workshop.read("bronze_visits").sort_values("visit").to_dict("records")
    assert [row["till"] for row in bronze] == [{"id": 7}, None] or str(bronze[1]["till"]) == "<NA>"
    assert [dict(each) for each in bronze[0]["items"]] == [{"sku": "a", "price": Decimal("1.50")}]
    told = backfill("raw", "quarantine").stdout
    assert "day=2017-03-01/a.parquet, row 2" in told and "items: " in told
    assert "colour" in backfill("trace", "1", "bronze_visits").stdout

    # Spark computes both hashes of each row again.
    for name in ("raw_visits", "bronze_visits"):
        hashed = declared().table(name)
        (content,) = (each for each in hashes_of(hashed.measured).values() if isinstance(each, ContentHash))
        row, folder = RowHash(hashed.contract), workshop.settings.lakehouse / name
        stored = spark.read.parquet(*map(str, folder.rglob("part-*.parquet")))
        assert stored.where(content.column() == F.col("content_hash")).count() == stored.count()
        assert stored.where(row.column() == F.col(row.name)).count() == stored.count()

    # The rejected one comes again, and the source corrects both others: one in what is not declared.
    land(workshop, NEXT, "b", [visit(2, "2.12")], cents)
    corrected = [visit(1, "1.500", "blue"), visit(2, "2.125"), visit(3, "3.000", till={"id": None}, tags=None)]
    land(workshop, DAY, "a", corrected, tenths)
    workshop.build("raw_visits", [NEXT])
    done = workshop.builder.refresh(declared().step("raw_visits"), [DAY], run=RunInfo("refresh"))
    assert done.rows == {DAY: (2, 2)}
    later = [workshop.build(table, [DAY]) for table in ("bronze_visits", "report_visits")]
    assert published(workshop) == [(3, Decimal("6.62"))]
    (reason,) = backfill.json("raw", "quarantine")["reasons"]
    assert reason["resolved"] == 1
    for built in later:
        backfill("rollback", *built.publications, "--yes")
    assert published(workshop) == [(2, Decimal("4.50"))]

    broken = workshop.settings.landing / "visits" / f"day={NEXT}" / "c.parquet"
    broken.write_bytes(b"PAR1")
    with pytest.raises(SourceUnreadable, match=r"day=2017-03-02/c\.parquet: no Parquet, or damaged"):
        workshop.build("raw_visits", [NEXT])
