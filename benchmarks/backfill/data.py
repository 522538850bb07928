"""The generated data of a benchmark, landed and taken into the raw tables with exchange rates; once for each size."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.days import DayRange
from backfill_assets.sample.synthetic import synthesize
from backfill_assets.sample.synthetic_tally import SyntheticSpec
from benchmarks.backfill.timed import Timed, timed

CACHE = Path(".cache/bench").resolve()
FIRST_DAY = date(2017, 3, 1)
SEED = 20170301
BACKFILL = str(Path(sys.executable).with_name("backfill"))
TABLES = ("bronze_sales", "fact_sales_transactions", "fact_daily_revenue")
"""What is recomputed; ``quarantine_sales`` comes with ``bronze_sales``."""
_DEFECTS = {
    "exact_duplicate": 0.005,
    "newer_version": 0.005,
    "tied_version": 0.0005,
    "malformed_amount": 0.002,
    "missing_key": 0.001,
    "unknown_field": 0.002,
    "late_row": 0.004,
    "broken_line": 0.0005,
}
"""Shares of the rows. Transactions that move to another day are left out: no peer keeps markers of them."""


@dataclass(frozen=True)
class Data:
    """A lakehouse whose raw sales and exchange rates are published."""

    days: DayRange
    rows_per_day: int

    @classmethod
    def of(cls, days: int, rows_per_day: int = 0) -> Data:
        return cls(DayRange(FIRST_DAY, FIRST_DAY + timedelta(days=days - 1)), rows_per_day)

    @property
    def home(self) -> Path:
        return CACHE / "data" / f"{len(self.days)}x{self.rows_per_day}"

    @property
    def lakehouse(self) -> Path:
        return self.home / "lakehouse"

    @property
    def range(self) -> str:
        return str(self.days)

    def run(self, *words: str, name: str, environment: Mapping[str, str] | None = None) -> Timed:
        """``backfill run`` of this lakehouse, in a process of its own."""
        env = {"BACKFILL_HOME": str(self.home), **(environment or {})}
        return timed([BACKFILL, "run", *words, "--json"], env, CACHE / "logs" / f"{name}.log")


def generated(days: int, rows_per_day: int) -> Data:
    """The data of that size; made at the first call, which takes a while, and kept in ``.cache/bench/data``."""
    data = Data.of(days, rows_per_day)
    span = data.days
    done = data.home / "complete"
    if not done.exists():
        shutil.rmtree(data.home, ignore_errors=True)
        print(f"Generating {days} days of {rows_per_day:,} rows ...", file=sys.stderr, flush=True)
        total = days * rows_per_day
        defects = {name: round(share * total) for name, share in _DEFECTS.items()}
        synthesize(SyntheticSpec(span, rows_per_day, SEED, defects), data.home / "landing")
        rates = str(span.widened(before=10))
        data.run("raw_fx_rates", "bronze_fx_rates", "--days", rates, name="take-in-rates")
        data.run("raw_sales", "--days", data.range, name="take-in-sales")
        done.touch()
    return data


def copied(data: Data, name: str) -> Data:
    """A copy of ``data`` for a scenario that changes it; its lakehouse is the scenario's own."""
    copy = _Copy(data.days, data.rows_per_day, name)
    shutil.rmtree(copy.home, ignore_errors=True)
    contenders = shutil.ignore_patterns("by-hand", "by-day", "sqlmesh", "duckdb")
    shutil.copytree(data.home, copy.home, copy_function=_link, ignore=contenders)
    return copy


@dataclass(frozen=True)
class _Copy(Data):
    name: str = ""

    @property
    def home(self) -> Path:
        return CACHE / "data" / f"{len(self.days)}x{self.rows_per_day}-{self.name}"


def _link(source: str, target: str) -> None:
    """Data files are never changed in place, so a second name is as good as a copy."""
    if source.endswith((".parquet", ".gz")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
