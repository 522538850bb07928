"""Maintenance in Dagster: an asset of its own group, and what it did as a table."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets import defs
from backfill_assets.defs.maintenance import ASSET, SCHEDULE, maintenance_asset, maintenance_job, maintenance_schedule
from backfill_assets.defs.resources import Backfill, SharedSpark
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.settings import Settings
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets_tests.protocol.lake import D1, Lake


class OverLake(Backfill):
    """The resource ``backfill`` over a lakehouse of small tables."""

    lake: dg.ResourceDependency[Lake]

    def maintenance(self) -> Maintenance:
        return Maintenance(self.lake.publisher(), ["t"], 14)


def over(lake: Lake) -> dict[str, Any]:
    settings = Settings.at(lake.root.parent)
    spark = SharedSpark(settings=settings)
    return {"spark": spark, "backfill": OverLake(lake=lake, settings=settings, catalog=CATALOG, spark=spark)}


@pytest.fixture
def small(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lakehouse")


def test_it_says_what_it_did(small: Lake, dagster_instance: dg.DagsterInstance) -> None:
    """A table of tasks, their outcomes and sizes."""
    for number in range(5):
        small.append(f"a{number}", "t", {D1: [f"x{number}"]})
    result = dg.materialize([maintenance_asset], instance=dagster_instance, resources=over(small))
    (event,) = result.asset_materializations_for_node(ASSET)
    told = event.metadata["done"]
    assert isinstance(told, dg.TableMetadataValue)
    (record,) = told.records
    assert (record.data["chore"], record.data["table"]) == ("compact", "t")
    assert record.data["outcome"] == "1 day compacted"
    assert len(small.state("t").active) == 1


@pytest.mark.parametrize("published", [False, True])
def test_a_night_without_anything_to_do_succeeds(
    small: Lake, dagster_instance: dg.DagsterInstance, published: bool
) -> None:
    """Which is every ordinary night: a table without a row has its columns."""
    if published:
        small.publish("p1", {"t": {D1: ["a"]}})
    result = dg.materialize([maintenance_asset], instance=dagster_instance, resources=over(small))
    (event,) = result.asset_materializations_for_node(ASSET)
    told = event.metadata["done"]
    assert isinstance(told, dg.TableMetadataValue)
    assert told.records == [] and [column.name for column in told.schema.columns][:2] == ["chore", "table"]
    assert event.metadata["tasks"].value == 0


def test_tables_of_metadata_are_made_in_one_place() -> None:
    """Made elsewhere, one without rows would fail its run."""
    folder = Path(str(defs.__file__)).parent
    assert [file.name for file in folder.glob("*.py") if "MetadataValue.table(" in file.read_text()] == ["metadata.py"]


def test_it_runs_at_night_once_something_was_published(small: Lake) -> None:
    """And says why it does not."""
    job, resources = maintenance_job(), over(small)
    schedule = maintenance_schedule(job, "30 1 * * *")
    assert (schedule.name, schedule.cron_schedule) == (SCHEDULE, "30 1 * * *")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    with dg.build_schedule_context(resources=resources) as context:
        assert "Nothing was published yet" in str(schedule.evaluate_tick(context).skip_message)
    small.publish("p1", {"t": {D1: ["a"]}})
    location = dg.Definitions(assets=[maintenance_asset], jobs=[job], schedules=[schedule], resources=resources)
    with dg.build_schedule_context(resources=resources, repository_def=location.get_repository_def()) as context:
        assert len(schedule.evaluate_tick(context).run_requests or []) == 1
