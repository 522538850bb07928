"""A run over unchanged days leaves their pages as they were; one that was killed does not say that days failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.tags import (
    PARTITION_NAME_TAG,
)

from backfill_assets.days import TableDay
from backfill_assets.defs import watchdogs
from backfill_assets.defs.checks import HELD, NOT_RUN, WATCHDOG, check_key, gate_keys, verdict_of
from backfill_assets.defs.dagster_internals import newest_evaluations, report_checks
from backfill_assets.defs.sensors import shows_what_is
from backfill_assets.defs.sensors.repairs import _failed_gates
from backfill_assets.defs.sensors.shows_what_is import REPORTED_TAG, ShownDays, put_checks_right
from backfill_assets.defs.watchdogs import JOB, STEP, newest_verdicts
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.graph import steps_of
from backfill_assets.upkeep.failed_checks import NotRun
from backfill_assets_tests.defs.conftest import DagsterLake, run_range
from backfill_assets_tests.defs.fake_builder import built_day
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_TABLES

TABLE = "bronze_sales"
DAYS = ("2017-03-01", "2017-03-02")
KEYS = "keys_unique"


class Place(DagsterLake):
    """With what Dagster shows of the checks of a table."""

    def run(self, *tables: str) -> dg.ExecuteInProcessResult:
        return run_range(self.defs, self.instance, "..".join(DAYS), *tables)

    def planned(self, last: str = DAYS[-1]) -> dg.DagsterRun:
        """A run of the table and its companion that has not come to any check yet."""
        return self.plan(DAYS[0], last, TABLE, "quarantine_sales")

    def look(self) -> None:
        self.run_job(JOB, STEP, days="..".join(DAYS), tables=[TABLE])

    def put_right(self, landing: LandingZone | None = None) -> int:
        log = self.lakehouse.publisher.log
        return put_checks_right(ShownDays(self.instance, log, SMALL_TABLES, landing))

    def land(self, *days: str) -> LandingZone:
        for day in days:
            file = self.home / "landing" / "sales" / day / "a.jsonl.gz"
            file.parent.mkdir(parents=True)
            file.write_bytes(b"")
        return LandingZone(self.home / "landing")

    def statuses(self, check: str) -> dict[str, AssetCheckExecutionRecordStatus]:
        keys = [dg.AssetCheckKey(dg.AssetKey(TABLE), check)]
        found = self.instance.event_log_storage.get_asset_check_partition_info(keys=keys)
        return {str(each.partition_key): each.latest_execution_status for each in found}

    def newest(self, check: str, day: str) -> dg.AssetCheckEvaluation:
        return newest_evaluations(self.instance, check_key(TABLE, check), day=day)[0]

    def was_not_run(self, check: str, day: str) -> bool:
        return NOT_RUN in self.newest(check, day).metadata

    def failed_gates(self) -> set[date]:
        return {key.day for key in _failed_gates(self.instance, gate_keys(steps_of(SMALL.steps, [TABLE])))[0]}


@pytest.fixture
def place(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Place:
    found = Place(tmp_path, dagster_instance)
    found.lakehouse.publish("p1", {TABLE: {date.fromisoformat(day): [1] for day in DAYS}})
    return found


def test_the_watchdog_of_an_unchanged_day_keeps_its_verdict(place: Place) -> None:
    """Dagster plans it for every run: without the verdict the page would say 1 of 2 passed after a second run."""
    place.builder.published = {
        (TABLE, date.fromisoformat(day)): replace(built_day(TABLE, date.fromisoformat(day)), publication="p1")
        for day in DAYS
    }
    place.run(TABLE, "quarantine_sales")
    assert set(place.statuses(WATCHDOG).values()) == {AssetCheckExecutionRecordStatus.PLANNED}
    place.look()
    place.run(TABLE, "quarantine_sales")
    place.run(TABLE, "quarantine_sales")
    assert place.statuses(WATCHDOG) == dict.fromkeys(DAYS, AssetCheckExecutionRecordStatus.SUCCEEDED)
    verdict = place.newest(WATCHDOG, DAYS[0])
    assert str(verdict.description).count("unchanged since it was read") == 1
    assert verdict.metadata["publication"].value == "p1"
    assert verdict.target_materialization_data


def test_a_verdict_on_another_publication_is_not_kept(place: Place) -> None:
    """It says nothing about what is published now."""
    place.look()
    publications = dict.fromkeys(DAYS, "p1")
    assert set(newest_verdicts(place.instance, TABLE, publications)) == set(DAYS)
    assert newest_verdicts(place.instance, TABLE, dict.fromkeys(DAYS, "p2")) == {}


def test_a_verdict_is_found_behind_many_that_came_after_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With years of history, each night reads other days of a table: that of a day may be weeks back."""
    place.look()
    monkeypatch.setattr(watchdogs, "_LEAST_LOOKED_AT", 1)
    monkeypatch.setattr(watchdogs, "_EVALUATIONS_A_DAY", 1)
    for day in DAYS:
        assert list(newest_verdicts(place.instance, TABLE, {day: "p1"})) == [day]
    assert newest_verdicts(place.instance, TABLE, {"2017-03-09": "p1"}) == {}, "never read"


def test_checks_that_a_run_was_killed_before_say_that_they_were_not_run(place: Place) -> None:
    """Published days show what was said of them before; repairs do not take any of them for bad days."""
    third = "2017-03-03"
    place.look()
    run = place.planned(third)
    place.instance.report_run_failed(run)
    assert place.statuses(KEYS)[third] is AssetCheckExecutionRecordStatus.PLANNED
    assert place.put_right() == 24
    gates = {day: place.newest(KEYS, day) for day in (*DAYS, third)}
    assert gates[DAYS[0]].passed
    assert str(gates[DAYS[0]].description).startswith(f"not run in {run.run_id[:8]}, which ended before it: ")
    assert "publication p1" in str(gates[DAYS[0]].description)
    assert place.was_not_run(KEYS, third) and gates[third].severity == dg.AssetCheckSeverity.WARN
    assert str(gates[third].description) == f"Not run: the run {run.run_id[:8]} ended before it. Launch the day again."
    assert HELD not in gates[third].metadata
    assert place.newest(WATCHDOG, DAYS[0]).passed
    assert place.failed_gates() == set()


def test_a_run_that_a_gate_has_ended_is_told_from_one_that_was_killed(place: Place) -> None:
    third = "2017-03-03"
    run = place.planned(third)
    report_checks(place.instance, run.run_id, [verdict_of(TABLE, KEYS, DAYS[0], "one key twice", {}, passed=False)])
    place.instance.report_run_failed(run)
    place.put_right()
    said = place.newest(KEYS, third)
    assert "in which a gate held days back, published none. Launch the day again." in str(said.description)
    _, not_run = _failed_gates(place.instance, gate_keys(steps_of(SMALL.steps, [TABLE])))
    assert not_run[TableDay(TABLE, date.fromisoformat(third))] == NotRun(run.run_id, held_back=True)


def test_checks_of_a_day_that_never_had_data_are_not_failed(place: Place) -> None:
    """A range holds two days that nothing has landed for: its run fails, and the table is as sound as before.

    A day that has landed and was not built was not judged.
    """
    landing = place.land("2017-03-03")
    run = place.planned("2017-03-05")
    place.instance.report_run_failed(run)
    assert place.put_right(landing) == 40
    passed = AssetCheckExecutionRecordStatus.SUCCEEDED
    shown = place.statuses(KEYS)
    assert [shown[f"2017-03-0{day}"] for day in (1, 2, 4, 5)] == [passed] * 4
    assert str(place.newest(KEYS, "2017-03-05").description).startswith("Nothing to judge: nothing has landed")
    assert place.was_not_run(KEYS, "2017-03-03")


def test_each_failed_run_is_put_right_once(place: Place) -> None:
    """A sensor does it every minute."""
    run = place.planned()
    assert place.put_right() == 0, "it may still come to them"
    place.instance.report_run_failed(run)
    assert place.put_right() == 16
    assert place.put_right() == 0
    found = place.instance.get_run_by_id(run.run_id)
    assert found and found.tags[REPORTED_TAG] == "16"


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs that a look has at first, here a tenth of them."""
    assert shows_what_is._NEWEST_RUNS == 40
    monkeypatch.setattr(shows_what_is, "_NEWEST_RUNS", 4)
    return 4


def test_a_run_that_fails_after_many_that_began_later_is_put_right(place: Place, looked_at: int) -> None:
    """A stream that ends early is started again and again beside a long backfill."""
    run = place.planned()
    for _ in range(looked_at + 1):
        place.instance.add_run(dg.DagsterRun(job_name="stream", status=dg.DagsterRunStatus.FAILURE))
    place.put_right()
    place.instance.report_run_failed(run)
    assert place.put_right() == 16


def test_runs_that_fail_all_at_once_are_all_put_right(place: Place, looked_at: int) -> None:
    """A full disk ends every run of a backfill within seconds, more than one look has at first."""
    run = place.planned()
    place.instance.report_run_failed(run)
    for _ in range(2 * looked_at + 1):
        other = dg.DagsterRun(job_name="other", status=dg.DagsterRunStatus.STARTED)
        place.instance.report_run_failed(place.instance.add_run(other))
    assert place.put_right() == 16
    assert place.put_right() == 0


def test_a_gate_that_failed_stays_failed(place: Place) -> None:
    """Its day has a verdict: only those that the run did not come to are put right."""
    place.builder.failing = {TABLE: [date.fromisoformat(DAYS[1])]}
    place.run(TABLE, "quarantine_sales")
    place.put_right()
    assert place.statuses(KEYS)[DAYS[1]] is AssetCheckExecutionRecordStatus.FAILED
    assert not place.was_not_run(KEYS, DAYS[1])
    assert place.failed_gates() == {date.fromisoformat(DAYS[1])}


def test_checks_of_a_job_that_failed_are_reported_as_those_of_a_backfill(place: Place) -> None:
    """A run of a whole job, as by its schedule, selects no assets: the job says which it has."""
    job = place.defs.resolve_job_def("daily_small")
    run = place.instance.create_run_for_job(job, tags={PARTITION_NAME_TAG: DAYS[0]})
    assert run.asset_selection is None
    place.instance.report_run_failed(run)
    assert place.statuses(KEYS) == {DAYS[0]: AssetCheckExecutionRecordStatus.PLANNED}
    assert place.put_right() > 0
    assert place.statuses(KEYS) == {DAYS[0]: AssetCheckExecutionRecordStatus.SUCCEEDED}
    assert place.was_not_run(WATCHDOG, DAYS[0])
