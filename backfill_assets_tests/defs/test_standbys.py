"""Versions on standby in Dagster: a night brings them up to date, and one without any is left out."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.defs.location import table_partitions
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.defs.sensors.repairs import decide
from backfill_assets.defs.standbys import ASSET, SCHEDULE, standby_asset, standby_job, standby_schedule
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.settings import Settings
from backfill_assets_tests.cli import command
from backfill_assets_tests.two_versions import DAYS, FACT, SALES, STANDBY, keep_first_version, publish_inputs

pytestmark = pytest.mark.story


@pytest.fixture
def backfill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> command.Backfill:
    return command.Backfill(tmp_path / "home", monkeypatch)


def _resources(backfill: command.Backfill) -> dict[str, Any]:
    settings = Settings.at(backfill.home)
    spark = SharedSpark(settings=settings)
    return {"spark": spark, "backfill": Backfill(settings=settings, catalog=CATALOG, spark=spark)}


def _records(event: dg.AssetMaterialization, name: str) -> list[dict[str, Any]]:
    found = event.metadata[name]
    assert isinstance(found, dg.TableMetadataValue)
    return [dict(record.data) for record in found.records]


def test_a_night_reports_the_standbys_and_the_current_versions(
    backfill: command.Backfill, dagster_instance: dg.DagsterInstance
) -> None:
    """Without a day to compute no session is started: there is no Spark here."""
    keep_first_version(backfill)
    switched = backfill.json("switch", FACT, "v1", "--yes")["publication"]
    result = dg.materialize([standby_asset()], instance=dagster_instance, resources=_resources(backfill))
    (event,) = result.asset_materializations_for_node(ASSET)
    standbys = _records(event, "standbys")
    facts = next(each for each in standbys if each["table"] == FACT and each["version"] == "v2")
    assert (facts["kept"], facts["staged"]) == (len(DAYS), 0)
    assert {each["note"] for each in standbys if each["timeline"] == STANDBY} == {"current"}
    (fact,) = [each for each in _records(event, "versions") if each["step"] == FACT]
    assert (fact["current"], fact["declared"], fact["by"]) == ("v1", "v2", switched)
    assert event.metadata["days_computed"].value == 0


def test_a_night_without_a_standby_is_left_out_and_says_why(backfill: command.Backfill) -> None:
    schedule, resources = standby_schedule(standby_job()), _resources(backfill)
    assert (schedule.name, schedule.default_status) == (SCHEDULE, dg.DefaultScheduleStatus.RUNNING)
    with dg.build_schedule_context(resources=resources) as context:
        assert "Nothing was published yet" in str(schedule.evaluate_tick(context).skip_message)
    publish_inputs(backfill.lakehouse, "in", DAYS)
    with dg.build_schedule_context(resources=resources) as context:
        assert "No version is kept on standby" in str(schedule.evaluate_tick(context).skip_message)
    backfill("standby", "keep", FACT, "v1")
    with dg.build_schedule_context(resources=resources) as context:
        assert schedule.evaluate_tick(context).run_requests


def test_a_repair_says_which_days_are_not_of_the_current_version(
    backfill: command.Backfill, dagster_instance: dg.DagsterInstance
) -> None:
    """It builds them as they were published; which version is current is what was switched to."""
    keep_first_version(backfill)
    partitions = table_partitions(CATALOG.datasets)
    backfill.lakehouse.publish("late", {SALES: {DAYS[1]: [7, 8]}})

    def versions() -> object:
        decision = decide(dagster_instance, backfill.lakehouse.storage, CATALOG.steps, partitions)
        (repair,) = [each for each in decision.launch if FACT in each.days]
        return repair.versions

    assert versions() == {}
    backfill("switch", FACT, "v1", "--new-days-only", "--yes")
    assert versions() == {FACT: {"v2": DAYS}}
