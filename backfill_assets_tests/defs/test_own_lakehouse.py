"""Jobs and sensors refuse the lakehouse of another Dagster instance, in words."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.defs.campaigns.jobs import campaign_jobs
from backfill_assets.defs.location import code_location
from backfill_assets.defs.own_lakehouse import require_own_lakehouse
from backfill_assets.defs.upkeep import upkeep_jobs
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.conftest import evaluate_tick
from backfill_assets_tests.defs.fake_builder import resources_of
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG, SMALL_TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse


@pytest.fixture
def first(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Storage:
    """The lakehouse that the instance is about."""
    root = tmp_path / "first"
    SmallLakehouse(root).publish("p1", {"bronze_sales": {date(2017, 3, 1): [1]}})
    require_own_lakehouse(dagster_instance, Storage(str(root)))
    return Storage(str(root))


def test_the_first_lakehouse_is_remembered_and_another_refused(
    first: Storage, tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """Without a word, days of the one would be shown as materialized in the other."""
    require_own_lakehouse(dagster_instance, first)
    with pytest.raises(LakehouseUnusable, match="is about the lakehouse") as error:
        require_own_lakehouse(dagster_instance, Storage(str(tmp_path / "second")))
    assert "DAGSTER_HOME" in str(error.value.hint)


def test_a_lakehouse_that_was_moved_is_followed(
    first: Storage, tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """The old place is not read any more; its history is that of the new one."""
    moved = Storage(str(tmp_path / "moved"))
    shutil.move(first.root, moved.root)
    require_own_lakehouse(dagster_instance, moved)
    require_own_lakehouse(dagster_instance, moved)


def test_a_sensor_in_the_dagster_of_another_lakehouse_skips_in_words(
    first: Storage, tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """Each tick says what to do, without a stack trace in front of it."""
    SmallLakehouse(tmp_path / "second" / "lakehouse").publish("p1", {"bronze_sales": {date(2017, 3, 1): [1]}})
    resources = resources_of(Settings.at(tmp_path / "second"))
    location = code_location(SMALL_CATALOG, resources)
    said: dict[str, str] = {}
    for sensor in location.sensors or ():
        assert isinstance(sensor, dg.SensorDefinition)
        said[sensor.name] = str(evaluate_tick(sensor, dagster_instance, location, resources).skip_message)
    refused = {name for name, words in said.items() if "is about the lakehouse" in words and "DAGSTER_HOME" in words}
    assert refused == {"campaigns", "dagster_shows_what_is", "landed_files", "repairs", "restores_raw"}


@pytest.mark.parametrize(
    "name", ["campaign", "approve_campaign", "undo_campaign", "maintain", "refresh_timelines", "restore_raw"]
)
def test_a_run_in_the_dagster_of_another_lakehouse_fails_in_words(
    name: str, first: Storage, tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """Its page has the next step, and no stack trace in front of it."""
    failed = _failure_of(name, tmp_path / "second", dagster_instance)
    assert str(failed.description).startswith("This Dagster instance is about the lakehouse")
    assert "DAGSTER_HOME" in str(failed.metadata["next_step"].value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("approve_campaign", "There is no plan"), ("restore_raw", "Nothing was published to raw_sales.")],
    ids=["a campaign without its plan", "a job that is to put rows back"],
)
def test_what_a_run_needs_and_is_not_there_is_named(
    name: str, words: str, tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """The plan was removed by hand, or is older than the lakehouse."""
    assert str(_failure_of(name, tmp_path / "home", dagster_instance).description).startswith(words)


def _failure_of(name: str, home: Path, instance: dg.DagsterInstance) -> dg.Failure:
    (job,) = [job for job in (*campaign_jobs(SMALL_TABLES), *upkeep_jobs()) if job.name == name]
    config: dict[str, object] = {"plan": "plan-0123456789abcdef"} if "campaign" in name else {}
    config = {"table": "raw_sales", "days": ["2017-03-01"]} if name == "restore_raw" else config
    (op,) = [node.name for node in job.nodes]
    result = job.execute_in_process(
        instance=instance,
        resources=resources_of(Settings.at(home)),
        run_config={"ops": {op: {"config": config}}} if config else {},
        raise_on_error=False,
    )
    (failure,) = result.get_step_failure_events()
    error = failure.step_failure_data.user_failure_data
    assert error is not None, failure.step_failure_data.error
    return dg.Failure(error.description, error.metadata)
