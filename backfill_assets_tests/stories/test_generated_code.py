"""Runs of a shared server come one after the other; what Spark has compiled for one of them serves the next."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import connect_server
from backfill_assets.spark.session import spark_session
from backfill_assets_tests.conftest import SMALL_SPARK
from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2017-03-01..2017-03-04")
_SAID_BY_SPARK = "Code generated in"
_LOGGED = """
logger.codegen.name = org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator
logger.codegen.level = info
"""


def _with_generated_code_in_its_log(settings: Settings, folder: Path) -> Settings:
    shutil.copytree(settings.spark_conf, folder)
    with (folder / "connect" / "log4j2.properties").open("a") as properties:
        properties.write(_LOGGED)
    return replace(settings, spark_conf=folder)


@pytest.mark.long
def test_a_later_day_is_computed_by_code_that_is_there_already(tmp_path: Path) -> None:
    """Neither the day, nor the session, nor how much a server has compiled since makes Spark compile it again."""
    settings = _with_generated_code_in_its_log(Settings.at(tmp_path), tmp_path / "spark_conf")
    compiled = []
    with connect_server(settings, options=SMALL_SPARK) as server:
        clients = replace(settings, spark_profile="connect", spark_remote=server.url)
        with spark_session(clients, "rates") as session:
            workshop = Workshop(tmp_path, lambda: session)
            workshop.land_synthetic(SyntheticSpec(days=DAYS, rows_per_day=20, seed=4, defects={"broken_line": 8}))
            workshop.build_rates(DAYS)
        for day in DAYS.split(1):
            before = server.log.read_text().count(_SAID_BY_SPARK)
            with spark_session(clients, str(day)) as session:
                for table in ("raw_sales", "bronze_sales", "fact_sales_transactions", "fact_daily_revenue"):
                    Workshop(tmp_path, lambda session=session: session).build(table, day)  # type: ignore[misc]
            compiled.append(server.log.read_text().count(_SAID_BY_SPARK) - before)
    first, *_, last = compiled
    assert first > 100, "more than Spark keeps by default, or this shows nothing"
    assert last == 0, compiled
