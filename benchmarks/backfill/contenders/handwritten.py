"""Hand-written PySpark on this project's session: ``replaceWhere``, the whole range at once or by day.

Run as ``python -m benchmarks.backfill.contenders.handwritten LAKEHOUSE TARGET FIRST LAST [--by-day] [--checked]
[--landed HOME] [--wide]``. It prints the seconds it took from the session's start. With ``--checked`` each table is
looked at once it is written, by the queries of ``checks.py``; readers have seen its rows by then. With ``--landed`` it
begins with the files that have landed in a home, and writes raw as well. With ``--wide`` its tables are those of
``wide.py``.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session
from benchmarks.backfill.contenders import wide
from benchmarks.backfill.contenders.checks import CHECKS
from benchmarks.backfill.contenders.tables import RAW, TABLES, key_pads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild(
    spark: SparkSession,
    lakehouse: str,
    target: str,
    days: DayRange,
    *,
    checked: bool = False,
    home: Path | None = None,
    is_wide: bool = False,
) -> None:
    """Recompute ``days`` of the tables below ``target``, each from what the one before it has just written."""
    condition = f"day >= DATE'{days.first}' AND day <= DATE'{days.last}'"
    names = {
        "raw": f"delta.`{target if home else lakehouse}/raw_sales`",
        "rates": f"delta.`{lakehouse}/bronze_fx_rates`",
        "bronze": f"delta.`{target}/bronze_sales`",
        "quarantine": f"delta.`{target}/quarantine_sales`",
        "fact": f"delta.`{target}/fact_sales_transactions`",
        "revenue": f"delta.`{target}/fact_daily_revenue`",
        "days": condition,
    }
    queries = wide.TABLES if is_wide else TABLES
    if is_wide:
        names["raw"] = f"delta.`{lakehouse}/{wide.RAW}`"
    if home:
        names |= {"lines": f"text.`{home}/landing/sales/*/*`", **key_pads(home / "token.key")}
        queries = {"raw_sales": RAW, **TABLES}
    for name, query in queries.items():
        rows = spark.sql(query.format(**names)).write.format("delta").mode("overwrite").partitionBy("day")
        rows.option("replaceWhere", condition).save(f"{target}/{name}")
        for check, wrong in CHECKS[name].items() if checked else ():
            found = spark.sql(wrong.format(**names)).count()
            if found:
                raise ValueError(f"{name}: {found} row(s) or day(s) fail the check of {check}.")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("lakehouse")
    parser.add_argument("target")
    parser.add_argument("first", type=date.fromisoformat)
    parser.add_argument("last", type=date.fromisoformat)
    parser.add_argument("--by-day", action="store_true")
    parser.add_argument("--checked", action="store_true")
    parser.add_argument("--landed", type=Path)
    parser.add_argument("--wide", action="store_true")
    asked = parser.parse_args()
    days = DayRange(asked.first, asked.last)
    with spark_session(Settings.from_environment(), "hand-written") as spark:
        started = time.perf_counter()
        for part in days.split(1) if asked.by_day else [days]:
            more = {"checked": asked.checked, "home": asked.landed, "is_wide": asked.wide}
            rebuild(spark, asked.lakehouse, asked.target, part, **more)
        print(json.dumps({"seconds_in_session": round(time.perf_counter() - started, 2)}))


if __name__ == "__main__":
    main()
