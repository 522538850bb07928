"""One write to a timeline, beside the same rows through Delta's own writer: ``python benchmarks/staged_write.py``.

Both write the same rows of one day, in turn, each time into a table that is not there yet; the first round has a cold
JVM, and Delta's writer comes second in it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.lakehouse.rows import stage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session

DAY = date(2017, 3, 1)
ROWS, COLUMNS, ROUNDS = 2_000, 12, 20


def staged(rows: DataFrame, root: Path) -> None:
    stage(rows, Timeline(Storage(str(root)), "rows", "run"), {DAY: StagedAs(input_fingerprint="")})


def by_delta(rows: DataFrame, root: Path) -> None:
    rows.write.format("delta").partitionBy("day").save(str(root / "rows"))


def seconds(write: Callable[[DataFrame, Path], None], rows: DataFrame) -> float:
    root = Path(tempfile.mkdtemp(prefix="staged-write-"))
    started = time.perf_counter()
    write(rows, root)
    taken = time.perf_counter() - started
    shutil.rmtree(root)
    return taken


def main() -> None:
    with spark_session(Settings.from_environment(), "staged-write") as spark:
        texts = [F.concat(F.lit(f"{number}-"), F.col("id")).alias(f"text_{number}") for number in range(COLUMNS)]
        rows = spark.range(ROWS).select("id", *texts, F.lit(DAY).cast("date").alias("day")).repartition("day")
        taken = [(seconds(staged, rows), seconds(by_delta, rows)) for _ in range(ROUNDS)]
    print(f"{ROWS:,} rows, {COLUMNS + 1} columns; seconds", file=sys.stderr)
    for name, index in (("staged", 0), ("Delta's own writer", 1)):
        warm = sorted(pair[index] for pair in taken[ROUNDS // 2 :])
        print(f"{name}: first {taken[0][index]:.2f}, warm {warm[len(warm) // 2]:.2f} ({warm[0]:.2f} to {warm[-1]:.2f})")


if __name__ == "__main__":
    main()
