"""What a day of a source costs by the number of its fields: raw, then bronze with its quarantine, gates included.

Run with ``.venv/bin/python -m benchmarks.wide_source [--fields 10 40 100] [--rows 2500] [--rounds 4]``. Each round
takes one more day of each source through ``backfill run``'s own builder, in one session, the widths in turn. The first
round has code to generate for every width, and a cold JVM for the first one: with one width, ``--fields 40 --rounds 1``
is a cold day. Prints seconds of the clock and CPU seconds of the JVM and Python (those of the clock are also other
programs'), of the first round and of the best later one, and how many times the first width that is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Rows

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.dataset import Dataset
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session
from benchmarks.difference import Spent, cpu_seconds
from benchmarks.wide_dataset import DAY, land_wide, wide_dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("raw", "bronze")


def spend(spark: SparkSession, builder: Builder, dataset: Dataset, rows: int, number: int) -> list[Spent]:
    """One more day of ``dataset``: what each step takes."""
    day = DAY + timedelta(days=number)
    raw = dataset.steps[0]
    assert raw.source
    land_wide(builder.lake.landing.root, raw.source, rows, day)
    found = []
    for step in dataset.steps:
        clock, cpu = time.perf_counter(), cpu_seconds(spark) + time.process_time()
        result = builder.build(step, [day], run=RunInfo("benchmark"))
        found.append((time.perf_counter() - clock, cpu_seconds(spark) + time.process_time() - cpu))
        assert sum(built.rows for built in result.days) > 0, step.name
    return found


def measure(fields: Sequence[int], rows: int, rounds: int) -> dict[int, list[list[Spent]]]:
    """By number of fields and round, what each step takes."""
    datasets = {number: wide_dataset(number) for number in fields}
    catalog = Catalog.of([*CATALOG.datasets, *datasets.values()])
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.at(Path(folder))
        settings.token_key_file.parent.mkdir(parents=True, exist_ok=True)
        settings.token_key_file.write_text("no field of these is personal; a key there must be")
        with spark_session(settings, "benchmark") as spark:
            builder = Builder.from_settings(settings, catalog, lambda: spark)
            found: dict[int, list[list[Spent]]] = {number: [] for number in fields}
            for turn in range(rounds):
                for number, dataset in datasets.items():
                    found[number].append(spend(spark, builder, dataset, rows, turn))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="One day of a source, by the number of its fields.")
    parser.add_argument("--fields", type=int, nargs="+", default=[10, 40, 100], help="besides the key")
    parser.add_argument("--rows", type=int, default=2_500, help="of a day")
    parser.add_argument("--rounds", type=int, default=4, help="days of each source")
    asked = parser.parse_args()
    found = measure(asked.fields, asked.rows, asked.rounds)
    columns = ("fields", "step", "first: clock s", "CPU s", "best later: clock s", "CPU s", "times the first", "in CPU")
    rows = Rows(*columns, title=f"one day of {asked.rows:,} rows")
    narrowest = asked.fields[0]
    for number, rounds in found.items():
        for place, step in enumerate(STEPS):
            first, best = rounds[0][place], best_later(rounds, place)
            ratios = [one / other for one, other in zip(best, best_later(found[narrowest], place), strict=True)]
            figures = (*(f"{each:.1f}" for each in (*first, *best)), *(f"{each:.2f}" for each in ratios))
            rows.add_row(str(number), step, *figures)
    Console().print(rows)


def best_later(rounds: Sequence[Sequence[Spent]], place: int) -> Spent:
    """The least of the clock's and of the CPU's seconds of the step at ``place``, after the first round."""
    later = [each[place] for each in rounds[1:]] or [rounds[0][place]]
    clock, cpu = map(min, zip(*later, strict=True))
    return clock, cpu


if __name__ == "__main__":
    main()
