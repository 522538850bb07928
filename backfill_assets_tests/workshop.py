"""What stories and Spark tests work with: the lakehouse of :mod:`backfill_assets.testing`, and a builder of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from deltalake import DeltaTable

from backfill_assets import testing
from backfill_assets.days import Cadence, DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.real import land_real
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.lakehouse.records import DayState
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import BuildResult, RunInfo
from backfill_assets_tests.declared import EXAMPLES, declared
from backfill_assets_tests.examples.sample.synthetic_tally import SyntheticTally

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "a key for tests that is long enough"
"""The token key of every test lakehouse, so that tokens are the same in all of them."""


class Workshop(testing.Workshop):
    """Everything below ``home``; ``messages`` has what builds reported, ``sessions`` how often Spark was asked for."""

    def __init__(self, home: Path, spark: Callable[[], SparkSession]) -> None:
        super().__init__(home, EXAMPLES)
        self.settings.token_key_file.parent.mkdir(parents=True, exist_ok=True)
        self.settings.token_key_file.write_text(KEY)
        self.messages: list[str] = []
        self.sessions = 0
        self._spark = spark
        self._builder = Builder.from_settings(self.settings, declared(), self._counted)

    @property
    def builder(self) -> Builder:
        """Builds what is declared now."""
        if self._builder.lake.catalog is not declared():
            self._builder = Builder(replace(self._builder.lake, catalog=declared()))
        return self._builder

    @builder.setter
    def builder(self, other: Builder) -> None:
        self._builder = other

    def _counted(self) -> SparkSession:
        self.sessions += 1
        return self._spark()

    def land_real(self, days: DayRange) -> None:
        land_real(days, self.settings.landing)

    def land_synthetic(self, spec: SyntheticSpec) -> SyntheticTally:
        return SyntheticTally(spec, self.settings.landing)

    def build(
        self, table: str, days: Sequence[date] | DayRange, version: str | None = None, *, force: bool = False
    ) -> BuildResult:
        return self.builder.build(
            declared().step(table),
            list(days),
            run=RunInfo("test-run"),
            version=version,
            force=force,
            progress=self.messages.append,
        )

    def build_rates(self, days: DayRange) -> None:
        """The exchange rates from ten days before ``days``, which is where the sample data has them from."""
        for table in ("raw_fx_rates", "bronze_fx_rates"):
            self.build(table, days.widened(before=10))

    def build_products(self, days: DayRange) -> None:
        """The product catalogue; the sample data has it whole on the first of ``days``."""
        for table in ("raw_products", "bronze_products"):
            self.build(table, days)

    def build_all(self, days: DayRange, version: str | None = None) -> None:
        """Rates and sales up to daily revenue; ``version`` is that of the transactions."""
        self.build_rates(days)
        self.build_products(days)
        for table in ("raw_sales", "bronze_sales"):
            self.build(table, days)
        self.build("fact_sales_transactions", days, version)
        self.build("fact_daily_revenue", days)

    def build_reports(self, days: DayRange) -> None:
        """The catalogue, and every report on the transactions of ``days``."""
        for table in ("raw_products", "bronze_products", "report_department_revenue"):
            self.build(table, days)
        self.build("report_store_ranking", Cadence.WEEKLY.starts(days))
        self.build("report_monthly_close", Cadence.MONTHLY.starts(days))

    def read(self, table: str, days: DayRange | None = None, columns: list[str] | None = None) -> pd.DataFrame:
        """Published rows, read outside Spark."""
        uri = str(self.settings.lakehouse / table)
        rows = DeltaTable(uri).to_pandas(columns=columns, types_mapper=pd.ArrowDtype)
        return rows if days is None else rows[(rows["day"] >= days.first) & (rows["day"] <= days.last)]

    def states(self, table: str) -> dict[date, DayState]:
        log = self.builder.lake.publisher.log
        found = log.day_states(log.head(), {table})
        return {day: state for (_, day), state in found.items()}

    def contents(self) -> dict[str, dict[date, tuple[int, str] | None]]:
        """The count of rows and the checksum of every published day, by table."""
        return {
            table.name: {
                day: (state.content.rows, state.content.checksum) if state.content else None
                for day, state in sorted(self.states(table.name).items())
            }
            for table in CATALOG.tables
        }
