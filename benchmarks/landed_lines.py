"""What a landed line costs on its way to raw: ``python -m benchmarks.landed_lines [--files 6] [--rounds 8]``.

Reads files of 50,000 lines of the sample's shape, one a day, and writes them as ``stage`` does. Each round takes other
files, in one embedded session; prints CPU microseconds of the JVM for a line, of each round: the first one has a cold
JVM, and its second compiler is done after several hundred thousand lines.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.lakehouse.rows import stage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.raw_rows import raw_rows
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session
from benchmarks.backfill.data import generated
from benchmarks.difference import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS, LINES = 90, 50_000


def cpu_of(spark: SparkSession, files: list[Path], token_key: Path) -> float:
    """CPU seconds of the JVM while the lines of ``files`` are read and written."""
    rows = raw_rows(spark, SALES.source, [str(file) for file in files], str(token_key))
    with tempfile.TemporaryDirectory(prefix="landed-lines-") as root:
        before = cpu_seconds(spark)
        stage(rows, Timeline(Storage(root), "raw_sales", "run"), {}, other_days=True)
        return cpu_seconds(spark) - before


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds of landed lines on their way to raw.")
    parser.add_argument("--files", type=int, default=6, help="of a round, each of 50,000 lines")
    parser.add_argument("--rounds", type=int, default=8, help="each of other files")
    asked = parser.parse_args()
    settings = Settings.at(generated(DAYS, LINES).home)
    files = sorted((settings.landing / SALES.source.name).glob("*/*"))
    with spark_session(settings, "landed-lines") as spark:
        for turn in range(asked.rounds):
            part = [files[(turn * asked.files + number) % len(files)] for number in range(asked.files)]
            cpu = cpu_of(spark, part, settings.token_key_file)
            print(f"round {turn + 1}: {cpu / (asked.files * LINES) * 1e6:.1f} CPU us a line", flush=True)


if __name__ == "__main__":
    main()
