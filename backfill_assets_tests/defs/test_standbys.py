"""Timelines that are kept fresh in Dagster: a night brings them up to date, and one without any is left out."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.datasets import registry
from backfill_assets.defs.location import table_partitions
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.defs.sensors.repairs import decide
from backfill_assets.defs.standbys import ASSET, SCHEDULE, standby_asset, standby_job, standby_schedule
from backfill_assets.settings import Settings
from backfill_assets_tests.cli import command
from backfill_assets_tests.two_versions import DAYS, FACT, READY, SALES, keep_first_version, publish_inputs

pytestmark = pytest.mark.story


@pytest.fixture
def backfill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> command.Backfill:
    return command.Backfill(tmp_path / "home", monkeypatch)


def _resources(backfill: command.Backfill) -> dict[str, Any]:
    settings = Settings.at(backfill.home)
    spark = SharedSpark(settings=settings)
    return {"spark": spark, "backfill": Backfill(settings=settings, spark=spark)}


def test_a_night_reports_the_timelines_and_the_current_versions(
    backfill: command.Backfill, dagster_instance: dg.DagsterInstance
) -> None:
    """Without a day to compute no session is started: there is no Spark here."""
    keep_first_version(backfill)
    backfill("timeline", "publish", READY, "--as-current", "--yes")
    result = dg.materialize([standby_asset()], instance=dagster_instance, resources=_resources(backfill))
    (event,) = result.asset_materializations_for_node(ASSET)
    said = " ".join(str(event.metadata["timelines"].value).split())
    assert f"| {READY} | {FACT} v1, kept fresh | | 0 | it is the current version, and follows main |" in said
    assert f"| standby-fact-sales-transactions-v2 | {FACT} v2, kept fresh | | 0 | |" in said
    assert f"{FACT}: v1 is current, by a switch; v2 is declared" in str(event.metadata["versions"].value)
    assert event.metadata["days_computed"].value == 0


def test_a_night_without_a_fresh_timeline_is_left_out_and_says_why(backfill: command.Backfill) -> None:
    schedule, resources = standby_schedule(standby_job()), _resources(backfill)
    assert (schedule.name, schedule.default_status) == (SCHEDULE, dg.DefaultScheduleStatus.RUNNING)
    with dg.build_schedule_context(resources=resources) as context:
        assert "Nothing was published yet" in str(schedule.evaluate_tick(context).skip_message)
    publish_inputs(backfill.lakehouse, "in", DAYS)
    with dg.build_schedule_context(resources=resources) as context:
        assert "No timeline is kept fresh" in str(schedule.evaluate_tick(context).skip_message)
    backfill("timeline", "create", READY, "--version", f"{FACT}=v1", "--fresh")
    with dg.build_schedule_context(resources=resources) as context:
        assert schedule.evaluate_tick(context).run_requests


def test_a_repair_says_which_days_are_not_of_the_current_version(
    backfill: command.Backfill, dagster_instance: dg.DagsterInstance
) -> None:
    """It builds them as they were published; which version is current is what was switched to."""
    keep_first_version(backfill)
    partitions = table_partitions(registry.datasets())
    backfill.lakehouse.publish("late", {SALES: {DAYS[1]: [7, 8]}})

    def versions() -> object:
        decision = decide(dagster_instance, backfill.lakehouse.storage, registry.steps(), partitions)
        (repair,) = [each for each in decision.launch if FACT in each.days]
        return repair.versions

    assert versions() == {}
    backfill("timeline", "publish", READY, "--as-current", "--new-days-only", "--yes")
    assert versions() == {FACT: {"v2": DAYS}}
