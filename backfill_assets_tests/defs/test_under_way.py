"""Is a process still at work on a backfill? A killed run says nothing, and stays started in Dagster for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.storage.tags import BACKFILL_ID_TAG
from dagster._core.utils import make_new_run_id

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.defs.dagster_internals import AssetGraphSubset, AssetKeyPartitionKey
from backfill_assets.defs.under_way import PATIENCE, busy_days, is_backfill_alive, launch_backfill
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.demo.backfill import has_ended, has_succeeded, progress
from backfill_assets.upkeep.trouble import WriteUnderWay
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.defs import fake_location
from backfill_assets_tests.defs.conftest import materialized
from backfill_assets_tests.defs.small_dataset import TABLES

SOON, LATE = timedelta(minutes=1), PATIENCE + timedelta(minutes=1)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as found:
        yield found


def _backfill(
    status: BulkActionStatus = BulkActionStatus.REQUESTED, begun: timedelta = timedelta(0)
) -> PartitionBackfill:
    return PartitionBackfill(
        backfill_id="campaign-x-w1r0",
        status=status,
        from_failure=False,
        tags={},
        backfill_timestamp=(datetime.now(UTC) - begun).timestamp(),
        asset_selection=[dg.AssetKey(["shadow", "fact"])],
    )


def _run(instance: dg.DagsterInstance, status: DagsterRunStatus) -> dg.DagsterRun:
    tags = {BACKFILL_ID_TAG: "campaign-x-w1r0"}
    return instance.add_run(dg.DagsterRun(job_name="j", run_id=make_new_run_id(), status=status, tags=tags))


STARTED, QUEUED, FAILED = DagsterRunStatus.STARTED, DagsterRunStatus.NOT_STARTED, DagsterRunStatus.FAILURE
ALIVE: Mapping[str, tuple[PartitionBackfill, DagsterRunStatus | None, bool, bool]] = {
    "one that the daemon has not begun is waited for, but not for ever": (_backfill(), None, True, False),
    "a campaign does not wait for ever for one whose run was killed": (_backfill(), STARTED, True, False),
    "one that waits in the queue is alive, however long other runs take": (_backfill(), QUEUED, True, True),
    "a long range has several runs, and the daemon may be about to start the next": (
        _backfill(begun=LATE),
        FAILED,
        True,
        False,
    ),
    "one that ended is not alive, no matter what its runs say": (
        _backfill(BulkActionStatus.COMPLETED_SUCCESS),
        STARTED,
        False,
        False,
    ),
}
"""A backfill and its run: is it alive soon after that, and after an hour?"""


@pytest.mark.parametrize("case", ALIVE)
def test_a_process_is_still_at_work_on_a_backfill(instance: dg.DagsterInstance, case: str) -> None:
    backfill, run, soon, late = ALIVE[case]
    if run is FAILED:
        instance.report_run_failed(_run(instance, STARTED))
    elif run is not None:
        _run(instance, run)
    now = datetime.now(UTC)
    assert [is_backfill_alive(instance, backfill, now + after) for after in (SOON, LATE)] == [soon, late]


DAY = date(2017, 3, 1)


def _launched(instance: dg.DagsterInstance, id: str, *wanted: tuple[dg.AssetKey, str | None]) -> None:
    """A backfill of partitions of assets, among them campaigns and an asset without partitions."""

    @dg.asset(partitions_def=dg.DailyPartitionsDefinition(start_date="2017-03-01"))
    def fact() -> None: ...

    @dg.asset(key=UNDO, partitions_def=dg.DynamicPartitionsDefinition(name="campaigns"))
    def rolled_back() -> None: ...

    @dg.asset
    def start_here() -> None: ...

    graph = dg.Definitions([fact, rolled_back, start_here]).resolve_asset_graph()
    instance.add_dynamic_partitions("campaigns", ["campaign-1", "campaign-2"])
    keys = {AssetKeyPartitionKey(*each) for each in wanted}
    instance.add_backfill(
        PartitionBackfill.from_asset_graph_subset(
            backfill_id=id,
            backfill_timestamp=datetime.now(UTC).timestamp(),
            tags={},
            dynamic_partitions_store=instance,
            asset_graph_subset=AssetGraphSubset.from_asset_partition_set(keys, graph),
            title=None,
            description=None,
            run_config=None,
        )
    )


FACT, UNDO, START = dg.AssetKey("fact"), dg.AssetKey(["campaign", "rolled_back"]), dg.AssetKey("start_here")


def test_a_backfill_of_campaigns_writes_no_days_of_a_table(instance: dg.DagsterInstance) -> None:
    """Its partitions are no days. Before, every sensor that asks what is under way failed as long as it went on."""
    _launched(instance, "undo", (UNDO, "campaign-1"), (UNDO, "campaign-2"))
    assert busy_days(instance, ["fact"]) == {}


def test_the_days_of_a_table_are_known_beside_an_asset_without_partitions(instance: dg.DagsterInstance) -> None:
    _launched(instance, "both", (START, None), (FACT, str(DAY)))
    assert busy_days(instance, ["fact"]) == {"fact": [WriteUnderWay("the backfill both", {DAY})]}


def test_a_long_backfill_is_under_way_between_two_of_its_runs(instance: dg.DagsterInstance) -> None:
    """The daemon starts the next one within half a minute: its days are not free for a repair until then."""
    _launched(instance, "campaign-x-w1r0", (FACT, str(DAY)))
    instance.report_run_failed(_run(instance, DagsterRunStatus.STARTED))
    backfill = instance.get_backfill("campaign-x-w1r0")
    assert backfill
    instance.update_backfill(backfill._replace(backfill_timestamp=(datetime.now(UTC) - LATE).timestamp()))
    with clock.use(FakeClock(clock.now() + SOON)):
        assert set(busy_days(instance, ["fact"])) == {"fact"}
    with clock.use(FakeClock(clock.now() + LATE)):
        assert busy_days(instance, ["fact"]) == {}


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


def test_unknown_tables_and_backfills_are_refused(dagster_instance: dg.DagsterInstance) -> None:
    """Each says what is wrong, by name."""
    with pytest.raises(InvalidRequest, match="'fact_typo'"):
        launch_backfill(dagster_instance, fake_location.defs.resolve_asset_graph(), {"fact_typo": DAYS}, title="Typo")
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
            while not has_ended(last := progress(instance, backfill_id)):
                time.sleep(1)
        assert has_succeeded(last), last
        assert [run.status.value for run in instance.get_runs()] == ["SUCCESS"]
        assert set(last.steps.values()) == {"SUCCESS"}
        assert len(last.steps) == 6
        for table in TABLES:
            assert materialized(instance, table) == [day.isoformat() for day in DAYS]
