"""A job builds days on a timeline: from the launchpad, or by its configuration in CI. Main stays as it is."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
import yaml

from backfill_assets import clock
from backfill_assets.cli.dev.dagster_home import dagster_home
from backfill_assets.defs.location import code_location
from backfill_assets.defs.timelines import JOB, OP
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import create_timeline
from backfill_assets.timeline.rewind import new_timeline
from backfill_assets_tests.conftest import CHILDREN_OF_TESTS
from backfill_assets_tests.stories.dagster_chain import workshop_resources
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, LATE_DAY, land_of_currency, timeline
from backfill_assets_tests.workshop import Workshop

REVENUE = "fact_daily_revenue"
NAME = "trial"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as found:
        yield found


@pytest.fixture
def run(wrong: Workshop, instance: dg.DagsterInstance) -> Any:
    """What a person writes into the launchpad of the job."""

    def run_days(*tables: str, timeline: str = NAME, **config: str) -> dg.ExecuteInProcessResult:
        job = code_location(CATALOG, workshop_resources(wrong)).resolve_job_def(JOB)
        asked = {"timeline": timeline, "tables": list(tables), "days": str(DAYS), **config}
        return job.execute_in_process(
            instance=instance, run_config={"ops": {OP: {"config": asked}}}, raise_on_error=False
        )

    return run_days


def test_the_job_builds_on_the_timeline(wrong: Workshop, instance: dg.DagsterInstance, run: Any) -> None:
    """Both tables by their own versions; main's assets are untouched. A failed gate fails the run."""
    create(wrong, NAME)
    before = wrong.contents()
    assert "There is no timeline 'elsewhere'" in _failure(run(FACT, timeline="elsewhere"))
    assert "There is no table 'fact_typo'" in _failure(run("fact_typo"))

    done = run(FACT, REVENUE, version="v2")
    assert done.success
    assert not instance.get_materialized_partitions(dg.AssetKey(FACT))
    assert wrong.contents() == before
    assert held(wrong, FACT) == held(wrong, REVENUE) | {"2017-03-04", "2017-03-05"} == {str(day) for day in DAYS}
    by_ci(wrong)

    land_of_currency(wrong, "XTS")
    create(wrong, "after-a-bad-line")
    failed = run(FACT, REVENUE, timeline="after-a-bad-line")
    assert not failed.success and f"{FACT} {LATE_DAY} rates_found" in _failure(failed)
    assert not timeline(wrong, "after-a-bad-line").days.get(FACT), "no day of its step changes"


def create(workshop: Workshop, name: str) -> None:
    publisher = workshop.builder.lake.publisher
    create_timeline(publisher.storage, new_timeline(publisher.storage, name, "ana", clock.now()))


def held(workshop: Workshop, table: str) -> set[str]:
    return {str(day) for day in timeline(workshop, NAME).held(table)}


def by_ci(wrong: Workshop) -> None:
    """One line, which exits with an error when a gate fails."""
    home = dagster_home(wrong.settings)
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "SPARK_"))}
    here = {"BACKFILL_HOME": str(wrong.settings.home), "DAGSTER_HOME": str(home)}
    asked = {"timeline": NAME, "tables": [FACT], "days": str(DAYS), "version": "v2"}
    config = wrong.settings.home / "trial.yaml"
    config.write_text(yaml.safe_dump({"ops": {OP: {"config": asked}}}))
    command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "backfill_assets.definitions", "-j", JOB]
    done = subprocess.run(
        [*command, "--config", str(config)],
        env=mine | CHILDREN_OF_TESTS | here,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"On {NAME}: {FACT}: 0 staged, 0 from main, 9 unchanged" in done.stderr


def _failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [each for each in result.all_events if each.event_type is dg.DagsterEventType.STEP_FAILURE]
    data = event.step_failure_data
    return str(data.user_failure_data.description if data.user_failure_data else data.error)
