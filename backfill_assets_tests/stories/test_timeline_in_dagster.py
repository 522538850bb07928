"""Shadow assets build days on a timeline: by the tag of a backfill or by the run's configuration, as CI gives it."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.defs.location import code_location
from backfill_assets.defs.specs import shadow_key
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import create_timeline, find_timeline
from backfill_assets.timeline.rewind import new_timeline
from backfill_assets_tests.conftest import CHILDREN_OF_TESTS
from backfill_assets_tests.stories.dagster_chain import workshop_resources
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT
from backfill_assets_tests.stories.test_shadow import LATE_DAY
from backfill_assets_tests.workshop import Workshop

REVENUE = "fact_daily_revenue"
NAME = "trial"
ALL_DAYS = {str(day) for day in DAYS}


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as found:
        yield found


@pytest.fixture
def run(wrong: Workshop, instance: dg.DagsterInstance) -> Any:
    """A run of the daily shadow assets, as a native backfill from the UI makes it."""
    ranged = {ASSET_PARTITION_RANGE_START_TAG: str(DAYS.first), ASSET_PARTITION_RANGE_END_TAG: str(DAYS.last)}

    def run_days(*tables: str, **tags: str) -> dg.ExecuteInProcessResult:
        job = code_location(CATALOG.datasets, workshop_resources(wrong)).resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=instance,
            tags={**ranged, **{name.replace("__", "/"): value for name, value in tags.items()}},
            asset_selection=[shadow_key(table) for table in tables],
            raise_on_error=False,
        )

    return run_days


def create(workshop: Workshop) -> None:
    publisher = workshop.builder.lake.publisher
    create_timeline(publisher.storage, new_timeline(publisher.storage, NAME, "ana", publisher.now(), None))


def held(workshop: Workshop, table: str) -> set[str]:
    publisher = workshop.builder.lake.publisher
    return {str(day) for day in find_timeline(publisher.storage, NAME, publisher.now()).held(table)}


def materialized(instance: dg.DagsterInstance, table: str) -> set[str]:
    return instance.get_materialized_partitions(shadow_key(table))


def test_a_backfill_with_the_tag_builds_on_the_timeline(
    wrong: Workshop, instance: dg.DagsterInstance, run: Any
) -> None:
    """Both tables by their own versions; main's assets are untouched, and a run without the tag is refused."""
    create(wrong)
    before = wrong.contents()
    refused = run(FACT)
    assert not refused.success and "it has no tag backfill/timeline" in _failure(refused)
    assert "There is no timeline 'elsewhere'" in _failure(run(FACT, backfill__timeline="elsewhere"))

    done = run(FACT, REVENUE, backfill__timeline=NAME, backfill__version="v2")
    assert done.success
    assert materialized(instance, FACT) == materialized(instance, REVENUE) == ALL_DAYS
    assert not instance.get_materialized_partitions(dg.AssetKey(FACT))
    assert wrong.contents() == before
    assert held(wrong, FACT) == held(wrong, REVENUE) | {"2017-03-04", "2017-03-05"} == ALL_DAYS
    events = {
        (str(event.asset_key.path[-1]), str(event.partition)): event.materialization.metadata
        for event in done.get_asset_materialization_events()
        if event.asset_key
    }
    assert events[FACT, str(LATE_DAY)]["day"].value == "staged"
    assert events[FACT, str(LATE_DAY)]["timeline"].value == NAME
    assert events[FACT, str(LATE_DAY)]["code_version"].value == "v2"
    by_ci(wrong)


def by_ci(wrong: Workshop) -> None:
    """``dagster asset materialize`` has no option for tags: the timeline is given by the run's configuration."""
    home = dagster_home(wrong.settings)
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "SPARK_"))}
    here = {"BACKFILL_HOME": str(wrong.settings.home), "DAGSTER_HOME": str(home)}
    config = {"ops": {"shadow_sales_daily": {"config": {"timeline": NAME, "version": "v2"}}}}
    words = ["--select", f"key:shadow/{FACT}", "--partition-range", f"{DAYS.first}...{DAYS.last}"]
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "backfill_assets.definitions"]
    done = subprocess.run(
        [*command, *words, "--config-json", json.dumps(config)],
        env=mine | CHILDREN_OF_TESTS | here,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"On {NAME}: {FACT}: 0 staged, 0 from main, 9 unchanged" in done.stderr


def test_a_failed_gate_fails_the_run_and_no_day_of_its_step_changes(
    wrong: Workshop, instance: dg.DagsterInstance, run: Any
) -> None:
    land_lines(wrong.settings.landing, LATE_DAY, "unknown-currency", 1, {"currency": "XTS"})
    for table in ("raw_sales", "bronze_sales"):
        wrong.build(table, DAYS)
    create(wrong)
    failed = run(FACT, REVENUE, backfill__timeline=NAME)
    assert not failed.success and f"{FACT} {LATE_DAY} rates_found" in _failure(failed)
    assert materialized(instance, FACT) == materialized(instance, REVENUE) == held(wrong, FACT) == set()


def _failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [each for each in result.all_events if each.event_type is dg.DagsterEventType.STEP_FAILURE]
    data = event.step_failure_data
    return str(data.user_failure_data.description if data.user_failure_data else data.error)
