"""Watchdogs in Dagster: which days they look at, and what the check of each partition says."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from backfill_assets.days import DayRange
from backfill_assets.defs.checks import WATCHDOG, check_key
from backfill_assets.defs.location import code_location
from backfill_assets.defs.watchdogs import CRON_VARIABLE, JOB, SCHEDULE, STEP, TURNS, days_to_watch, watchdog_schedule
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.model.declaration import Table
from backfill_assets.state.observed import observe
from backfill_assets.upkeep.watch import WatchedDay
from backfill_assets_tests.defs.fake_builder import WATCHED as DAYS
from backfill_assets_tests.defs.fake_builder import FakeBuilder, FakeWatch, fake_resources, fake_watch
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

SUCCEEDED, FAILED = AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED


@pytest.fixture
def lakehouse(tmp_path: Path) -> SmallLakehouse:
    lakehouse = SmallLakehouse(tmp_path)
    lakehouse.publish("p1", {table: {day: [1] for day in DAYS} for table in TABLES})
    return lakehouse


@pytest.fixture
def watch(lakehouse: SmallLakehouse) -> FakeWatch:
    return fake_watch(lakehouse, wrong=[date(2017, 3, 2)])


class Night:
    """The job of the watchdogs on an instance, and the verdicts that are shown."""

    def __init__(self, watch: FakeWatch, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.defs = code_location(SMALL_CATALOG, fake_resources(FakeBuilder(log=watch.log, watch=watch)))

    def run(self, **config: object) -> dg.ExecuteInProcessResult:
        job, run_config = self.defs.resolve_job_def(JOB), {"ops": {STEP: {"config": config}}}
        return job.execute_in_process(instance=self.instance, run_config=run_config, raise_on_error=False)

    def checks(self, table: str) -> dict[str, AssetCheckExecutionRecordStatus]:
        found = self.instance.event_log_storage.get_asset_check_partition_info(keys=[check_key(table, WATCHDOG)])
        return {each.partition_key: each.latest_execution_status for each in found if each.partition_key}


@pytest.fixture
def night(watch: FakeWatch, dagster_instance: dg.DagsterInstance) -> Night:
    return Night(watch, dagster_instance)


def test_each_published_day_asked_for_is_judged_by_itself(night: Night) -> None:
    """The launchpad takes ranges and tables; a day that is missing is no failure."""
    result = night.run(days="2017-03-02..2017-03-04, 2017-03-01", tables=["raw_sales"])
    verdicts = (SUCCEEDED, FAILED, SUCCEEDED)
    assert night.checks("raw_sales") == dict(zip(map(str, DAYS), verdicts, strict=True))
    assert night.checks("bronze_sales") == {}
    (failed,) = (each for each in result.get_asset_check_evaluations() if not each.passed)
    assert failed.metadata["publication"].value == "p1"
    assert "expected 7 rows, observed 6 rows -> Build it again." in str(failed.description)


def test_a_table_that_cannot_be_read_hides_no_other(
    lakehouse: SmallLakehouse, watch: FakeWatch, dagster_instance: dg.DagsterInstance
) -> None:
    """Its Delta log is damaged: the run fails and names it, after all others were looked at."""
    look = FakeWatch.look

    class Damaged(FakeWatch):
        def look(self, tables: Sequence[Table], days: Iterable[date]) -> list[WatchedDay]:
            observe(self.storage, {table.name for table in tables}, self.log)
            return look(self, tables, days)

    log = Path(lakehouse.storage.root) / "raw_sales" / "_delta_log"
    max(log.glob("*.json")).write_text("{damaged")
    night = Night(Damaged(CATALOG, lakehouse.storage, watch.log, pytest.fail), dagster_instance)
    (failure,) = night.run(days=str(DAYS)).get_step_failure_events()
    error = failure.step_failure_data.user_failure_data
    assert error and str(error.description).startswith("raw_sales cannot be looked at: ")
    assert night.checks("raw_sales") == {}
    for table in set(TABLES) - {"raw_sales"}:
        assert len(night.checks(table)) == 3


def test_building_tables_does_not_read_them_again(night: Night, watch: FakeWatch) -> None:
    """Dagster runs checks of their own in every backfill: that is why these belong to a job."""
    job = night.defs.resolve_job_def("daily_small")
    assert job.execute_in_process(instance=night.instance, partition_key="2017-03-01").success
    assert watch.looked == []
    assert night.checks("raw_sales") == {"2017-03-01": AssetCheckExecutionRecordStatus.PLANNED}


def test_a_typo_is_reported_with_the_tables_there_are(night: Night) -> None:
    """Nothing is looked at, instead of nothing being found."""
    assert not night.run(days="2017-03-01", tables=["raw_sale"]).success


def test_by_itself_it_looks_at_what_is_new_once(night: Night, watch: FakeWatch, lakehouse: SmallLakehouse) -> None:
    """Every table's days the first night; then what was published since, and the turn of the rest."""
    assert night.run().success
    assert set(watch.looked) == {(table, day) for table in TABLES for day in DAYS}
    watch.looked.clear()
    lakehouse.publish("p2", {"bronze_sales": {date(2017, 3, 3): [1, 2]}})
    assert night.run().success
    turn = {day for day in DAYS if day.toordinal() % 30 == datetime.now(UTC).toordinal() % 30}
    assert set(watch.looked) - {(table, day) for table in TABLES for day in turn} <= {("bronze_sales", DAYS.last)}
    assert ("bronze_sales", DAYS.last) in watch.looked


def test_a_lakehouse_that_is_made_again_at_the_same_place_is_new(
    night: Night, lakehouse: SmallLakehouse, tmp_path: Path
) -> None:
    """Its entries have the numbers of entries that were looked at."""
    lakehouse.publish("p2", {"bronze_sales": {date(2017, 3, 3): [1, 2]}})
    assert night.run().success
    shutil.rmtree(lakehouse.storage.root)
    again = SmallLakehouse(tmp_path)
    again.publish("p1", {table: {day: [1] for day in DAYS} for table in TABLES})
    watch = fake_watch(again)
    assert Night(watch, night.instance).run().success
    assert set(watch.looked) == {(table, day) for table in TABLES for day in DAYS}


def test_the_schedule_runs_every_night_from_the_start(
    location: dg.Definitions,
    dagster_instance: dg.DagsterInstance,
    builder: FakeBuilder,
    lakehouse: SmallLakehouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For another hour there is a variable; before anything was published nothing runs."""
    schedule = location.resolve_schedule_def(SCHEDULE)
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    assert schedule.cron_schedule == "0 4 * * *"
    monkeypatch.setenv(CRON_VARIABLE, "30 5 * * *")
    assert watchdog_schedule(location.resolve_job_def(JOB)).cron_schedule == "30 5 * * *"

    def tick() -> Any:
        resources = fake_resources(builder)
        with dg.build_schedule_context(dagster_instance, resources=resources) as context:
            return schedule.evaluate_tick(context)

    assert tick().skip_message == "Nothing was published yet."
    builder.log = lakehouse.publisher.log
    assert len(tick().run_requests or []) == 1


YEAR = DayRange.parse("2017-01-01..2017-12-31")


def _state(day: date, sequence: int, content: DayContent | None) -> DayState:
    return DayState(table="bronze_sales", day=day, publication="p", sequence=sequence, physical="f", content=content)


def test_what_was_published_since_the_last_look_is_looked_at() -> None:
    """On any turn of the day."""
    states = [_state(day, sequence, DayContent(rows=1, checksum="1")) for sequence, day in enumerate(YEAR)]
    found = days_to_watch(states, {}, looked_until=359, tonight=date(2018, 1, 1))["bronze_sales"]
    assert set(found) >= {day for day in YEAR if day > date(2017, 12, 26)}


def test_thirty_nights_see_every_day_and_no_night_sees_many() -> None:
    """Old files rot unseen; reading all of history every night would cost too much."""
    states = [_state(day, 1, DayContent(rows=1, checksum="1")) for day in YEAR]
    nights = [date(2018, 1, 1) + timedelta(days=n) for n in range(TURNS)]
    seen = [days_to_watch(states, {}, looked_until=1, tonight=night)["bronze_sales"] for night in nights]
    assert {day for days in seen for day in days} == set(YEAR)
    assert max(map(len, seen)) == len(YEAR) // TURNS + 1


def test_a_withdrawn_day_is_no_failure() -> None:
    """There is nothing to compare."""
    assert days_to_watch([_state(YEAR.first, 5, None)], {}, looked_until=-1, tonight=YEAR.first) == {}


def test_a_day_of_which_a_file_is_gone_or_cut_is_looked_at_tonight(lakehouse: SmallLakehouse) -> None:
    """Whenever its turn is: the names and sizes of all files are asked for, and no row is read."""
    watch, (first, *_) = fake_watch(lakehouse), DAYS
    assert watch.altered(TABLES) == {}
    for table, harm in (("bronze_sales", Path.unlink), ("raw_sales", lambda path: path.write_bytes(b"half"))):
        (path, *_) = (file for file in lakehouse.newest(table).file_uris() if f"day={first}" in file)
        harm(Path(path))
    altered = watch.altered(TABLES)
    assert altered == {"bronze_sales": {first}, "raw_sales": {first}}
    states = [_state(first, 1, DayContent(rows=1, checksum="1"))]
    night = first + timedelta(days=1)
    assert days_to_watch(states, altered, looked_until=1, tonight=night) == {"bronze_sales": [first]}
