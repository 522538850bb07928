"""Others fill a table, a fact on it was wrong for two months: plan, difference, approval and undo, while they write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets_tests.cli.command import Backfill, work_with
from backfill_assets_tests.declared import declare
from backfill_assets_tests.stories.orders_of_others import shop_at
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, ALL_DAYS = date(2025, 1, 1), 60
WRONG = DayRange(FIRST, FIRST + timedelta(days=40))


@pytest.fixture
def others(spark: SparkSession, tmp_path: Path) -> Callable[[str], object]:
    """What the shop does to its table: SQL in which ``{}`` is its name."""
    table = f"delta.`{tmp_path / 'lake' / 'orders'}`"
    spark.sql(
        f"CREATE TABLE {table} (order_id STRING, email STRING, order_date DATE, amount DECIMAL(10,2)) USING delta "
        "PARTITIONED BY (order_date) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    row = f"CAST(id AS STRING), CONCAT('u', id % 3, '@x.org'), DATE'{FIRST}' + CAST(id % {ALL_DAYS} AS INT)"
    amount = "CAST(id % 97 AS DECIMAL(10,2))"
    spark.sql(f"INSERT INTO {table} SELECT {row}, {amount} FROM range({4 * ALL_DAYS})")  # noqa: S608
    return lambda text: spark.sql(text.format(table))


def published(workshop: Workshop, table: str = "fact_daily_orders") -> dict[date, Decimal]:
    return dict(workshop.read(table)[["day", "amount"]].itertuples(index=False))


def expected(without: int = -1, plus: Decimal = Decimal(0), taxed: bool = False) -> dict[date, Decimal]:
    """In plain Python: the amounts of all days, without an order, and with more on two of them."""
    found = dict.fromkeys(WRONG, Decimal(0))
    for order in range(4 * ALL_DAYS):
        if (day := FIRST + timedelta(days=order % ALL_DAYS)) in WRONG and order != without:
            amount = Decimal(order % 97) + (plus if day in (FIRST, WRONG.last) else 0)
            found[day] += round(amount * Decimal("1.07"), 2) if taxed else amount
    return found


def test_a_fact_on_a_table_of_others_is_rebuilt_approved_and_undone(
    workshop: Workshop, others: Callable[[str], object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, shop_at(tmp_path / "lake" / "orders"))
    backfill = Backfill(workshop.settings.home, monkeypatch)
    work_with(monkeypatch, workshop)
    others("DELETE FROM {} WHERE order_id = '17'")
    days = ("--days", str(WRONG))
    assert backfill.statuses()["orders"].keys() == {"written since it was looked at"}
    backfill("run", "+fact_daily_orders+", *days)
    assert published(workshop) == expected(without=17)

    planned = backfill.json("plan", "+fact_daily_orders", *days, "--version", "v2")
    (orders,) = (each for each in planned["reads"] if each["table"] == "orders")
    assert orders["files"].startswith("version 2; its own history goes back to 0, of ")
    backfill("run", planned["plan"], "--waves", "100%", "--limits", "deviation=50%")
    assert published(workshop) == expected(without=17)
    others("UPDATE {} SET amount = amount + 1 WHERE order_date IN (DATE'2025-01-01', DATE'2025-02-10')")
    backfill("approve", planned["plan"], "--yes")
    assert published(workshop) == expected(17, Decimal(1), taxed=True)
    assert sum(published(workshop, "report_orders").values()) == sum(published(workshop).values())

    backfill("rollback", planned["plan"], "--yes")
    assert published(workshop) == expected(17, Decimal(1))
    assert sum(published(workshop, "report_orders").values()) == sum(published(workshop).values())
    assert set(backfill.statuses()["fact_daily_orders"]) == {"fresh", "missing"}
    held = [
        path for path in workshop.settings.lakehouse.rglob("*") if path.is_file() and b"@x.org" in path.read_bytes()
    ]
    assert held == []
