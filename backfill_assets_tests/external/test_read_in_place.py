"""Tables that others write, read where they lie: a fact on them, built, stale and built again, through the builder."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.derived_dataset import DerivedDataset
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import DaysFailed, RunInfo
from backfill_assets.settings import Settings
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import observe
from backfill_assets.state.reading import read_published
from backfill_assets.state.status import day_statuses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2025-01-01..2025-01-05")


class Order(Contract):
    """An order as the shop has it."""

    order_id: str = Field(key=True)
    amount: Annotated[T.DecimalType, 12, 2] = Field(ge=0)


class DailyOrders(Contract):
    """What was ordered on each day."""

    orders: T.LongType = Field(made_of="order_id")
    amount: Annotated[T.DecimalType, 18, 2] = Field()
    day: T.DateType = Field(key=True)


def declared(location: Path) -> Catalog:
    shop = DerivedDataset(
        name="shop",
        description="Orders.",
        owners=("team:shop",),
        first_day=date(2025, 1, 1),
        external=(ExternalTable("orders", Order, location=str(location), day="order_date"),),
    )
    shop.table("fact_daily_orders", totals=("amount",))(DailyOrders)

    @shop.version(DailyOrders, "v1", "Sums.", "orders")
    def daily_orders(orders: DataFrame) -> DataFrame:
        return orders.groupBy("day").agg(
            F.count("*").alias("orders"), F.sum("amount").cast("decimal(18,2)").alias("amount")
        )

    return Catalog.of([shop])


class Shop:
    """A table that others write with Spark, and a lakehouse that reads it."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.location = spark, home / "others" / "orders"
        self.settings = Settings.at(home / "ours")
        self.catalog = declared(self.location)
        self.storage = Storage(str(self.settings.lakehouse))
        self.sql(
            "CREATE TABLE {} (order_id STRING, order_date DATE, amount DECIMAL(10,2)) USING delta"
            " PARTITIONED BY (order_date) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        self.order(0, 50)

    def sql(self, text: str) -> None:
        self.spark.sql(text.format(f"delta.`{self.location}`"))

    def order(self, first: int, last: int) -> None:
        row = "CAST(id AS STRING), DATE'2025-01-01' + CAST(id % 5 AS INT), CAST(id AS DECIMAL(10,2))"
        self.sql(f"INSERT INTO {{}} SELECT {row} FROM range({first}, {last})")  # noqa: S608

    def run(self, days: DayRange = DAYS) -> set[date]:
        """Build the fact; gives the days that were computed."""
        builder = Builder.from_settings(self.settings, self.catalog, lambda: self.spark)
        built = builder.build(self.catalog.step("fact_daily_orders"), list(days), run=RunInfo("test"))
        return {each.day for each in built.days if not each.reused}

    def amounts(self) -> dict[int, Decimal]:
        rows = read_published(self.storage, "fact_daily_orders").dataset().to_table().to_pylist()
        return {row["day"].day: row["amount"] for row in rows}

    def there(self) -> dict[int, Decimal]:
        rows = self.spark.read.format("delta").load(str(self.location)).groupBy("order_date").agg(F.sum("amount"))
        return {row[0].day: row[1] for row in rows.collect()}

    def statuses(self) -> dict[int, Cause | None]:
        observed = observe(self.storage, self.catalog.table_names)
        return {
            day.day: status for day, status in day_statuses(self.catalog.steps, observed)["fact_daily_orders"].items()
        }


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def test_a_fact_on_a_table_of_others_follows_what_they_write(shop: Shop) -> None:
    assert shop.run() == set(DAYS)
    assert shop.amounts() == shop.there()
    assert shop.run() == set()
    shop.sql("DELETE FROM {} WHERE order_id = '17'")
    assert shop.run() == {date(2025, 1, 3)}
    assert shop.amounts() == shop.there()
    shop.sql("OPTIMIZE {}")
    assert shop.run() == set()
    shop.order(50, 52)
    assert shop.run() == {date(2025, 1, 1), date(2025, 1, 2)}
    assert shop.amounts() == shop.there()
    assert set(shop.statuses().values()) == {None}


def test_days_made_of_broken_rows_are_held_back_in_panderas_words(shop: Shop) -> None:
    shop.sql("UPDATE {} SET amount = -amount WHERE order_id IN ('7', '12')")
    shop.sql("INSERT INTO {} VALUES ('3', DATE'2025-01-04', 1.00)")
    with pytest.raises(DaysFailed) as refused:
        shop.run()
    assert {each.day.day for each in refused.value.failed} == {3, 4}
    rules = {each.day.day: {rule.rule: rule for rule in each.rules if not rule.passed} for each in refused.value.failed}
    assert rules[3]["orders_holds"].observed == "2 rows of orders 2025-01-03 break its contract"
    assert rules[3]["orders_holds"].details == ("amount: greater_than_or_equal_to(0), for example -12.00, -7.00",)
    assert rules[4].keys() == {"orders_keys_unique"}
    shop.sql("UPDATE {} SET amount = -amount WHERE amount < 0")
    shop.sql("DELETE FROM {} WHERE order_id = '3' AND amount = 1")
    assert shop.run() == set(DAYS)
    assert shop.amounts() == shop.there()
