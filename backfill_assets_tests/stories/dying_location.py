"""The real code location, in which a run dies between publishing ``bronze_sales`` and reporting it to Dagster."""

import os
import signal
from typing import Any

from backfill_assets.defs.location import code_location
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import BuildResult
from backfill_assets.settings import Settings
from backfill_assets_tests.conftest import SMALL_SPARK


class DyingBuilder(Builder):
    """Builds, publishes, and is gone as if the power had failed."""

    def build(self, step: Step, *days: Any, **asked: Any) -> BuildResult:
        result = super().build(step, *days, **asked)
        if step.name == "bronze_sales":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class DyingBackfill(Backfill):
    def builder(self, spark: SharedSpark | None = None) -> Builder:
        return DyingBuilder(super().builder().lake)


_settings = Settings.from_environment()
_spark = SharedSpark(settings=_settings, spark_config=dict(SMALL_SPARK))
defs = code_location(
    CATALOG,
    {"backfill_spark": _spark, "backfill": DyingBackfill(settings=_settings, catalog=CATALOG, spark=_spark)},
)
