"""One large day from landed files to revenue: ``python -m benchmarks.large_day [--rows 20000000] [--home FOLDER]``.

DuckDB lands files of a million sound lines of the sample's shape, all of one day. Prints, for raw and for what is made
of it, seconds of the clock and of the processor, and the greatest memory of Spark's JVM and of any other process: a
worker, or the command itself. ``--home`` is a new folder that is kept.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import date
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table as Rows

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.live import land_references
from benchmarks.backfill.data import BACKFILL, TABLES
from benchmarks.backfill.timed import Timed, timed

DAY = date(2017, 3, 15)
LINES_OF_A_FILE = 1_000_000
_LINES = """
COPY (
    SELECT
        (i % 2500)::VARCHAR AS household_id,
        (i % 400)::VARCHAR AS store_id,
        (i // 10)::VARCHAR AS basket_id,
        (1000000 + i % 10)::VARCHAR AS product_id,
        (1 + i % 3)::VARCHAR AS quantity,
        (1 + hash(i) % 2000 / 100)::DECIMAL(18, 2)::VARCHAR AS sales_value,
        '0.00' AS retail_disc,
        '0.00' AS coupon_disc,
        '0.00' AS coupon_match_disc,
        strftime(TIMESTAMP '{day}' + to_microseconds(i * 4000 % 86400000000), '%Y-%m-%dT%H:%M:%SZ')
            AS transaction_timestamp,
        CASE WHEN i % 3 = 0 THEN 'USD' ELSE 'EUR' END AS currency,
        '{day}T23:59:59Z' AS updated_at
    FROM range({first}, {end}) AS numbers(i)
) TO '{file}' (FORMAT json, COMPRESSION gzip)
"""


def land(home: Path, rows: int) -> None:
    """Land ``rows`` lines on one day, with the references that they need."""
    land_references(home / "landing", DayRange(DAY, DAY))
    folder = home / "landing" / "sales" / str(DAY)
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        for first in range(0, rows, LINES_OF_A_FILE):
            end, file = min(rows, first + LINES_OF_A_FILE), folder / f"part-{first // LINES_OF_A_FILE:03d}.jsonl.gz"
            connection.execute(_LINES.format(day=DAY, first=first, end=end, file=file))


def run(home: Path, name: str, *words: str) -> Timed:
    """``backfill run`` in a process of its own; how far it is goes to ``name``.log in ``home``."""
    command, environment = [BACKFILL, "run", *words, "--json"], {"BACKFILL_HOME": str(home)}
    return timed(command, environment, home / f"{name}.log", timeout_seconds=7200)


def main() -> None:
    """Land, build, and say what it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_day", description="One large day, measured.")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--home", type=Path, help="a new folder that is kept")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        home = asked.home or Path(temporary)
        print(f"Landing {asked.rows:,} lines of {DAY} ...", file=sys.stderr, flush=True)
        land(home, asked.rows)
        references = ("raw_fx_rates", "bronze_fx_rates", "--days", str(DayRange(DAY, DAY).widened(before=10)))
        run(home, "references", *references)
        found = {"landed files to raw": run(home, "raw", "raw_sales", "--days", f"{DAY}..{DAY}")}
        for table in TABLES:
            found[f"to {table}"] = run(home, table, table, "--days", f"{DAY}..{DAY}")
        shown = Rows("part", "clock s", "CPU s", "JVM MiB", "other MiB", title=f"{asked.rows:,} rows of one day")
        for part, took in found.items():
            memory = (took.peak_mib_of_jvm, took.peak_mib_of_others)
            shown.add_row(part, f"{took.seconds:.0f}", f"{took.cpu_seconds:.0f}", *map(str, memory))
        Console().print(shown)


if __name__ == "__main__":
    main()
