"""Others write their table in any order, beside runs, campaigns and rollbacks of what is computed from it.

After each step, what is published of a day is what one version of their table gave that was current since it was looked
at; a month is the sum of its published days. The oracle is a list of rows in plain Python. The seed is printed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.undo import undo
from backfill_assets.days import Cadence, DayRange
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.derived_dataset import DerivedDataset
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.settings import Settings
from backfill_assets.state.reading import read_published
from backfill_assets_tests.strategies.how_many import drawn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2025-01-30..2025-02-02")
MONTHS = (date(2025, 1, 1), date(2025, 2, 1))
FACT, REPORT = "fact_daily_orders", "report_monthly_orders"
STEPS = 2
RUN = RunInfo("generated")
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
Rows = dict[int, tuple[date, Decimal]]
"""Day and amount of each order, by its number."""
Amounts = dict[date, Decimal]


class Order(Contract):
    """An order as the shop has it."""

    order_id: T.LongType = Field(key=True)
    amount: Annotated[T.DecimalType, 12, 2] = Field(ge=0)


class DailyOrders(Contract):
    """What was ordered on each day."""

    amount: Annotated[T.DecimalType, 18, 2] = Field()
    day: T.DateType = Field(key=True)


class MonthlyOrders(Contract):
    """The same by month."""

    amount: Annotated[T.DecimalType, 18, 2] = Field()
    day: T.DateType = Field(key=True)


def declared(location: Path) -> Catalog:
    orders = ExternalTable("orders", Order, location=str(location), day="order_date")
    shop = DerivedDataset(
        name="shop",
        description="Orders.",
        owners=("team:shop",),
        first_day=DAYS.first,
        external=(orders,),
    )
    shop.table(FACT, totals=("amount",))(DailyOrders)
    shop.table(REPORT, cadence=Cadence.MONTHLY, totals=("amount",))(MonthlyOrders)

    @shop.version(DailyOrders, "v1", "Sums.", "orders")
    def sums(orders: DataFrame) -> DataFrame:
        return orders.groupBy("day").agg(F.sum("amount").cast("decimal(18,2)").alias("amount"))

    @shop.version(DailyOrders, "v2", "Sums, and one for each order.", "orders", current=False)
    def sums_with_fees(orders: DataFrame) -> DataFrame:
        return orders.groupBy("day").agg(F.sum(F.col("amount") + 1).cast("decimal(18,2)").alias("amount"))

    @shop.version(MonthlyOrders, "v1", "Sums.", FACT)
    def months(fact: DataFrame) -> DataFrame:
        return fact.groupBy(F.trunc("day", "month").alias("day")).agg(
            F.sum("amount").cast("decimal(18,2)").alias("amount")
        )

    return Catalog.of([shop])


def given(rows: Rows, version: str) -> Amounts:
    """What a ``version`` of the fact makes of ``rows``, by day."""
    found: Amounts = {}
    for day, amount in rows.values():
        found[day] = found.get(day, Decimal(0)) + amount + (version == "v2")
    return found


@dataclass
class History:
    """Their table, with its rows at each version; and ours, with what may be published of each day."""

    spark: SparkSession
    home: Path
    dice: random.Random
    rows: Rows = field(default_factory=dict)
    at: dict[int, Rows] = field(default_factory=dict)
    """Their rows at each version of their table that had other ones."""
    looked: int = 0
    """The version of their table that was looked at last."""
    vacuumed: int = -1
    """The version of their table that was the newest one when it was vacuumed last: older ones may be gone."""
    orders: int = 0
    campaigns: int = 0
    before: Amounts = field(default_factory=dict)
    """What was published before the campaign that may be undone."""
    published: str = ""
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.location = self.home / "others" / "orders"
        self.catalog = declared(self.location)
        self.settings = Settings.at(self.home / "ours")
        self.storage = Storage(str(self.settings.lakehouse))
        self.builder = Builder.from_settings(self.settings, self.catalog, lambda: self.spark)
        self.sql(
            "CREATE TABLE {} (order_id BIGINT, order_date DATE, amount DECIMAL(10,2)) USING delta"
            " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        self.rows = {number: (day, Decimal(number + 1)) for number, day in enumerate(DAYS)}
        self.orders = len(self.rows)
        self.sql(f"INSERT INTO {{}} {_values(self.rows)}")
        self.insert()

    # ---------------------------------------------------------------- others

    def sql(self, text: str) -> None:
        self.spark.sql(text.format(f"delta.`{self.location}`"))
        self.at[self.newest] = dict(self.rows)

    @property
    def newest(self) -> int:
        return max(int(each.name[:20]) for each in (self.location / "_delta_log").glob("*.json"))

    def _new(self, count: int) -> Rows:
        numbers = range(self.orders, self.orders + count)
        self.orders += count
        return {number: (self._day(), Decimal(self.dice.randrange(1, 90))) for number in numbers}

    def _day(self) -> date:
        return DAYS.first + timedelta(days=self.dice.randrange(len(DAYS)))

    def insert(self) -> None:
        new = self._new(4)
        self.rows |= new
        self.sql(f"INSERT INTO {{}} {_values(new)}")

    def delete(self) -> None:
        gone = self.dice.sample(sorted(self.rows), min(2, len(self.rows)))
        self.rows = {number: row for number, row in self.rows.items() if number not in gone}
        self.sql(f"DELETE FROM {{}} WHERE order_id IN ({', '.join(map(str, [-1, *gone]))})")  # noqa: S608 our own words

    def update(self) -> None:
        """Half of the orders of a day cost more."""
        of = self._day()
        self.rows = {
            number: (day, amount + 7 if day == of and number % 2 else amount)
            for number, (day, amount) in self.rows.items()
        }
        self.sql(f"UPDATE {{}} SET amount = amount + 7 WHERE order_date = DATE'{of}' AND order_id % 2 = 1")  # noqa: S608 our own words

    def merge(self) -> None:
        """Some orders move to another day, and new ones come."""
        known = self.dice.sample(sorted(self.rows), min(2, len(self.rows)))
        new = {**{number: (self._day(), Decimal(5)) for number in known}, **self._new(2)}
        self.rows |= new
        self.sql(
            f"MERGE INTO {{}} t USING ({_values(new)}) s ON t.order_id = s.order_id"
            " WHEN MATCHED THEN UPDATE SET order_date = s.order_date, amount = s.amount"
            " WHEN NOT MATCHED THEN INSERT *"
        )

    def overwrite(self) -> None:
        of = self._day()
        new = {number: (of, amount) for number, (_, amount) in self._new(3).items()}
        self.rows = {number: row for number, row in self.rows.items() if row[0] != of} | new
        self.sql(f"INSERT INTO {{}} REPLACE WHERE order_date = DATE'{of}' {_values(new)}")

    def optimize(self) -> None:
        self.sql("OPTIMIZE {} ZORDER BY (order_date)")

    def vacuum(self) -> None:
        self.vacuumed = self.newest
        self.sql("VACUUM {} RETAIN 0 HOURS")

    # ------------------------------------------------------------------ ours

    def run(self) -> None:
        """Of all days, as they were published: then each is what the newest rows give, and nothing is left to do."""
        for table, days in ((FACT, list(DAYS)), (REPORT, list(MONTHS))):
            self.builder.build(self.catalog.step(table), days, run=RUN, version=AS_PUBLISHED)
        self.looked, self.vacuumed = self.newest, -1
        self.require(self.amounts(FACT) == given(self.rows, "v2" if self.published else "v1"))

    def campaign(self) -> None:
        """Of all days by the other version, on what was looked at last, with writes of others in between."""
        if self.published:
            return self.undo()
        lake, steps = self.builder.lake, [*map(self._asked, (FACT, REPORT), (list(DAYS), list(MONTHS)), ("v2", ""))]
        self.campaigns += 1
        before = self.amounts(FACT)
        try:
            done = cut_over(lake, f"campaign-{self.campaigns:016x}", steps, RUN, self.told.append)
        except LakehouseUnusable as error:
            self._require_cleaned_up(error)
            return None
        self.before, self.published = before, done.published.publication
        return self.require_current("v2")

    def undo(self) -> None:
        try:
            undo(self.builder.lake, self.published, RUN, self.told.append)
        except LakehouseUnusable as error:
            self._require_cleaned_up(error)
            return
        self.published = ""
        self.require_current("v1", or_as=self.before)

    def _asked(self, table: str, days: Sequence[date], version: str) -> StepRequest:
        return StepRequest(self.catalog.step(table), days, version)

    def _require_cleaned_up(self, error: LakehouseUnusable) -> None:
        """Others had cleaned it up since the last look, and it is said so: a run looks again, and all goes on."""
        self.told.append(f"refused: {error}")
        self.require("cannot be read any more" in str(error) and self.vacuumed >= self.looked)
        self.run()

    # ------------------------------------------------------------ the oracle

    def require(self, holds: bool) -> None:
        if not holds:
            pytest.fail(f"{self.told}: published {self.amounts(FACT)}, {self.rows} is there", pytrace=False)

    def require_current(self, version: str, or_as: Mapping[date, Decimal] | None = None) -> None:
        """Each day is what one version gave that was current since the last look; or it is as it was before."""
        found, current = self.amounts(FACT), [rows for at, rows in self.at.items() if at >= self.looked]
        current.append(self.at[max(at for at in self.at if at <= self.looked)])
        amounts = [given(rows, version) for rows in current]
        for day in DAYS:
            self.told.append(f"{day}: {found.get(day)} of {[each.get(day) for each in amounts]}")
            as_before = or_as is not None and found.get(day) == or_as.get(day)
            self.require(as_before or any(found.get(day) == each.get(day) for each in amounts))

    def require_months_add_up(self) -> None:
        found = self.amounts(REPORT)
        for month in MONTHS:
            days = [amount for day, amount in self.amounts(FACT).items() if day.replace(day=1) == month]
            self.require(found.get(month, Decimal(0)) == sum(days))

    def amounts(self, table: str) -> Amounts:
        rows = read_published(self.storage, table).dataset().to_table().to_pylist()
        return {row["day"]: row["amount"] for row in rows}


def _values(rows: Rows) -> str:
    values = (f"({number}, DATE'{day}', {amount})" for number, (day, amount) in rows.items())
    columns = "CAST(order_id AS BIGINT) AS order_id, order_date, CAST(amount AS DECIMAL(10,2)) AS amount"
    return f"SELECT {columns} FROM VALUES {', '.join(values)} AS t(order_id, order_date, amount)"  # noqa: S608 our own words


@contextmanager
def vacuuming_at_once(spark: SparkSession) -> Iterator[None]:
    """Delta refuses to vacuum what is younger than a week, unless it is told so; and starts 10,000 tasks to list it."""
    spark.conf.set(_CHECK, "false")
    spark.conf.set(_LISTING, "2")
    try:
        yield
    finally:
        spark.conf.unset(_LISTING)
        spark.conf.unset(_CHECK)


THEIRS = ("insert", "delete", "update", "merge", "overwrite", "optimize", "vacuum")


@pytest.mark.timeout(420)
@pytest.mark.parametrize("number", range(drawn(1)))
def test_what_is_published_is_always_what_a_version_of_theirs_gave(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    with vacuuming_at_once(spark):
        history = History(spark, tmp_path, random.Random(seed))
        history.told.append(f"seed {seed}")
        history.run()
        for _ in range(STEPS):
            for each in [
                *history.dice.sample(THEIRS, history.dice.randrange(3)),
                history.dice.choice(("run", "campaign", "campaign")),
            ]:
                history.told.append(each)
                getattr(history, each)()
            history.require_months_add_up()
        history.told.append("the last run")
        history.run()
        history.require_months_add_up()


@pytest.mark.long
def test_a_campaign_looks_again_at_what_others_have_cleaned_up(spark: SparkSession, tmp_path: Path) -> None:
    """What was looked at lay in files that are gone: its days are made of what there is now."""
    history = History(spark, tmp_path, random.Random(1))
    history.run()
    with vacuuming_at_once(spark):
        history.optimize()
        history.vacuum()
    history.campaign()
    assert history.published and not any(each.startswith("refused") for each in history.told)
