"""A source that corrects what it has delivered: real lines of sales, and files that are replaced, removed and added."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from backfill_assets.days import DayRange
from backfill_assets_tests.workshop import Workshop

Line = dict[str, Any]
Lines = list[Line]
LINES_A_DAY = 120
TABLES = (
    *("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue"),
    *("report_department_revenue", "report_store_ranking", "report_monthly_close"),
)
PLACE = ("source_file", "source_line")
"""A row that moved to another line or file of its arrival day stays in raw where it was read first."""


def land_slice(workshop: Workshop, days: DayRange) -> None:
    """The first real lines of each day, in two files; all rates, and of the catalogue what the next lines name too."""
    workshop.land_real(days)
    products = set()
    for day in days:
        (file,) = folder(workshop, day).iterdir()
        lines = read_lines(file)
        products |= {line["product_id"] for line in lines[: 2 * LINES_A_DAY]}
        lines = lines[:LINES_A_DAY]
        file.unlink()
        write_lines(folder(workshop, day) / "morning.jsonl.gz", lines[: LINES_A_DAY // 2])
        write_lines(folder(workshop, day) / "evening.jsonl.gz", lines[LINES_A_DAY // 2 :])

    for file in (workshop.settings.landing / "products").glob("*/*.jsonl.gz"):
        correct(file, lambda lines: [line for line in lines if line["product_id"] in products])


def folder(workshop: Workshop, day: date) -> Path:
    return workshop.settings.landing / "sales" / str(day)


def read_lines(file: Path) -> Lines:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]


def write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def correct(file: Path, change: Callable[[Lines], Sequence[Line]]) -> None:
    """Replace ``file`` by what ``change`` makes of its lines."""
    write_lines(file, change(read_lines(file)))


def build_everything(workshop: Workshop, days: DayRange) -> None:
    workshop.build_all(days, "v2")
    workshop.build_reports(days)


def built_from_scratch(workshop: Workshop, home: Path, days: DayRange) -> Workshop:
    """A lakehouse that has only ever seen the landing zone as it is now."""
    fresh = Workshop(home, workshop.builder.lake.spark)
    shutil.copytree(workshop.settings.landing, fresh.settings.landing)
    build_everything(fresh, days)
    return fresh


def assert_same_rows(one: Workshop, other: Workshop, tables: Iterable[str] = TABLES) -> None:
    """Row for row, in every column but the place in the landed files."""
    for table in tables:
        pd.testing.assert_frame_equal(_in_order(one.read(table)), _in_order(other.read(table)), obj=table)


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.drop(columns=[name for name in PLACE if name in rows])
    names = sorted(map(str, rows.columns))
    texts = pd.DataFrame({name: [str(value) for value in rows[name].tolist()] for name in names})
    return texts.sort_values(names, ignore_index=True)
