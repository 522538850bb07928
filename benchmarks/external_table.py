"""Facts from a Delta table that others write: ``python -m benchmarks.external_table [--days 90] [--rows 50000]``.

This package reads it in place and publishes, with its contract, keys and totals judged; hand-written Spark reads the
same table on the same session settings and writes by ``replaceWhere``, with no check. Both compute all days again, each
in a process of its own, in turn. No time is printed before their rows are equal, by day. Prints seconds of the clock
and of all processes' CPU.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Lines

from backfill_assets.days import DayRange
from benchmarks.backfill.data import BACKFILL, CACHE
from benchmarks.backfill.timed import Timed, timed
from benchmarks.external_orders import FIRST_DAY, LOCATION, NET

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROUNDS = 3
_ORDERS = """
INSERT INTO delta.`{orders}`
SELECT id, CAST(id % 400 AS STRING), CAST(1 + id % 3 AS INT), CAST(1 + (id * 7919) % 2000 / 100 AS DECIMAL(12, 2)),
  CAST((id % 100) / 100 AS DECIMAL(12, 2)),
  TIMESTAMP'{first} 00:00:00' + make_dt_interval(CAST(id DIV {rows} AS INT), 0, 0, CAST(id % 86400 AS DECIMAL(18, 6)))
FROM range({total})
"""
_TABLE = """
CREATE TABLE delta.`{orders}` (order_id BIGINT, store_id STRING, pieces INT, amount DECIMAL(12, 2),
  discount DECIMAL(12, 2), ordered_at TIMESTAMP)
USING delta CLUSTER BY (ordered_at) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')
"""
_BY_DAY = "SELECT day, count(*), sum(order_id), sum(pieces), sum(net) FROM facts GROUP BY day ORDER BY day"


class Shop:
    """The table of others, our lakehouse, and the table that is written by hand."""

    def __init__(self, days: int, rows: int) -> None:
        self.days, self.rows = DayRange(FIRST_DAY, FIRST_DAY + timedelta(days=days - 1)), rows
        self.home = CACHE / "external" / f"{days}x{rows}"
        self.orders, self.by_hand = self.home / "orders", self.home / "by-hand" / "fact_orders"

    def make(self) -> None:
        """Once; others have deleted a few rows by deletion vectors since they wrote them."""
        if not (self.home / "complete").exists():
            shutil.rmtree(self.home, ignore_errors=True)
            self._python("make")
            (self.home / "complete").touch()

    def with_this_package(self) -> Timed:
        command = [BACKFILL, "run", "fact_orders", "--days", str(self.days), "--force", "--json"]
        return self._timed(command, "ours")

    def with_spark(self) -> Timed:
        return self._python("by-hand")

    def totals(self) -> dict[str, list[tuple[object, ...]]]:
        """Of both tables, by day."""
        import duckdb
        from deltalake import DeltaTable

        found = {}
        for table in (self.home / "lakehouse" / "fact_orders", self.by_hand):
            with duckdb.connect() as connection:
                connection.register("facts", DeltaTable(table).to_pyarrow_dataset())
                found[str(table)] = connection.execute(_BY_DAY).fetchall()
        return found

    def _python(self, what: str) -> Timed:
        size = ("--days", str(len(self.days)), "--rows", str(self.rows))
        return self._timed([sys.executable, "-m", "benchmarks.external_table", *size, "--part", what], what)

    def _timed(self, command: list[str], name: str) -> Timed:
        env = {
            "BACKFILL_HOME": str(self.home),
            "BACKFILL_DATASETS": "benchmarks.external_orders",
            LOCATION: str(self.orders),
        }
        return timed(command, env, CACHE / "logs" / f"external-{name}.log")

    # ------------------------------------------------- in a process of their own

    def write_orders(self, spark: SparkSession) -> None:
        names = {"orders": self.orders, "first": FIRST_DAY, "rows": self.rows, "total": len(self.days) * self.rows}
        spark.sql(_TABLE.format(**names))
        spark.sql(_ORDERS.format(**names))
        spark.sql(f"OPTIMIZE delta.`{self.orders}`")
        spark.sql(f"DELETE FROM delta.`{self.orders}` WHERE order_id % 1000 = 7")  # noqa: S608 our own words

    def write_facts(self, spark: SparkSession) -> None:
        within = f"day >= DATE'{self.days.first}' AND day <= DATE'{self.days.last}'"
        columns = f"order_id, store_id, pieces, {NET} AS net, CAST(ordered_at AS DATE) AS day"
        query = f"SELECT {columns} FROM delta.`{self.orders}`"  # noqa: S608 our own words
        rows = spark.sql(query).where(within).repartition("day")
        facts = rows.write.format("delta").mode("overwrite").partitionBy("day").option("replaceWhere", within)
        facts.save(str(self.by_hand))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--part", choices=("make", "by-hand"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    shop = Shop(asked.days, asked.rows)
    if asked.part:
        _in_session(shop.write_orders if asked.part == "make" else shop.write_facts)
        return
    shop.make()
    contenders = {"this package": shop.with_this_package, "hand-written Spark": shop.with_spark}
    for run in contenders.values():
        run()  # what is timed replaces what is there
    runs: dict[str, list[Timed]] = {name: [] for name in contenders}
    for number in range(asked.rounds):
        for name in sorted(contenders, reverse=bool(number % 2)):
            runs[name].append(contenders[name]())
        ours, theirs = shop.totals().values()
        if ours != theirs or len(ours) != asked.days:
            raise SystemExit(f"The rows are not equal: {ours[:2]} and {theirs[:2]}.")
    _print(runs, f"{asked.days} x {asked.rows:,} rows")


def _in_session(part: Callable[[SparkSession], None]) -> None:
    from backfill_assets.settings import Settings
    from backfill_assets.spark.session import spark_session

    with spark_session(Settings.from_environment(), "orders of others") as spark:
        part(spark)


def _print(runs: dict[str, list[Timed]], what: str) -> None:
    """The best round of each: others are on the machine too."""
    lines = Lines(what, "seconds", "CPU seconds", "largest process, MiB")
    best = {name: min(each, key=lambda run: run.cpu_seconds) for name, each in runs.items()}
    for name, run in best.items():
        lines.add_row(name, f"{run.seconds:.1f}", f"{run.cpu_seconds:.1f}", str(run.peak_mib))
    ours, theirs = best.values()
    lines.add_row("ratio", f"{ours.seconds / theirs.seconds:.2f}", f"{ours.cpu_seconds / theirs.cpu_seconds:.2f}", "")
    Console().print(lines)


if __name__ == "__main__":
    main()
