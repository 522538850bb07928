"""What a landed line costs on its way to raw: ``python -m benchmarks.landed_lines [--files 6] [--rounds 8]``.

Reads files of 50,000 ``--lines`` of the sample's shape, one a day, and writes them as a run does. Each round takes
other files, in one embedded session; prints CPU microseconds of Spark and its workers for a line, of each round: in the
first one they are cold. With ``--parquet`` each round also reads the same rows as Parquet with types, less the broken
lines.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.engine import database
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.landing_files import LandingFile, land
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import SourceOfFiles
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session
from benchmarks.backfill.data import generated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS, LINES = 90, 50_000
TABLE = CATALOG.table("raw_sales")


PARQUET = SourceOfFiles(**vars(SALES.source), format=Parquet())


def cpu_of(spark: SparkSession, source: Source, files: list[Path], token_key: Path) -> float:
    """CPU seconds of Spark and its workers while the lines of ``files`` are read and written."""
    read = [
        LandingFile(str(file), "/".join(file.parts[-3:]), date.fromisoformat(file.parts[-2]), file.stat().st_size)
        for file in files
    ]
    with tempfile.TemporaryDirectory(prefix="landed-lines-") as root:
        before = cpu_seconds()
        land(spark, source, read, str(token_key), (TABLE, Timeline(Storage(root), TABLE.name, "run")))
        return cpu_seconds() - before


def cpu_seconds() -> float:
    """Of all processes that this one has started, and that they have started."""
    children = psutil.Process().children(recursive=True)
    return sum(sum(each.cpu_times()[:4]) for each in children)


def as_parquet(file: Path, folder: Path) -> Path:
    """The lines of ``file`` with a value of its type for each typed text; texts that are none become nulls."""
    path = folder / file.parent.name / "sales.parquet"
    path.parent.mkdir(parents=True)
    fields = SALES.source.fields
    typed = {name: kind for name, kind in SALES.source.types.items() if kind != "timestamp"}
    columns = [
        f"TRY_CAST({name} AS {typed.get(name, 'TIMESTAMPTZ' if name in SALES.source.types else 'VARCHAR')}) AS {name}"
        for name in fields
    ]
    lines = f"read_json('{file}', format = 'newline_delimited', ignore_errors = true, columns = {{{_texts(fields)}}})"
    with database() as connection:
        connection.execute(f"COPY (SELECT {', '.join(columns)} FROM {lines}) TO '{path}' (FORMAT parquet)")  # noqa: S608
    return path


def _texts(fields: Sequence[str]) -> str:
    return ", ".join(f"{name}: 'VARCHAR'" for name in fields)


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds of landed lines on their way to raw.")
    parser.add_argument("--days", type=int, default=DAYS, help="of generated data")
    parser.add_argument("--lines", type=int, default=LINES, help="of a file")
    parser.add_argument("--files", type=int, default=6, help="of a round")
    parser.add_argument("--rounds", type=int, default=8, help="each of other files")
    parser.add_argument("--parquet", action="store_true", help="the same rows as Parquet, too")
    asked = parser.parse_args()
    settings = Settings.at(generated(asked.days, asked.lines).home)
    files = sorted((settings.landing / SALES.source.name).glob("*/*"))
    with spark_session(settings, "landed-lines") as spark:
        for turn in range(asked.rounds):
            part = [files[(turn * asked.files + number) % len(files)] for number in range(asked.files)]
            found = [cpu_of(spark, SALES.source, part, settings.token_key_file)]
            if asked.parquet:
                with tempfile.TemporaryDirectory(prefix="landed-parquet-") as folder:
                    rows = [as_parquet(file, Path(folder) / "sales") for file in part]
                    found.append(cpu_of(spark, PARQUET, rows, settings.token_key_file))
            shown = "; ".join(f"{cpu / (asked.files * asked.lines) * 1e6:.1f}" for cpu in found)
            print(f"round {turn + 1}: {shown} CPU us a line", flush=True)


if __name__ == "__main__":
    main()
