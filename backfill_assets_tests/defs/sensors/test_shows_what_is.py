"""What is published and was never reported: the sensor reports it to Dagster, with gates, and launches nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.defs import dagster_internals
from backfill_assets.defs.checks import FRESH, check_key
from backfill_assets.defs.dagster_internals import (
    CheckRunHealthResult,
    GrpcServerCodeLocationOrigin,
    LocalRunLauncher,
    WorkerStatus,
    newest_evaluations,
)
from backfill_assets.defs.partitions import PartitionedTables, Partitions
from backfill_assets.defs.sensors.shows_what_is import (
    REPORTED_BY,
    ReportedUpTo,
    ShownDays,
    days_of_data,
    put_freshness_right,
    put_statuses_right,
    report_publication,
    shows_what_is_sensor,
)
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import Switch
from backfill_assets.landing.data_days import DataDays
from backfill_assets.model.graph import build_order
from backfill_assets.model.logic import logic_of
from backfill_assets.settings import Settings
from backfill_assets.state.edited_logic import keep_logic_of
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.defs.conftest import Run, materialized
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_chain import publish_chain, publish_step
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_CATALOG, SMALL_TABLES
from backfill_assets_tests.small_lakehouse import PROVENANCE, SmallLakehouse

DATES = (date(2017, 3, 1), date(2017, 3, 2))
DAYS = tuple(map(str, DATES))
BRONZE = dg.AssetKey("bronze_sales")
BRONZE_DAYS = SMALL_TABLES.by_table["bronze_sales"]


class Reported:
    """A lakehouse, and what Dagster was told of it."""

    def __init__(self, root: Path, instance: dg.DagsterInstance) -> None:
        self.lakehouse, self.instance = SmallLakehouse(root), instance
        self.days = ShownDays(instance, self.lakehouse.publisher.log, SMALL_TABLES)

    def publish(self, id: str, *ids: int) -> None:
        self.lakehouse.publish(id, {"bronze_sales": dict.fromkeys(DATES, ids)})

    def put_right(self) -> int:
        found = put_statuses_right(self.days, ReportedUpTo())
        return len(found.published) + len(found.withdrawn)

    def tick(self, builder: FakeBuilder, cursor: str | None = None) -> dg.SensorExecutionData:
        resources = fake_resources(builder)
        with dg.build_sensor_context(instance=self.instance, cursor=cursor, resources=resources) as context:
            return shows_what_is_sensor(SMALL_TABLES, {}).evaluate_tick(context)

    def newest(self, day: str) -> dg.AssetMaterialization:
        chosen = dg.AssetRecordsFilter(BRONZE, asset_partitions=[day])
        (record,) = self.instance.fetch_materializations(chosen, limit=1).records
        assert record.asset_materialization
        return record.asset_materialization

    def check(self, day: str, check: str = "contract_holds", table: str = "bronze_sales") -> dg.AssetCheckEvaluation:
        return newest_evaluations(self.instance, check_key(table, check), day=day)[0]

    def failed(self) -> set[str]:
        status = get_and_update_asset_status_cache_value(self.instance, BRONZE, BRONZE_DAYS, self.instance)
        return set(status.deserialize_failed_partition_subsets(BRONZE_DAYS).get_partition_keys()) if status else set()


@pytest.fixture
def reported(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Reported:
    return Reported(tmp_path, dagster_instance)


def test_published_days_without_an_event_become_materialized(reported: Reported) -> None:
    """Their row count, publication and gates are those of the log, and say who reported them; once is enough."""
    reported.publish("p1", 1, 2, 3)
    assert reported.put_right() == 2
    assert materialized(reported.instance, "bronze_sales") == list(DAYS)
    event, gates = reported.newest(DAYS[0]), reported.check(DAYS[0])
    assert event.metadata["dagster/partition_row_count"].value == 3
    assert event.metadata["publication"].value == "p1"
    assert REPORTED_BY in event.metadata
    assert gates.passed
    assert gates.target_materialization_data
    assert reported.put_right() == 0


@pytest.mark.parametrize("by", ["the sensor", "the campaign"])
def test_inputs_are_reported_before_what_is_made_of_them(reported: Reported, by: str) -> None:
    """Dagster shows a day as outdated that was materialized before its inputs were."""
    tables = ("raw_sales", "bronze_sales", "fact_daily_revenue")
    reported.lakehouse.publish("p1", {table: dict.fromkeys(DATES, (1,)) for table in reversed(tables)})
    if by == "the sensor":
        reported.put_right()
    else:
        report_publication(reported.days, "p1", "a-run")
    told = {
        table: [record.storage_id for record in reported.instance.fetch_materializations(dg.AssetKey(table), 9).records]
        for table in tables
    }
    assert all(max(told[made]) < min(told[of]) for made, of in pairwise(tables))
    assert {len(ids) for ids in told.values()} == {len(DAYS)}


def test_a_rollback_is_reported_and_a_withdrawn_day_is_not_fresh(reported: Reported) -> None:
    """Dagster must not go on showing rows that a person has undone; it cannot forget a single partition."""
    reported.publish("p1", 1, 2, 3)
    reported.publish("p2", 4)
    reported.put_right()
    with clock.use(reported.lakehouse.time):
        roll_back(reported.lakehouse.publisher, "p2", id="undo-p2", steps=CATALOG.steps)
    assert reported.put_right() == 2
    assert reported.newest(DAYS[0]).metadata["dagster/partition_row_count"].value == 3
    with clock.use(reported.lakehouse.time):
        roll_back(reported.lakehouse.publisher, "p1", id="undo-p1", steps=CATALOG.steps)
    assert reported.put_right() == 2
    fresh = reported.check(DAYS[0], FRESH)
    assert not fresh.passed
    assert "undo-p1" in str(fresh.description)


def test_a_campaign_that_withdraws_days_when_it_is_undone_shows_no_empty_day(reported: Reported) -> None:
    """A day that it had built for the first time: nothing is published there, and materialized means published."""
    shown = reported.days
    reported.publish("p1", 1, 2, 3)
    report_publication(shown, "p1", "the-campaign")
    with clock.use(reported.lakehouse.time):
        roll_back(reported.lakehouse.publisher, "p1", id="undo-p1", steps=CATALOG.steps)
    assert report_publication(shown, "undo-p1", "the-undo") == 2
    assert reported.newest(DAYS[0]).metadata["publication"].value == "p1"
    fresh = reported.check(DAYS[0], FRESH)
    assert not fresh.passed
    assert "undo-p1" in str(fresh.description)


def test_many_withdrawn_days_are_reported_tick_by_tick(reported: Reported, builder: FakeBuilder) -> None:
    """What was published after them is reported as well."""
    builder.log = reported.lakehouse.publisher.log
    days = [date(2017, 3, 1) + timedelta(days=n) for n in range(205)]
    reported.lakehouse.publish("p1", {"bronze_sales": dict.fromkeys(days, (1,))})
    for day in days:
        reported.instance.report_runless_asset_event(dg.AssetMaterialization(BRONZE, partition=str(day)))
    with clock.use(reported.lakehouse.time):
        roll_back(reported.lakehouse.publisher, "p1", id="undo-p1", steps=CATALOG.steps)
    reported.publish("p2", 2)
    cursor: str | None = None
    words: list[str | None] = []
    for _ in range(3):
        tick = reported.tick(builder, cursor)
        cursor, words = tick.cursor, [*words, tick.skip_message]
    assert words == [
        "Reported 200 days to Dagster.",
        "Reported 5 days to Dagster. Reported 2 days as fresh or stale.",
        "Dagster shows what is.",
    ]
    assert reported.newest(DAYS[0]).metadata["publication"].value == "p2"
    assert not reported.check(str(days[-1]), FRESH).passed


def test_failed_stays_failed_unless_something_was_published(reported: Reported, run: Run, builder: FakeBuilder) -> None:
    """Failed means that the last attempt published nothing; one that did publish, and died, was no failure."""
    reported.publish("p1", 1)
    reported.put_right()
    builder.failing = {"bronze_sales": [date(2017, 3, 1)]}
    assert not run("..".join(DAYS)).success
    assert reported.failed() == set(DAYS)
    assert reported.put_right() == 0
    assert reported.failed() == set(DAYS)
    reported.publish("p2", 1, 2)
    assert reported.put_right() == 2
    assert reported.failed() == set()


def test_a_run_that_is_under_way_is_given_time_to_report_its_days_itself(reported: Reported) -> None:
    """Of a process on another machine nobody knows whether it was killed: its days are reported after half a minute."""
    started = dg.DagsterRun(job_name="daily", run_id=PROVENANCE.run, status=dg.DagsterRunStatus.STARTED)
    reported.instance.add_run(started)
    reported.publish("p1", 1)
    shown, at = reported.days, reported.lakehouse.now()
    with clock.use(FakeClock(at + timedelta(seconds=29))):
        soon = put_statuses_right(shown, ReportedUpTo())
    assert soon.published == ()
    with clock.use(FakeClock(at + timedelta(seconds=31))):
        later = put_statuses_right(shown, ReportedUpTo(settled=soon.settled))
    assert len(later.published) == 2


def test_the_days_of_a_run_whose_process_was_killed_are_reported_at_once(
    tmp_path: Path, own_instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started in Dagster still: nobody has said that it has ended."""
    reported = Reported(tmp_path, own_instance)
    started = dg.DagsterRun(job_name="daily", run_id=PROVENANCE.run, status=dg.DagsterRunStatus.STARTED)
    own_instance.add_run(started)
    reported.publish("p1", 1)
    with clock.use(reported.lakehouse.time):
        found = put_statuses_right(reported.days, ReportedUpTo())
    assert found.published == ()
    gone = CheckRunHealthResult(WorkerStatus.FAILED, "its process 7 is gone: it was killed")
    monkeypatch.setattr(LocalRunLauncher, "check_run_worker_health", lambda *_: gone)
    with clock.use(reported.lakehouse.time):
        found = put_statuses_right(reported.days, ReportedUpTo(settled=found.settled))
    assert len(found.published) == 2
    assert materialized(own_instance, "bronze_sales") == list(DAYS)


def test_the_sensor_looks_at_each_publication_once(reported: Reported, builder: FakeBuilder) -> None:
    """It is on without being turned on, so it must cost next to nothing and must never launch a run."""
    assert shows_what_is_sensor(SMALL_TABLES, {}).default_status == dg.DefaultSensorStatus.RUNNING
    assert reported.tick(builder).skip_message == "Dagster shows what is."
    builder.log = reported.lakehouse.publisher.log
    reported.publish("p1", 1)
    first = reported.tick(builder)
    assert first.skip_message == "Reported 2 days to Dagster. Reported 2 days as fresh or stale."
    assert not first.run_requests
    second = reported.tick(builder, first.cursor)
    assert (second.skip_message, second.cursor) == ("Dagster shows what is.", first.cursor)


def test_a_lakehouse_that_is_made_again_at_the_same_place_is_looked_at_from_its_beginning(
    reported: Reported, builder: FakeBuilder
) -> None:
    """Its entries have the numbers of entries that were looked at."""
    builder.log = reported.lakehouse.publisher.log
    for number in range(3):
        reported.publish(f"p{number}", 1, number)
    seen = reported.tick(builder)
    shutil.rmtree(reported.lakehouse.storage.root)
    again = Reported(Path(reported.lakehouse.storage.root), reported.instance)
    builder.log = again.lakehouse.publisher.log
    again.publish("again", 1)
    told = again.tick(builder, seen.cursor).skip_message
    assert told == "Reported 2 days to Dagster. Reported 2 days as fresh or stale."
    assert reported.newest(DAYS[0]).metadata["publication"].value == "again"


def test_days_that_get_a_partition_later_are_reported_then() -> None:
    """A stream goes on after data that had ended: its days are published before the code location is loaded again."""
    ended = PartitionedTables(SMALL_CATALOG, {"small": DataDays(last=date(2017, 5, 29))}).by_table
    assert ReportedUpTo.of(None, ended).settled == -1
    cursor = replace(ReportedUpTo.of(None, ended), settled=7).cursor()
    assert ReportedUpTo.of(cursor, ended).cursor() == cursor
    assert ReportedUpTo.of(cursor, SMALL_TABLES.by_table).settled == -1
    begun = PartitionedTables(SMALL_CATALOG, {"small": DataDays(date(2017, 3, 1), date(2017, 5, 29))}).by_table
    assert ReportedUpTo.of(cursor, begun).settled == -1


def test_partitions_that_grow_to_where_others_end_have_grown() -> None:
    both = {"raw_sales": _until(11), "report_store_ranking": _until(12)}
    cursor = replace(ReportedUpTo.of(None, both), settled=7).cursor()
    assert ReportedUpTo.of(cursor, {**both, "raw_sales": _until(12)}).settled == -1
    assert ReportedUpTo.of(cursor, dict(reversed(both.items()))).settled == 7


def _until(day: int) -> Partitions:
    return dg.DailyPartitionsDefinition(start_date=datetime(2017, 3, 1), end_date=datetime(2017, 3, day))  # noqa: DTZ001


def test_days_that_a_switch_brought_are_reported_with_their_version(reported: Reported) -> None:
    """No run of Dagster's reports them: a switch is a command."""
    reported.publish("p1", 1)
    assert reported.put_right() == 2
    asked = reported.lakehouse.request("s1", {"bronze_sales": {day: [2, 3] for day in DATES}}, code="v2")
    reported.lakehouse.publish_request(asked.model_copy(update={"switches": {"bronze_sales": Switch(version="v2")}}))
    assert reported.put_right() == 2
    event = reported.newest(DAYS[0])
    assert (event.metadata["publication"].value, event.metadata["dagster/partition_row_count"].value) == ("s1", 2)
    assert event.metadata["code_version"].value == "v2"
    with clock.use(reported.lakehouse.time):
        roll_back(reported.lakehouse.publisher, "s1", id="undo", steps=CATALOG.steps)
    assert reported.put_right() == 2
    assert reported.newest(DAYS[0]).metadata["code_version"].value == "v1"


def test_a_day_whose_inputs_have_changed_is_shown_as_stale_until_it_is_built_again(reported: Reported) -> None:
    """Against what is published of its inputs now: nothing is read but logs. What is shown already is left alone."""
    shown = reported.days

    def put_right() -> int:
        put_statuses_right(shown, ReportedUpTo())
        return put_freshness_right(shown)

    publish_chain(reported.lakehouse, "p", DATES)
    assert put_right() == 0
    reported.lakehouse.publish("late", {"raw_sales": {DATES[0]: [9]}}, mode="append")
    assert put_right() == 2, "bronze and what is set aside; the fact is as its input is"
    stale = reported.check(DAYS[0], FRESH)
    assert (stale.passed, stale.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "stale: late rows" in str(stale.description)
    assert reported.check(DAYS[1], FRESH).passed
    assert put_right() == 0
    step = next(each for each in build_order(SMALL.steps) if each.name == "bronze_sales")
    publish_step(reported.lakehouse, "again", step, {DATES[0]: 2})
    put_right()
    assert reported.check(DAYS[0], FRESH).passed


def test_a_day_whose_version_was_edited_is_not_shown_as_fresh_until_it_is_put_back(
    reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check says which version, what has changed, and both ways out."""
    step = SMALL_CATALOG.step("fact_daily_revenue")
    edited = replace(step.version(), transform=MappingProxyType)
    reported.lakehouse.logic["fact_daily_revenue"] = logic_of(step.version()).fingerprint
    keep_logic_of(reported.lakehouse.storage, step, step.version())
    publish_chain(reported.lakehouse, "p", DATES)
    put_statuses_right(reported.days, ReportedUpTo())
    assert put_freshness_right(reported.days) == 0
    steps = tuple(replace(each, versions=(edited,)) if each is step else each for each in SMALL.steps)
    with monkeypatch.context() as patch:
        patch.setitem(vars(SMALL_CATALOG), "steps", tuple(build_order(steps)))
        assert put_freshness_right(reported.days) == 2
        shown = reported.check(DAYS[0], FRESH, "fact_daily_revenue")
        assert (shown.passed, shown.severity) == (False, dg.AssetCheckSeverity.WARN)
        assert "made with another logic than v2 has now (its declaration" in str(shown.description)
        assert "--same-rows" in str(shown.description)
        assert put_freshness_right(reported.days) == 0
    assert put_freshness_right(reported.days) == 2
    assert reported.check(DAYS[0], FRESH, "fact_daily_revenue").passed


# ------------------------------------------------------------------- partitions of data that has ended grow with it


FIRST, END = date(2017, 3, 1), date(2017, 5, 29)
SERVER = GrpcServerCodeLocationOrigin("localhost", port=4000, location_name="small")
Tick = Callable[..., Any]


@pytest.fixture
def reloads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The code servers that were asked to load their code again."""
    asked: list[object] = []

    class NowTimer:
        daemon = False

        def __init__(self, seconds: float, call: Callable[[], None]) -> None:
            self.call = call

        def start(self) -> None:
            self.call()

    class Client:
        def reload_code(self, timeout: int) -> None:
            asked.append(timeout)

    monkeypatch.setattr(dagster_internals.threading, "Timer", NowTimer)
    monkeypatch.setattr(GrpcServerCodeLocationOrigin, "create_client", lambda self: Client())
    return asked


@pytest.fixture
def tick(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Tick:
    def evaluate(cursor: str | None = None, origin: object = SERVER) -> Any:
        sensor = shows_what_is_sensor(PartitionedTables(SMALL_CATALOG, {"small": DataDays(FIRST, END)}), {})
        resources = fake_resources(FakeBuilder(), tmp_path)
        with dg.build_sensor_context(instance=dagster_instance, cursor=cursor, resources=resources) as context:
            context._code_location_origin = origin  # type: ignore[assignment]
            return sensor.evaluate_tick(context)

    return evaluate


def _land(home: Path, day: date, source: str = "sales") -> None:
    folder = Settings.at(home).landing / source / str(day)
    folder.mkdir(parents=True)
    (folder / "part.jsonl.gz").touch()


def test_partitions_that_end_with_the_data_stay(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """It is on from the start, and costs a listing of names."""
    _land(tmp_path, FIRST)
    _land(tmp_path, END)
    assert tick().skip_message == "Dagster shows what is."
    assert reloads == []


def test_a_later_day_has_the_code_location_loaded_again_once(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """Web server and daemon see the server that follows; one that stays as it is is not asked again for ever."""
    _land(tmp_path, FIRST)
    _land(tmp_path, date(2017, 6, 5))
    first = tick()
    assert first.skip_message == (
        "Data begins or ends elsewhere now: small 2017-03-01..2017-06-05. The code location is being loaded again."
    )
    assert len(reloads) == 1
    assert "press Reload" in str(tick(first.cursor).skip_message)
    assert len(reloads) == 1


def test_an_earlier_day_has_the_code_location_loaded_again(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """Older history lands: it gets partitions. Rates that are looked back to move nothing."""
    _land(tmp_path, FIRST)
    _land(tmp_path, END)
    _land(tmp_path, date(2017, 2, 20), "fx_rates")
    assert reloads == [] and tick().skip_message == "Dagster shows what is."
    _land(tmp_path, date(2017, 2, 1))
    assert "small 2017-02-01..2017-05-29" in str(tick().skip_message)
    assert len(reloads) == 1


def test_a_server_that_cannot_be_asked_is_left_to_a_person(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """As under `dagster dev`, which keeps the code server to itself."""
    _land(tmp_path, date(2017, 6, 5))
    assert "press Reload" in str(tick(origin=None).skip_message)
    assert reloads == []


def test_a_landing_zone_that_cannot_be_read_changes_nothing(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """A folder that is a link to nothing, or a disk that is away for a minute."""
    _land(tmp_path, END)
    (Settings.at(tmp_path).landing / "sales" / "2017-06-01").symlink_to(tmp_path / "nowhere")
    assert days_of_data(SMALL_CATALOG, Settings.at(tmp_path)) is None
    assert "cannot be read" in str(tick().skip_message)
    assert reloads == []
