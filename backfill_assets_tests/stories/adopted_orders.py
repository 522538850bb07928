"""A fact that others have filled for years, as Spark wrote it, and the dataset that it becomes a table of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.delta_log import newest_version, read_log
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets_tests.strategies.landed_sales import land

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FACT = "fact_orders"
HISTORY = DayRange.parse("2025-12-01..2026-02-04")
LANDED = DayRange(HISTORY.last - timedelta(days=14), HISTORY.last)
"""The days that have landed, too."""
BROKEN = date(2025, 12, 3)
"""An amount of this day is negative."""
ORDERS = LandedDataset(
    name="orders",
    description="Orders of a shop that is older than this project.",
    owners=("team:shop",),
    first_day=HISTORY.first,
    rows="orders",
    most_rows=10_000,
    tolerated_rejects=5,
)


@ORDERS.row("v1", "Newest version of each order.")
class Order(Contract):
    """A sound order."""

    order_id: str = Field(key=True, description="Which one.")
    amount: Annotated[T.DecimalType, 18, 2] = Field(ge=0, description="What it is worth.")
    ordered_at: datetime = Field(event_day=True, description="When.")
    sent_at: datetime = Field(version=True, description="When it was sent.")


@ORDERS.table(FACT, totals=("amount",))
class OrderOfADay(Contract):
    """What was ordered."""

    order_id: str = Field(key=True, description="Which one.")
    amount: Annotated[T.DecimalType, 18, 2] = Field(ge=0, description="What it is worth.")
    channel: str = Field(nullable=True, made_of="order_id", description="Where it came from.")
    note: str = Field(nullable=True, made_of="order_id", description="Of later days alone.")
    day: date = Field(description="The day of the order.")


@ORDERS.version(OrderOfADay, "v1", "As it was.", ORDERS.bronze, current=False)
def as_it_was(orders: DataFrame) -> DataFrame:
    return _fact(orders)


@ORDERS.version(OrderOfADay, "v2", "With the tax that was forgotten.", ORDERS.bronze)
def with_tax(orders: DataFrame) -> DataFrame:
    return _fact(
        orders.withColumn("amount", (F.col("amount") * F.lit("1.05").cast("decimal(3,2)")).cast("decimal(18,2)"))
    )


def _fact(orders: DataFrame) -> DataFrame:
    nothing = F.lit(None).cast("string")
    return orders.select("order_id", "amount", nothing.alias("channel"), nothing.alias("note"), "day")


def amount(day: date, number: int) -> Decimal:
    return Decimal(day.toordinal() % 97 + number).quantize(Decimal("0.01"))


def write_history(spark: SparkSession, folder: Path, days: DayRange = HISTORY, **properties: str) -> None:
    """Two orders a day, each in a file of its own on Mondays; in another order of columns, and without ``note``."""
    rows = [
        ("shop", Decimal(-1) if day == BROKEN and not number else amount(day, number), day, f"{day}-{number}")
        for day in days
        for number in range(2)
    ]
    frame = spark.createDataFrame(rows, "channel string, amount decimal(18,2), day date, order_id string")
    split = F.when((F.dayofweek("day") == 2) & F.col("order_id").endswith("-1"), 1).otherwise(0)
    strict = properties.pop("not null", "")
    columns = [f"{name} {kind}{' NOT NULL' if name == strict else ''}" for name, kind in frame.dtypes]
    told = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    spark.sql(
        f"CREATE TABLE delta.`{folder}` ({', '.join(columns)}) USING delta PARTITIONED BY (day)"
        + (f" TBLPROPERTIES ({told})" if told else "")
    )
    frame.repartition(2, split).write.format("delta").mode("append").save(str(folder))


def land_days(landing: Path, days: DayRange, name: str = "orders", numbers: int = 2) -> None:
    for day in days:
        rows = [_landed(day, number) for number in range(numbers)]
        land(landing, "orders", str(day), name, rows)


def land_late(landing: Path, day: date, arrives: date) -> None:
    """One more order of ``day``, which lands on another one."""
    land(landing, "orders", str(arrives), "late", [_landed(day, 9)])


def _landed(day: date, number: int) -> Mapping[str, object]:
    moment = f"{day}T10:00:00Z"
    return {
        "order_id": f"{day}-{number}",
        "amount": str(amount(day, number)),
        "ordered_at": moment,
        "sent_at": moment,
    }


def files_of(lakehouse: Path, table: str = FACT) -> dict[date, dict[str, bytes]]:
    """The bytes of each file of a table, by day and path."""
    storage = Storage(str(lakehouse))
    version = newest_version(storage, table)
    assert version is not None
    by_day = read_log(storage, table, version).files_by_day()
    return {
        day: {file.path: (lakehouse / table / file.path).read_bytes() for file in files}
        for day, files in by_day.items()
    }
