"""A day that its gates held back, as ``repairs`` reads it from Dagster's checks: it is told, and not tried again."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.days import TableDay
from backfill_assets.defs.checks import evaluations
from backfill_assets.defs.dagster_internals import report_checks
from backfill_assets.quality.gates import checks_of
from backfill_assets.rebuild import decide
from backfill_assets.state.observed import observe
from backfill_assets_tests.defs.fake_builder import built_day
from backfill_assets_tests.defs.sensors.test_repairs import World
from backfill_assets_tests.defs.small_chain import publish_chain
from backfill_assets_tests.defs.small_dataset import SMALL, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.story

DAY = date(2017, 3, 4)
BRONZE = SMALL.step_of("bronze_sales")


@pytest.fixture
def world(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> World:
    """One published day that got late rows."""
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    publish_chain(lakehouse, "p", [DAY])
    found = World(lakehouse, dagster_instance, tmp_path)
    found.late_row(DAY)
    return found


def fail_the_gates(world: World) -> None:
    """A run built the day from what there is now, and a gate held it back: what it left in Dagster."""
    view = observe(world.lakehouse.storage, TABLES)
    logicals = {"raw_sales": {DAY: view.logical(TableDay("raw_sales", DAY))}}
    made_of = decide.wanted(BRONZE, BRONZE.version(), [DAY], logicals)[DAY].input_fingerprint
    day = built_day("bronze_sales", DAY, passed=False, rules=["contract_holds"])
    failed = replace(day, publication="", input_fingerprint=made_of)
    found = list(evaluations(failed, checks_of(BRONZE.tables[0], BRONZE)))
    report_checks(world.instance, "0" * 32, found)


def test_a_day_that_would_fail_again_is_told_at_once_and_in_the_words_of_its_gate(world: World) -> None:
    fail_the_gates(world)
    told = world.tick()
    assert world.backfills() == []
    assert f"For a person: bronze_sales {DAY}: its gates hold it back, and would again" in told
    assert "expected 7 rows, observed 6 rows -> Look at the quarantine of that day." in told
    assert f"backfill run bronze_sales --downstream --days {DAY}" in told


def test_more_rows_are_a_reason_to_try_again(world: World) -> None:
    """The source has sent what was wrong once more."""
    fail_the_gates(world)
    world.lakehouse.publish("corrected", {"raw_sales": {DAY: [10]}}, mode="append")
    assert "Launched late_rows_" in world.tick()
    assert len(world.backfills()) == 1
