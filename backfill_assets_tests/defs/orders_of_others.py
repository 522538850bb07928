"""A table of orders that others write, facts of a day and of two: with their code location."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.defs.location import code_location
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Reads
from backfill_assets.model.derived_dataset import DerivedDataset
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.settings import Settings
from backfill_assets.state.diagnosis import in_a_word
from backfill_assets.state.observed import observe
from backfill_assets.state.reading import read_published
from backfill_assets.state.status import day_statuses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = DayRange.parse("2025-01-01..2025-01-06")
KEY = dg.AssetKey(["company", "orders"])
FACT, PAIR = "fact_daily_orders", "fact_two_days"
_SCHEMA = pa.schema([("order_id", pa.string()), ("ordered_on", pa.date32()), ("amount", pa.decimal128(10, 2))])


class Order(Contract):
    """An order as the shop has it."""

    order_id: str = Field(key=True)
    amount: Annotated[T.DecimalType, 10, 2] = Field(ge=0)


class DailyOrders(Contract):
    """What was ordered on a day."""

    orders: T.LongType = Field(made_of="orders.order_id")
    amount: Annotated[T.DecimalType, 20, 2] = Field(made_of="orders.amount")
    day: T.DateType = Field(key=True)


class TwoDays(DailyOrders):
    """What was ordered on a day and the day before."""


def by_day(orders: "DataFrame") -> "DataFrame":
    return orders.groupBy("day").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))


def two_days(daily: "DataFrame", orders: "DataFrame") -> "DataFrame":
    later = orders.withColumn("day", F.date_add("day", 1))
    return by_day(orders.unionByName(later)).join(daily.select("day"), "day")


def orders_at(location: Path, name: str = "orders") -> ExternalTable:
    key = ("company", "orders") if name == "orders" else ()
    return ExternalTable(name, Order, location=str(location), day="ordered_on", asset_key=key)


def shop(*others: ExternalTable) -> DerivedDataset:
    """The dataset on the first of ``others``."""
    made = DerivedDataset(
        name="shop", description="Orders.", owners=("team:shop",), first_day=DAYS.first, external=others
    )
    made.table(FACT, totals=("amount",))(DailyOrders)
    made.version(DailyOrders, "v1", "Sums.", "orders")(by_day)
    made.table(PAIR)(TwoDays)
    made.version(TwoDays, "v1", "Sums two days.", FACT, Reads("orders", -1, 0))(two_days)
    return made


def write(location: Path, ids: Iterable[int], amount: str = "1.00", days: DayRange = DAYS) -> None:
    """An order for each of ``ids``, one after the other on each of ``days``; the days are partitions."""
    spread = list(days)
    rows = [
        {"order_id": str(each), "ordered_on": spread[each % len(spread)], "amount": Decimal(amount)} for each in ids
    ]
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    write_deltalake(str(location), table, mode="append", partition_by=["ordered_on"])


def delete(location: Path, order: str) -> None:
    DeltaTable(str(location)).delete(f"order_id = '{order}'")


@dataclass
class Given:
    """The session of the tests; None as long as none may be started."""

    spark: "SparkSession | None" = None


class GivenSpark(SharedSpark):
    """The session that a test gives."""

    given: dg.ResourceDependency[Given]

    def session(self) -> "SparkSession":
        if self.given.spark is None:
            raise AssertionError("Nothing here starts Spark.")
        return self.given.spark


class Orders:
    """The table of others and the lakehouse below ``home``, with the code location."""

    def __init__(self, home: Path, instance: dg.DagsterInstance | None = None) -> None:
        self.home, self.there = home, home / "others" / "orders"
        self._instance = instance
        self.settings = replace(Settings.at(home / "ours"), automation=True, repairs="pause=0,settle=0")
        self.storage = Storage(str(self.settings.lakehouse))
        self.given = Given()
        self.declare(orders_at(self.there))

    def declare(self, *others: ExternalTable) -> None:
        """Load the code location anew, with these tables of others."""
        self.catalog = Catalog.of([shop(*others)])
        given = GivenSpark(settings=self.settings, given=self.given)
        backfill = Backfill(settings=self.settings, catalog=self.catalog, spark=given)
        self.resources: dict[str, Any] = {"backfill_spark": given, "backfill": backfill}
        self.defs = code_location(self.catalog, self.resources)

    @property
    def instance(self) -> dg.DagsterInstance:
        assert self._instance is not None
        return self._instance

    def statuses(self, table: str = FACT) -> dict[int, str]:
        """By the number of the day in its month."""
        observed = observe(self.storage, self.catalog.table_names)
        found = day_statuses(self.catalog.steps, observed)[table]
        return {day.day: in_a_word(status) for day, status in found.items() if day in DAYS.widened(after=1)}

    def published(self, table: str = FACT) -> dict[date, tuple[int, Decimal]]:
        rows = read_published(self.storage, table).dataset().to_table().to_pylist()
        return {row["day"]: (row["orders"], row["amount"]) for row in rows}

    def expected(self, looks_back: int = 0) -> dict[date, tuple[int, Decimal]]:
        """What a fact has to be of the table as it is now, in plain Python."""
        rows = DeltaTable(str(self.there)).to_pyarrow_table().to_pylist()
        found = {}
        for day in DAYS:
            first = day - timedelta(looks_back)
            amounts = [row["amount"] for row in rows if first <= row["ordered_on"] <= day]
            found[day] = (len(amounts), sum(amounts, Decimal()))
        return found
