"""Hand-written PySpark on this project's session: ``replaceWhere``, no checks, the whole range at once or by day.

Run as ``python -m benchmarks.backfill.contenders.handwritten LAKEHOUSE TARGET FIRST LAST [--by-day]``. It prints the
seconds it took from the session's start.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session
from benchmarks.backfill.contenders.tables import BRONZE, FACT, QUARANTINE, REVENUE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {
    "bronze_sales": BRONZE,
    "quarantine_sales": QUARANTINE,
    "fact_sales_transactions": FACT,
    "fact_daily_revenue": REVENUE,
}


def rebuild(spark: SparkSession, lakehouse: str, target: str, days: DayRange) -> None:
    """Recompute ``days`` of the four tables below ``target``, each from what the one before it has just written."""
    condition = f"day >= DATE'{days.first}' AND day <= DATE'{days.last}'"
    for name, query in TABLES.items():
        text = query.format(
            raw=f"delta.`{lakehouse}/raw_sales`",
            rates=f"delta.`{lakehouse}/bronze_fx_rates`",
            bronze=f"delta.`{target}/bronze_sales`",
            fact=f"delta.`{target}/fact_sales_transactions`",
            days=condition,
        )
        rows = spark.sql(text).write.format("delta").mode("overwrite").partitionBy("day")
        rows.option("replaceWhere", condition).save(f"{target}/{name}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("lakehouse")
    parser.add_argument("target")
    parser.add_argument("first", type=date.fromisoformat)
    parser.add_argument("last", type=date.fromisoformat)
    parser.add_argument("--by-day", action="store_true")
    asked = parser.parse_args()
    days = DayRange(asked.first, asked.last)
    with spark_session(Settings.from_environment(), "hand-written") as spark:
        started = time.perf_counter()
        for part in days.split(1) if asked.by_day else [days]:
            rebuild(spark, asked.lakehouse, asked.target, part)
        print(json.dumps({"seconds_in_session": round(time.perf_counter() - started, 2)}))


if __name__ == "__main__":
    main()
