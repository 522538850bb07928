"""What it costs to let bronze, facts and daily revenue follow a batch: days of many rows that gain a few.

Run with ``python -m benchmarks.stream.extension [--rows 50000] [--new 2000] [--rounds 5] [--home FOLDER]``. Three days
are built from landed files; then each round lands new rows for all of them, ingests them into raw, and extends the
days as a stream does, in one session with the settings of a stream. Prints seconds of the clock and of the processor
(Python and the JVM) and the number of Spark's jobs of each extension. The first rounds are those of a JVM that has
just started.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table as Rows

from backfill_assets.cli.foreground import foreground_spark
from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.synthetic import SyntheticSpec, synthesize
from backfill_assets.rebuild.follow import FollowBuild
from backfill_assets.rebuild.growing import InputMemory, following
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets.stream.batches import HOLD_SECONDS, stream_name
from backfill_assets.stream.live import STREAM_SETTINGS
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-01..2017-03-03")
RAW = "raw_sales"


def processor_seconds() -> float:
    """Of this process and of its JVM."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def jobs_of(spark: SparkSession, group: str) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def land(workshop: Workshop, home: Path, number: int, rows: int) -> None:
    """Land ``rows`` new rows of each day as one more file of it."""
    made = home / f"made-{number}"
    synthesize(SyntheticSpec(days=DAYS, rows_per_day=rows, seed=1000 + number, defects={}), made)
    for file in sorted(made.glob("sales/*/*")):
        landed = workshop.settings.landing / file.relative_to(made)
        file.rename(landed.with_name(f"round-{number}-{file.name}"))


def measure(home: Path, rows: int, new: int, rounds: int) -> list[tuple[float, float, int]]:
    """Clock, processor seconds and jobs of each round."""
    settings, found = Settings.at(home), []
    with ExitStack() as stack:
        spark = foreground_spark(settings, stack, STREAM_SETTINGS)
        workshop = Workshop(home, lambda: spark)
        workshop.land_synthetic(SyntheticSpec(days=DAYS, rows_per_day=rows, seed=7, defects={}))
        workshop.build_all(DAYS)
        steps, memory = following(CATALOG.steps, RAW), InputMemory()
        for number in range(rounds):
            land(workshop, home, number, new // len(DAYS))
            workshop.build(RAW, DAYS)
            spark.sparkContext.setJobGroup(f"round {number}", "extension")
            clock, processor = time.monotonic(), processor_seconds()
            follow = FollowBuild(
                *(workshop.builder.lake, steps, RunInfo("benchmark"), workshop.messages.append, memory),
                name=stream_name(RAW),
                transaction=stream_name(RAW),
                hold_seconds=HOLD_SECONDS,
            )
            result = follow.publish(DAYS)
            assert not result.left and not result.held_back, result
            seconds = time.monotonic() - clock, processor_seconds() - processor
            found.append((*seconds, jobs_of(spark, f"round {number}")))
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.extension")
    parser.add_argument("--rows", type=int, default=50_000, help="of each of the three days before")
    parser.add_argument("--new", type=int, default=2_000, help="rows that each round brings, to all days together")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--home", type=Path, help="a new folder that is kept")
    asked = parser.parse_args(arguments)
    os.environ.pop("SPARK_REMOTE", None)
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(asked.home or Path(temporary), asked.rows, asked.new, asked.rounds)
    shown = Rows("round", "clock s", "CPU s", "jobs", title=f"{asked.new:,} rows into 3 days of {asked.rows:,}")
    for number, (clock, processor, jobs) in enumerate(found, 1):
        shown.add_row(str(number), f"{clock:.1f}", f"{processor:.1f}", str(jobs))
    Console().print(shown)


if __name__ == "__main__":
    main(sys.argv[1:])
