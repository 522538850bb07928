"""The generated data of a benchmark, landed and taken into the raw tables with exchange rates; once for each size."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.synthetic import SyntheticSpec, synthesize
from benchmarks.backfill.timed import Timed, timed

CACHE = Path(".cache/bench").resolve()
FIRST_DAY = date(2017, 3, 1)
SEED = 20170301
BACKFILL = str(Path(sys.executable).with_name("backfill"))
TABLES = ("bronze_sales", "fact_sales_transactions", "fact_daily_revenue")
"""What is recomputed; ``quarantine_sales`` comes with ``bronze_sales``."""
KEY = "token.key"
"""Of the tokens of household ids, in a home."""
OF_CONTENDERS = ("by-hand", "by-day", "checked", "sqlmesh", "sqlmesh-audited", "duckdb")
"""The folders of other contenders in a home."""
TIMES_THE_ROWS = 10
"""Of a skewed day."""
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
    """A lakehouse whose raw sales and exchange rates are published; ``name`` says what is special about it."""

    days: DayRange
    rows_per_day: int
    name: str = ""
    command: tuple[str, ...] = (BACKFILL,)

    @classmethod
    def of(cls, days: int, rows_per_day: int = 0) -> Data:
        return cls(DayRange(FIRST_DAY, FIRST_DAY + timedelta(days=days - 1)), rows_per_day)

    @property
    def home(self) -> Path:
        return CACHE / "data" / "-".join(filter(None, (f"{len(self.days)}x{self.rows_per_day}", self.name)))

    @property
    def landing(self) -> Path:
        return self.home / "landing"

    @property
    def lakehouse(self) -> Path:
        return self.home / "lakehouse"

    @property
    def range(self) -> str:
        return str(self.days)

    def take_in_rates(self) -> None:
        self.run("raw_fx_rates", "bronze_fx_rates", "--days", str(self.days.widened(before=10)), name="take-in-rates")

    def run(self, *words: str, name: str, environment: Mapping[str, str] | None = None) -> Timed:
        """``backfill run`` of this lakehouse, in a process of its own."""
        env = {"BACKFILL_HOME": str(self.home), **(environment or {})}
        return timed([*self.command, "run", *words, "--json"], env, CACHE / "logs" / f"{name}.log")


def generated(days: int, rows_per_day: int) -> Data:
    """The data of that size; made at the first call, which takes a while, and kept in ``.cache/bench/data``."""
    data = Data.of(days, rows_per_day)
    return _made(data, [(data.days, rows_per_day)])


def skewed(days: int, rows_per_day: int) -> Data:
    """The same, and the day in the middle has ten times the rows of another."""
    data = replace(Data.of(days, rows_per_day), name="skewed")
    each = data.days.split(1)
    middle = len(each) // 2
    before, after = DayRange(data.days.first, each[middle - 1].last), DayRange(each[middle + 1].first, data.days.last)
    parts = [(before, rows_per_day), (each[middle], TIMES_THE_ROWS * rows_per_day), (after, rows_per_day)]
    return _made(data, parts)


def _made(data: Data, parts: Sequence[tuple[DayRange, int]]) -> Data:
    """Land the rows a day of each part, and take them in, unless that was done before."""
    done = data.home / "complete"
    if not done.exists():
        shutil.rmtree(data.home, ignore_errors=True)
        print(f"Generating {data.home.name} ...", file=sys.stderr, flush=True)
        for days, rows in parts:
            # A row is late on a later day of its own part.
            shares = {name: share for name, share in _DEFECTS.items() if name != "late_row" or len(days) > 1}
            defects = {name: round(share * len(days) * rows) for name, share in shares.items()}
            synthesize(SyntheticSpec(days, rows, SEED, defects), data.landing)
        data.take_in_rates()
        data.run("raw_sales", "--days", data.range, name="take-in-sales")
        done.touch()
    return data


def only_landed(data: Data) -> Data:
    """The landed files of ``data``, its key and its exchange rates, in a lakehouse that has no sales yet."""
    landed = replace(data, name=f"{data.name}-landed".lstrip("-"))
    if not (landed.lakehouse / "bronze_fx_rates").exists():
        shutil.rmtree(landed.home, ignore_errors=True)
        landed.home.mkdir()
        shutil.copytree(data.landing, landed.landing, copy_function=_link)
        shutil.copy2(data.home / KEY, landed.home / KEY)
        landed.take_in_rates()
    return landed


def copied(data: Data, name: str) -> Data:
    """A copy of ``data`` for a scenario that changes it; its lakehouse is the scenario's own."""
    copy = replace(data, name=name)
    shutil.rmtree(copy.home, ignore_errors=True)
    shutil.copytree(data.home, copy.home, copy_function=_link, ignore=shutil.ignore_patterns(*OF_CONTENDERS))
    return copy


def _link(source: str, target: str) -> None:
    """Data files are never changed in place, so a second name is as good as a copy."""
    if source.endswith((".parquet", ".gz")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)
