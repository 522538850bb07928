"""Maintenance and the refresh of timelines are jobs: what they did is in the log of their runs."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets import defs
from backfill_assets.defs.location import code_location
from backfill_assets.defs.own_lakehouse import IS_OFF
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.upkeep import MAINTAIN, REFRESH, upkeep_jobs, upkeep_schedules
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Reads, Step, Version
from backfill_assets.publish.log import PublicationLog, anything_published
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.settings import Settings
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets_tests.cli import command
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources, resources_of
from backfill_assets_tests.defs.small_chain import publish_chain
from backfill_assets_tests.defs.small_dataset import SMALL, TABLES
from backfill_assets_tests.protocol.lake import D1, Lake
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.two_versions import DAYS, FACT, FORMER, READY, keep_first_version

JOBS = {job.name: job for job in upkeep_jobs()}


class OverLake(Backfill):
    """The resource ``backfill`` over a lakehouse of small tables."""

    lake: dg.ResourceDependency[Lake]

    def maintenance(self) -> Maintenance:
        return Maintenance(self.lake.publisher(), ["t"], 14)


def over(lake: Lake) -> dict[str, Any]:
    return resources_of(Settings.at(lake.root.parent), OverLake, lake=lake)


def said(job: str, resources: dict[str, Any], instance: dg.DagsterInstance) -> list[str]:
    """What the run of a job says of what it did."""
    result = JOBS[job].execute_in_process(instance=instance, resources=resources)
    assert result.success
    return [entry.user_message for entry in instance.all_logs(result.run_id) if not entry.is_dagster_event]


def test_maintenance_says_what_it_did(lake: Lake, dagster_instance: dg.DagsterInstance) -> None:
    """A line for each task, and what all of them came to."""
    for number in range(5):
        lake.append(f"a{number}", "t", {D1: [f"x{number}"]})
    *_, task, total = said(MAINTAIN, over(lake), dagster_instance)
    assert task.startswith("compact t, 1 item, ") and "1 day compacted" in task
    assert total.startswith("1 task, ")
    assert len(lake.state("t").active) == 1


@pytest.mark.parametrize("published", [False, True])
def test_a_night_without_anything_to_do_succeeds(
    lake: Lake, dagster_instance: dg.DagsterInstance, published: bool
) -> None:
    """Which is every ordinary night."""
    if published:
        lake.publish("p1", {"t": {D1: ["a"]}})
    assert said(MAINTAIN, over(lake), dagster_instance)[-1] == "0 tasks, 0 B"


def test_a_night_without_a_fresh_timeline_refreshes_nothing(lake: Lake, dagster_instance: dg.DagsterInstance) -> None:
    """No session is started: there is no Spark here."""
    assert said(REFRESH, over(lake), dagster_instance) == []


def test_a_night_brings_fresh_timelines_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dagster_instance: dg.DagsterInstance
) -> None:
    """Without a day to compute no session is started; which version is current is said as well."""
    backfill = command.Backfill(tmp_path / "home", monkeypatch)
    keep_first_version(backfill)
    backfill("timeline", "publish", READY, "--as-current", "--yes")
    lines = said(REFRESH, resources_of(Settings.at(backfill.home)), dagster_instance)
    assert f"{READY}: it is the current version, and follows main" in lines
    assert f"{FORMER}: {FACT} by v2: 0 computed, 0 from main, {len(DAYS)} kept" in lines
    assert any(line.startswith(f"{FACT}: v1 is current, by a switch; v2 is declared") for line in lines)


def test_tables_of_metadata_are_made_in_one_place() -> None:
    """Made elsewhere, one without rows would fail its run."""
    folder = Path(str(defs.__file__)).parent
    assert [file.name for file in folder.glob("*.py") if "MetadataValue.table(" in file.read_text()] == ["metadata.py"]


def test_both_run_at_night_once_there_is_something_to_do(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """And say why they do not."""
    monkeypatch.setenv("BACKFILL_MAINTENANCE_CRON", "30 1 * * *")
    resources, schedules = over(lake), list(upkeep_schedules(JOBS[MAINTAIN], JOBS[REFRESH]))
    assert [each.cron_schedule for each in schedules] == ["30 1 * * *", "30 4 * * *"]
    assert {each.default_status for each in schedules} == {dg.DefaultScheduleStatus.RUNNING}

    def ticks() -> list[str]:
        location = dg.Definitions(jobs=list(JOBS.values()), schedules=schedules, resources=resources)
        repository = location.get_repository_def()
        with dg.build_schedule_context(resources=resources, repository_def=repository) as context:
            found = [schedule.evaluate_tick(context) for schedule in schedules]
        return [str(each.skip_message or len(each.run_requests or [])) for each in found]

    assert ticks() == ["Nothing was published yet."] * 2
    lake.publish("p1", {"t": {D1: ["a"]}})
    assert ticks() == ["1", "No timeline is kept fresh."]


TWO_IN_THE_MORNING = datetime(2017, 3, 2, 2, 0, tzinfo=UTC)


def _nightly_tick(
    home: Path, instance: dg.DagsterInstance, datasets: Sequence[Dataset] = (SMALL,), *, automation: bool = True
) -> dg.RunRequest | str:
    """What the schedule of the small chain asks for at two in the morning, or why it does not."""
    storage = Storage(str(home / "lakehouse"))
    log = PublicationLog(storage) if anything_published(storage) else None
    resources = fake_resources(FakeBuilder(log=log), home, automation=automation)
    repository = code_location(Catalog(tuple(datasets)), resources).get_repository_def()
    schedule = repository.get_schedule_def("every_day_small")
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    with dg.build_schedule_context(
        instance, scheduled_execution_time=TWO_IN_THE_MORNING, repository_def=repository, resources=resources
    ) as context:
        tick = schedule.evaluate_tick(context)
    return tick.run_requests[0] if tick.run_requests else str(tick.skip_message)


def test_the_daily_job_goes_on_by_itself_from_the_first_build_on(
    tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """One run of yesterday for every daily table, so one Spark session; never of a day that has not ended."""
    nothing = "Nothing is published of small yet: materialize it once, then this schedule goes on."
    assert _nightly_tick(tmp_path, dagster_instance) == nothing
    publish_chain(SmallLakehouse(tmp_path / "lakehouse"), "p", [D1])
    asked = _nightly_tick(tmp_path, dagster_instance)
    assert isinstance(asked, dg.RunRequest)
    assert (asked.partition_key, asked.run_key, asked.asset_selection) == ("2017-03-01", "2017-03-01", None)
    assert _nightly_tick(tmp_path, dagster_instance, automation=False) == IS_OFF


def test_a_dataset_of_which_nothing_is_published_is_left_out(
    tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """It begins with its first files: an empty day of it, published before, would keep them from being taken in."""
    landed = Step((replace(SMALL.tables[0], name="raw_rates"),), source=SMALL.steps[0].source)
    rates = replace(SMALL, name="rates", steps=(landed,))
    reads = Version("v1", "Does nothing.", (Reads("raw_rates"),), dict)
    step = replace(SMALL.steps[-1], versions=(reads,), current="v1")
    publish_chain(SmallLakehouse(tmp_path / "lakehouse"), "p", [D1])
    asked = _nightly_tick(tmp_path, dagster_instance, (rates, replace(SMALL, steps=(*SMALL.steps[:-1], step))))
    assert isinstance(asked, dg.RunRequest) and asked.asset_selection is not None
    assert {key.to_user_string() for key in asked.asset_selection} == set(TABLES)


def test_the_job_materializes_that_day(
    location: dg.Definitions, dagster_instance: dg.DagsterInstance, builder: FakeBuilder
) -> None:
    """The request's partition reaches every step without range tags; a published day keeps its version."""
    job = location.resolve_job_def("daily_small")
    result = job.execute_in_process(instance=dagster_instance, partition_key="2017-03-01")
    assert result.success
    assert set(builder.versions) == {AS_PUBLISHED}
    for table in TABLES:
        assert dagster_instance.get_materialized_partitions(dg.AssetKey(table)) == {"2017-03-01"}
