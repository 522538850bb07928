"""How long the difference of a campaign takes, against one scan of both sides: staged days of the sales facts and main.

Run with ``.venv/bin/python benchmarks/difference.py [--days 90] [--rows 50000]``. Rows are made up by Spark, published
through the protocol, and staged anew with other amounts on every day. The scan reads all columns of both sides and
adds up a hash of each row, which is the least that can show whether two days are equal. Prints seconds of the clock and
CPU seconds (those of the clock are also other programs'), of the fastest rounds, and their ratios.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table as Rows

from backfill_assets.days import DayRange, TableDay
from backfill_assets.difference.find import compare
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayChange, Publication, TableChange
from backfill_assets.lakehouse.rows import rows_of_files, stage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.model.checks import as_declared, struct_type
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.stage import StagedTableDay, content_of, measured_days, record_verdicts
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import days_staged_in
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FACT = CATALOG.table("fact_sales_transactions")
STEP = CATALOG.step(FACT.name)
FIRST = date(2017, 3, 1)
_FIRST_SECOND = int(datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC).timestamp())
CAMPAIGN = "campaign-benchmark"
ROUNDS = 3


def made_up(spark: SparkSession, days: int, rows: int, *, mended: bool) -> DataFrame:
    """Rows of the facts; ``mended`` ones have another rate unless they were sold in euros (a third of them)."""
    n, id = F.col("id") % rows, F.col("id")
    currency = F.get(F.array(*map(F.lit, ("EUR", "USD", "GBP"))), (n % 3).cast("int"))
    sales_value = (F.pmod(F.xxhash64(id), F.lit(10_000)) / 100).cast("decimal(18,2)")
    shift = F.when(currency == "EUR", 0).otherwise(F.lit(0.01 if mended else 0.0))
    rate = (F.lit(1.0) + shift).cast("decimal(18,6)")
    at = F.timestamp_seconds(F.lit(_FIRST_SECOND) + F.floor(id / rows) * 86_400 + n % 86_400)
    values: dict[str, Column] = {
        "transaction_id": F.concat_ws("-", 30_000_000_000 + F.floor(id / 8), 800_000 + n),
        "household_token": F.sha2((n % 2_000).cast("string"), 256),
        "store_id": (F.pmod(F.xxhash64(n), F.lit(400))).cast("string"),
        "basket_id": (30_000_000_000 + F.floor(id / 8)).cast("string"),
        "product_id": (800_000 + n).cast("string"),
        "quantity": n % 5 + 1,
        "sales_value": sales_value,
        "retail_disc": F.lit(0),
        "coupon_disc": F.lit(0),
        "coupon_match_disc": F.lit(0),
        "transaction_timestamp": at,
        "currency": currency,
        "updated_at": at,
        "rate": rate,
        "rate_day": F.to_date(at),
        "amount_eur": sales_value / rate,
        "day": F.to_date(at),
    }
    fields = struct_type(FACT.contract).fields
    found = spark.range(days * rows).select(*(as_declared(values[field.name], field) for field in fields))
    return found.repartition("day")


def staged(builder: Builder, spark: SparkSession, days: DayRange, name: str, rows: DataFrame) -> list[StagedTableDay]:
    """The rows in a timeline, measured as a build does it."""
    lake = builder.lake
    timeline = Timeline(lake.storage, FACT.name, name)
    timeline.open()
    pin = lake.publisher.pin({FACT.name: days}, {})
    stage(rows, timeline, {day: StagedAs(input_fingerprint=name) for day in days}, table=FACT)
    schema = timeline.schema()
    measured = measured_days(spark, FACT, timeline, list(days))
    found = [
        StagedTableDay(FACT.name, day, (), content_of(measured[day], "v1", "", {}), (), pin, schema) for day in days
    ]
    return record_verdicts(timeline, found, dict.fromkeys(days, name))


def publish(builder: Builder, found: list[StagedTableDay]) -> None:
    changes = tuple(
        DayChange(
            day=each.day,
            adds=each.files,
            content=each.content,
            expected=each.pin.expected[TableDay(FACT.name, each.day)],
        )
        for each in found
    )
    change = TableChange(table=FACT.name, table_schema=found[0].table_schema, days=changes)
    builder.lake.publisher.publish(Publication(id="benchmark", kind="replace", tables=(change,)))


def scan(builder: Builder, spark: SparkSession) -> None:
    """Everything on both sides, once."""
    storage = builder.lake.storage
    main = spark.read.format("delta").load(storage.uri(FACT.name))
    timeline = Timeline(storage, FACT.name, f"{CAMPAIGN}-rows")
    both = main.unionByName(rows_of_files(spark, timeline, timeline.files()))
    hashed = F.xxhash64(*(F.col(name) for name in both.columns)).cast("decimal(20,0)")
    both.groupBy("day").agg(F.count("*"), F.sum(hashed)).collect()


Spent = tuple[float, float]
"""Seconds of the clock, and CPU seconds."""


def cpu_seconds(spark: SparkSession) -> float:
    """Of this process and of the JVM that it has started, as Linux counts them."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "Spark is embedded here."
    stat = Path(f"/proc/{gateway.proc.pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK") + time.process_time()


def spent(spark: SparkSession, what: Callable[[], object]) -> Spent:
    clock, cpu = time.perf_counter(), cpu_seconds(spark)
    what()
    return time.perf_counter() - clock, cpu_seconds(spark) - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description="Validating a campaign against one scan of both sides.")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--rows", type=int, default=50_000, help="of each day")
    asked = parser.parse_args()
    days = DayRange.of(FIRST).widened(after=asked.days - 1)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.at(Path(folder))
        with spark_session(settings, "benchmark") as spark:
            builder = Builder.from_settings(settings, CATALOG, lambda: spark)
            publish(
                builder, staged(builder, spark, days, "first", made_up(spark, asked.days, asked.rows, mended=False))
            )
            staged(builder, spark, days, f"{CAMPAIGN}-rows", made_up(spark, asked.days, asked.rows, mended=True))
            steps = [StepRequest(STEP, tuple(days))]

            def difference() -> None:
                held = days_staged_in(builder.lake.storage, CAMPAIGN, [table.name for table in STEP.tables])
                ((found,), _) = compare(builder.lake, steps, held, lambda message: None)
                assert found.rows.sums.before == found.rows.sums.after == asked.days * asked.rows
                assert len(found.differing) == asked.days and found.sample

            rounds = [(spent(spark, lambda: scan(builder, spark)), spent(spark, difference)) for _ in range(ROUNDS)]
    rows = Rows("what", "clock s", "CPU s", title=f"{asked.days} days x {asked.rows:,} rows a side")
    scanned, compared = (tuple(map(min, zip(*each, strict=True))) for each in zip(*rounds, strict=True))
    for name, found in (("scan of both sides", scanned), ("difference", compared)):
        rows.add_row(name, *(f"{each:.1f}" for each in found))
    rows.add_row("ratio", *(f"{one / other:.2f}" for one, other in zip(compared, scanned, strict=True)))
    Console().print(rows)


if __name__ == "__main__":
    main()
