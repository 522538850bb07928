"""A lakehouse whose days of sales grow batch by batch: lines land, are taken into raw, and the days are extended."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange, TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.follow import FollowBuild, Followed
from backfill_assets.rebuild.growing import InputMemory, following
from backfill_assets.rebuild.grown_content import without_extensions
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.state.observed import observe
from backfill_assets.state.status import day_statuses
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = (date(2017, 3, 1), date(2017, 3, 2))
ARRIVALS = (date(2017, 3, 2), date(2017, 3, 3), date(2017, 3, 4), date(2017, 3, 5))
STEPS = following(CATALOG.steps, "raw_sales")
TABLES = [table.name for step in STEPS for table in step.tables]
Line = dict[str, str | None]
ContentOfDays = dict[date, tuple[DayContent, dict[str, object]]]
Content = dict[str, ContentOfDays]


def lakehouse_with_rates(home: Path, spark: SparkSession) -> Workshop:
    """The exchange rates are published, and no sales have landed."""
    workshop = Workshop(home, lambda: spark)
    workshop.land_real(DayRange(*DAYS))
    shutil.rmtree(workshop.settings.landing / "sales", ignore_errors=True)
    workshop.build_rates(DayRange(*DAYS))
    return workshop


def ways(done: Followed, table: str = "", day: date | None = None) -> dict[TableDay, tuple[str, str]]:
    """How each day of each step came to be as it is, and why it was built whole; of one ``table`` and ``day``."""
    found: dict[TableDay, tuple[str, str]] = {}
    for step in done.steps:
        build = step.build
        for each in step.staged:
            way = ("grown", "") if each in build.grown else ("built", build.whole.get(each, ""))
            found[TableDay(step.step, each)] = way
        found |= {TableDay(step.step, each): ("unchanged", "") for each in step.kept}
    return {key: way for key, way in found.items() if key.table == (table or key.table) and key.day == (day or key.day)}


class StreamedSales:
    """``memory`` is that of one process; a new one stands for a restart."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.workshop = Workshop(home, lambda: spark)
        self.memory = InputMemory()
        landed = self.workshop.settings.landing / "sales"
        self.arrivals = [day for day in ARRIVALS if not (landed / str(day)).exists()]
        self.messages: list[str] = []

    def arrive(self, lines: Sequence[Line]) -> None:
        """Take ``lines`` into raw, as what arrived on the next day."""
        day = self.arrivals.pop(0)
        land(self.workshop.settings.landing, "sales", str(day), "lines", lines)
        self.workshop.build("raw_sales", [day])

    def follow(self, days: Collection[date] = DAYS, steps: Sequence[Step] = STEPS) -> Followed:
        lake = self.workshop.builder.lake
        return FollowBuild(lake, steps, RunInfo("stream"), self.messages.append, self.memory).publish(days)

    def rebuild(self) -> None:
        """Build everything whole, although nothing has changed."""
        for step in STEPS:
            self.workshop.build(step.name, DAYS, force=True)

    def rows(self) -> dict[str, list[str]]:
        """Every published row, with all of its columns."""
        return {name: sorted(str(row) for row in self.workshop.read(name).to_dict("records")) for name in TABLES}

    def contents(self) -> Content:
        """What the log says of every day, apart from how often it was extended and how long it took to stage."""
        found: Content = {}
        for name in TABLES:
            for day, state in self.workshop.states(name).items():
                assert state.content is not None
                metrics: dict[str, object] = {**without_extensions(state.content.metrics)}
                found.setdefault(name, {})[day] = (replace(state.content, staged_ms=None, metrics={}), metrics)
        return found

    def statuses(self) -> set[str]:
        observed = observe(self.workshop.builder.lake.storage, CATALOG.table_names)
        found = day_statuses(CATALOG.steps, observed, DayRange(*DAYS))
        return {found[name][day].value for name in TABLES for day in DAYS}
