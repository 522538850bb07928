"""A backfill launched by a program is the same as one launched in the UI."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from backfill_assets.days import DayRange
from backfill_assets.defs.launch import launch_backfill
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.demo.backfill import progress
from backfill_assets_tests.defs import fake_location
from backfill_assets_tests.defs.conftest import materialized
from backfill_assets_tests.defs.small_dataset import TABLES

pytestmark = pytest.mark.story

DAYS = DayRange.parse("2017-03-01..2017-03-20")
_QUICK = """
telemetry: {enabled: false}
run_coordinator:
  module: dagster._core.run_coordinator
  class: QueuedRunCoordinator
  config: {dequeue_interval_seconds: 1}
"""


def _launch(instance: dg.DagsterInstance, *, days: DayRange = DAYS, backfill_id: str | None = None) -> str:
    graph = fake_location.defs.resolve_asset_graph()
    return launch_backfill(
        instance, graph, dict.fromkeys(TABLES, days), title="Twenty days", tags={"why": "test"}, backfill_id=backfill_id
    )


def test_the_target_is_exactly_the_days_asked_for(dagster_instance: dg.DagsterInstance) -> None:
    """Title and tags are what people see on the Backfills page; the target is what the daemon will build."""
    backfill = dagster_instance.get_backfill(_launch(dagster_instance))
    assert backfill
    assert backfill.asset_backfill_data
    assert (backfill.title, backfill.tags["why"]) == ("Twenty days", "test")
    assert backfill.asset_backfill_data.get_partition_names() == [day.isoformat() for day in DAYS]
    assert {key.to_user_string() for key in backfill.asset_selection or ()} == set(TABLES)


def test_launching_again_with_the_same_id_changes_nothing(dagster_instance: dg.DagsterInstance) -> None:
    """A sensor may be evaluated twice for one cause; a duplicate id would raise in Dagster."""
    assert _launch(dagster_instance, backfill_id="repair-2017") == "repair-2017"
    assert _launch(dagster_instance, backfill_id="repair-2017") == "repair-2017"
    assert len(dagster_instance.get_backfills()) == 1


@pytest.mark.parametrize("days", ["2016-12-01..2017-01-05", "2017-03-01..2099-01-01"])
def test_days_without_a_partition_are_refused(dagster_instance: dg.DagsterInstance, days: str) -> None:
    """The daemon would fail the whole backfill thirty seconds later, with a stack trace."""
    with pytest.raises(InvalidRequest, match="has no partition"):
        _launch(dagster_instance, days=DayRange.parse(days))
    assert not dagster_instance.get_backfills()


def test_unknown_tables_backfills_and_long_ids_are_refused(dagster_instance: dg.DagsterInstance) -> None:
    """Each says what is wrong, by name."""
    with pytest.raises(InvalidRequest, match="'fact_typo'"):
        launch_backfill(dagster_instance, fake_location.defs.resolve_asset_graph(), {"fact_typo": DAYS}, title="Typo")
    with pytest.raises(InvalidRequest, match="longer than 32"):
        _launch(dagster_instance, backfill_id="x" * 33)
    with pytest.raises(InvalidRequest, match="no backfill 'unknown'"):
        progress(dagster_instance, "unknown")


@contextmanager
def _daemon(home: Path) -> Iterator[None]:
    command = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-m", fake_location.__name__]
    with (home / "daemon.log").open("w") as log:
        daemon = subprocess.Popen(
            command, env=os.environ | {"DAGSTER_HOME": str(home)}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            daemon.terminate()
            daemon.wait(timeout=30)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_the_daemon_carries_the_whole_chain_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One Spark session for a range: also across the seven days of rates, which are no one-to-one dependency."""
    (tmp_path / "dagster.yaml").write_text(_QUICK)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        backfill_id = _launch(instance)
        with _daemon(tmp_path):
            while not (last := progress(instance, backfill_id)).ended:
                time.sleep(1)
        assert last.succeeded, last
        assert [run.status.value for run in instance.get_runs()] == ["SUCCESS"]
        assert set(last.steps.values()) == {"SUCCESS"}
        assert len(last.steps) == 6
        for table in TABLES:
            assert materialized(instance, table) == [day.isoformat() for day in DAYS]
