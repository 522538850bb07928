"""What is published and was never reported: the sensor reports it to Dagster, with gates, and launches nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.defs import dagster_internals
from backfill_assets.defs.checks import FRESH, check_key
from backfill_assets.defs.dagster_internals import GrpcServerCodeLocationOrigin, newest_evaluations
from backfill_assets.defs.partitions import PartitionedTables, Partitions
from backfill_assets.defs.sensors.shows_what_is import (
    REPORTED_BY,
    ReportedUpTo,
    ShownDays,
    ends_of_data,
    put_freshness_right,
    put_statuses_right,
    report_publication,
    shows_what_is_sensor,
)
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import Switch
from backfill_assets.model.graph import build_order
from backfill_assets.settings import Settings
from backfill_assets_tests.defs.conftest import Run, materialized
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_chain import publish_chain, publish_step
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_CATALOG, SMALL_TABLES
from backfill_assets_tests.small_lakehouse import PROVENANCE, SmallLakehouse

DATES = (date(2017, 3, 1), date(2017, 3, 2))
DAYS = tuple(map(str, DATES))
BRONZE = dg.AssetKey("bronze_sales")
BRONZE_DAYS = SMALL_TABLES.by_table["bronze_sales"]


@pytest.fixture
def lakehouse(tmp_path: Path) -> SmallLakehouse:
    return SmallLakehouse(tmp_path)


def _shown(instance: dg.DagsterInstance, lakehouse: SmallLakehouse) -> ShownDays:
    return ShownDays(instance, lakehouse.publisher.log, SMALL_TABLES)


def _put_right(instance: dg.DagsterInstance, lakehouse: SmallLakehouse) -> int:
    found = put_statuses_right(_shown(instance, lakehouse), ReportedUpTo(), datetime.now(UTC))
    return len(found.published) + len(found.withdrawn)


def _publish(lakehouse: SmallLakehouse, id: str, *ids: int) -> None:
    lakehouse.publish(id, {"bronze_sales": dict.fromkeys(DATES, ids)})


def _newest(instance: dg.DagsterInstance, day: str) -> dg.AssetMaterialization:
    (record,) = instance.fetch_materializations(dg.AssetRecordsFilter(BRONZE, asset_partitions=[day]), limit=1).records
    assert record.asset_materialization
    return record.asset_materialization


def _check(
    instance: dg.DagsterInstance, day: str, check: str = "contract_holds", table: str = "bronze_sales"
) -> dg.AssetCheckEvaluation:
    return newest_evaluations(instance, check_key(table, check), day=day)[0]


def _failed(instance: dg.DagsterInstance) -> set[str]:
    status = get_and_update_asset_status_cache_value(instance, BRONZE, BRONZE_DAYS, instance)
    return set(status.deserialize_failed_partition_subsets(BRONZE_DAYS).get_partition_keys()) if status else set()


def test_published_days_without_an_event_become_materialized(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance
) -> None:
    """Their row count, publication and gates are those of the log, and say who reported them; once is enough."""
    _publish(lakehouse, "p1", 1, 2, 3)
    assert _put_right(dagster_instance, lakehouse) == 2
    assert materialized(dagster_instance, "bronze_sales") == list(DAYS)
    event, gates = _newest(dagster_instance, DAYS[0]), _check(dagster_instance, DAYS[0])
    assert event.metadata["dagster/partition_row_count"].value == 3
    assert event.metadata["publication"].value == "p1"
    assert REPORTED_BY in event.metadata
    assert gates.passed
    assert gates.target_materialization_data
    assert _put_right(dagster_instance, lakehouse) == 0


@pytest.mark.parametrize("by", ["the sensor", "the campaign"])
def test_inputs_are_reported_before_what_is_made_of_them(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance, by: str
) -> None:
    """Dagster shows a day as outdated that was materialized before its inputs were."""
    tables = ("raw_sales", "bronze_sales", "fact_daily_revenue")
    lakehouse.publish("p1", {table: dict.fromkeys(DATES, (1,)) for table in reversed(tables)})
    if by == "the sensor":
        _put_right(dagster_instance, lakehouse)
    else:
        report_publication(_shown(dagster_instance, lakehouse), "p1", "a-run")
    told = {
        table: [record.storage_id for record in dagster_instance.fetch_materializations(dg.AssetKey(table), 9).records]
        for table in tables
    }
    assert all(max(told[made]) < min(told[of]) for made, of in pairwise(tables))
    assert {len(ids) for ids in told.values()} == {len(DAYS)}


def test_a_rollback_is_reported_and_a_withdrawn_day_is_not_fresh(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance
) -> None:
    """Dagster must not go on showing rows that a person has undone; it cannot forget a single partition."""
    _publish(lakehouse, "p1", 1, 2, 3)
    _publish(lakehouse, "p2", 4)
    _put_right(dagster_instance, lakehouse)
    roll_back(lakehouse.publisher, "p2", id="undo-p2", steps=CATALOG.steps)
    assert _put_right(dagster_instance, lakehouse) == 2
    assert _newest(dagster_instance, DAYS[0]).metadata["dagster/partition_row_count"].value == 3
    roll_back(lakehouse.publisher, "p1", id="undo-p1", steps=CATALOG.steps)
    assert _put_right(dagster_instance, lakehouse) == 2
    fresh = _check(dagster_instance, DAYS[0], FRESH)
    assert not fresh.passed
    assert "undo-p1" in str(fresh.description)


def test_a_campaign_that_withdraws_days_when_it_is_undone_shows_no_empty_day(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance
) -> None:
    """A day that it had built for the first time: nothing is published there, and materialized means published."""
    shown = _shown(dagster_instance, lakehouse)
    _publish(lakehouse, "p1", 1, 2, 3)
    report_publication(shown, "p1", "the-campaign")
    roll_back(lakehouse.publisher, "p1", id="undo-p1", steps=CATALOG.steps)
    assert report_publication(shown, "undo-p1", "the-undo") == 2
    assert _newest(dagster_instance, DAYS[0]).metadata["publication"].value == "p1"
    fresh = _check(dagster_instance, DAYS[0], FRESH)
    assert not fresh.passed
    assert "undo-p1" in str(fresh.description)


def test_many_withdrawn_days_are_reported_tick_by_tick(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance, builder: FakeBuilder
) -> None:
    """What was published after them is reported as well."""
    builder.log, sensor = lakehouse.publisher.log, shows_what_is_sensor(SMALL_TABLES, {})
    days = [date(2017, 3, 1) + timedelta(days=n) for n in range(205)]
    lakehouse.publish("p1", {"bronze_sales": dict.fromkeys(days, (1,))})
    for day in days:
        dagster_instance.report_runless_asset_event(dg.AssetMaterialization(BRONZE, partition=str(day)))
    roll_back(lakehouse.publisher, "p1", id="undo-p1", steps=CATALOG.steps)
    _publish(lakehouse, "p2", 2)
    cursor: str | None = None
    words: list[str | None] = []
    for _ in range(3):
        resources = fake_resources(builder)
        with dg.build_sensor_context(instance=dagster_instance, cursor=cursor, resources=resources) as context:
            tick = sensor.evaluate_tick(context)
        cursor, words = tick.cursor, [*words, tick.skip_message]
    assert words == [
        "Reported 200 days to Dagster.",
        "Reported 5 days to Dagster. Reported 2 days as fresh or stale.",
        "Dagster shows what is.",
    ]
    assert _newest(dagster_instance, DAYS[0]).metadata["publication"].value == "p2"
    assert not _check(dagster_instance, str(days[-1]), FRESH).passed


def test_failed_stays_failed_unless_something_was_published(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance, run: Run, builder: FakeBuilder
) -> None:
    """Failed means that the last attempt published nothing; one that did publish, and died, was no failure."""
    _publish(lakehouse, "p1", 1)
    _put_right(dagster_instance, lakehouse)
    builder.failing = {"bronze_sales": [date(2017, 3, 1)]}
    assert not run("..".join(DAYS)).success
    assert _failed(dagster_instance) == set(DAYS)
    assert _put_right(dagster_instance, lakehouse) == 0
    assert _failed(dagster_instance) == set(DAYS)
    _publish(lakehouse, "p2", 1, 2)
    assert _put_right(dagster_instance, lakehouse) == 2
    assert _failed(dagster_instance) == set()


def test_a_run_that_is_under_way_is_given_time_to_report_its_days_itself(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance
) -> None:
    """A process killed with -9 stays started in Dagster for ever: its days are reported after ten minutes."""
    started = dg.DagsterRun(job_name="daily", run_id=PROVENANCE.run, status=dg.DagsterRunStatus.STARTED)
    dagster_instance.add_run(started)
    _publish(lakehouse, "p1", 1)
    shown, at = _shown(dagster_instance, lakehouse), lakehouse.now()
    soon = put_statuses_right(shown, ReportedUpTo(), at + timedelta(minutes=9))
    assert soon.published == ()
    later = put_statuses_right(shown, ReportedUpTo(settled=soon.settled), at + timedelta(minutes=11))
    assert len(later.published) == 2


def test_the_sensor_looks_at_each_publication_once(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance, builder: FakeBuilder
) -> None:
    """It is on without being turned on, so it must cost next to nothing and must never launch a run."""
    sensor = shows_what_is_sensor(SMALL_TABLES, {})
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    resources = fake_resources(builder)

    def tick(cursor: str | None) -> dg.SensorExecutionData:
        with dg.build_sensor_context(instance=dagster_instance, cursor=cursor, resources=resources) as context:
            return sensor.evaluate_tick(context)

    assert tick(None).skip_message == "Dagster shows what is."
    builder.log = lakehouse.publisher.log
    _publish(lakehouse, "p1", 1)
    first = tick(None)
    assert first.skip_message == "Reported 2 days to Dagster. Reported 2 days as fresh or stale."
    assert not first.run_requests
    second = tick(first.cursor)
    assert (second.skip_message, second.cursor) == ("Dagster shows what is.", first.cursor)


def test_a_lakehouse_that_is_made_again_at_the_same_place_is_looked_at_from_its_beginning(
    tmp_path: Path, dagster_instance: dg.DagsterInstance, builder: FakeBuilder
) -> None:
    """Its entries have the numbers of entries that were looked at."""
    sensor = shows_what_is_sensor(SMALL_TABLES, {})

    def tick(cursor: str | None) -> dg.SensorExecutionData:
        resources = fake_resources(builder)
        with dg.build_sensor_context(instance=dagster_instance, cursor=cursor, resources=resources) as context:
            return sensor.evaluate_tick(context)

    first, place = SmallLakehouse(tmp_path), Path(SmallLakehouse(tmp_path).storage.root)
    builder.log = first.publisher.log
    for number in range(3):
        _publish(first, f"p{number}", 1, number)
    seen = tick(None)
    shutil.rmtree(place)
    second = SmallLakehouse(tmp_path)
    builder.log = second.publisher.log
    _publish(second, "again", 1)
    assert tick(seen.cursor).skip_message == "Reported 2 days to Dagster. Reported 2 days as fresh or stale."
    assert _newest(dagster_instance, DAYS[0]).metadata["publication"].value == "again"


def test_days_that_get_a_partition_later_are_reported_then() -> None:
    """A stream goes on after data that had ended: its days are published before the code location is loaded again."""
    ended = PartitionedTables(SMALL_CATALOG, {"small": date(2017, 5, 29)}).by_table
    assert ReportedUpTo.of(None, ended).settled == -1
    cursor = replace(ReportedUpTo.of(None, ended), settled=7).cursor()
    assert ReportedUpTo.of(cursor, ended).cursor() == cursor
    assert ReportedUpTo.of(cursor, SMALL_TABLES.by_table).settled == -1


def test_partitions_that_grow_to_where_others_end_have_grown() -> None:
    both = {"raw_sales": _until(11), "report_store_ranking": _until(12)}
    cursor = replace(ReportedUpTo.of(None, both), settled=7).cursor()
    assert ReportedUpTo.of(cursor, {**both, "raw_sales": _until(12)}).settled == -1
    assert ReportedUpTo.of(cursor, dict(reversed(both.items()))).settled == 7


def _until(day: int) -> Partitions:
    return dg.DailyPartitionsDefinition(start_date=datetime(2017, 3, 1), end_date=datetime(2017, 3, day))  # noqa: DTZ001


def test_days_that_a_switch_brought_are_reported_with_their_version(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance
) -> None:
    """No run of Dagster's reports them: a switch is a command."""
    _publish(lakehouse, "p1", 1)
    assert _put_right(dagster_instance, lakehouse) == 2
    asked = lakehouse.request("s1", {"bronze_sales": {day: [2, 3] for day in DATES}}, code="v2")
    lakehouse.publisher.publish(asked.model_copy(update={"switches": {"bronze_sales": Switch(version="v2")}}))
    assert _put_right(dagster_instance, lakehouse) == 2
    event = _newest(dagster_instance, DAYS[0])
    assert (event.metadata["publication"].value, event.metadata["dagster/partition_row_count"].value) == ("s1", 2)
    assert event.metadata["code_version"].value == "v2"
    roll_back(lakehouse.publisher, "s1", id="undo", steps=CATALOG.steps)
    assert _put_right(dagster_instance, lakehouse) == 2
    assert _newest(dagster_instance, DAYS[0]).metadata["code_version"].value == "v1"


def test_a_day_whose_inputs_have_changed_is_shown_as_stale_until_it_is_built_again(
    lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance
) -> None:
    """Against what is published of its inputs now: nothing is read but logs. What is shown already is left alone."""
    shown = _shown(dagster_instance, lakehouse)

    def put_right() -> int:
        put_statuses_right(shown, ReportedUpTo(), datetime.now(UTC))
        return put_freshness_right(shown)

    publish_chain(lakehouse, "p", DATES)
    assert put_right() == 0
    lakehouse.publish("late", {"raw_sales": {DATES[0]: [9]}}, mode="append")
    assert put_right() == 2, "bronze and what is set aside; the fact is as its input is"
    stale = _check(dagster_instance, DAYS[0], FRESH)
    assert (stale.passed, stale.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "stale: input changed" in str(stale.description)
    assert _check(dagster_instance, DAYS[1], FRESH).passed
    assert put_right() == 0
    step = next(each for each in build_order(SMALL.steps) if each.name == "bronze_sales")
    publish_step(lakehouse, "again", step, {DATES[0]: 2})
    put_right()
    assert _check(dagster_instance, DAYS[0], FRESH).passed


# ------------------------------------------------------------------- partitions of data that has ended grow with it


END = date(2017, 5, 29)
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
        sensor = shows_what_is_sensor(PartitionedTables(SMALL_CATALOG, {"small": END}), {})
        resources = fake_resources(FakeBuilder(), tmp_path)
        with dg.build_sensor_context(instance=dagster_instance, cursor=cursor, resources=resources) as context:
            context._code_location_origin = origin  # type: ignore[assignment]
            return sensor.evaluate_tick(context)

    return evaluate


def _land(home: Path, day: date) -> None:
    folder = Settings.at(home).landing / "sales" / str(day)
    folder.mkdir(parents=True)
    (folder / "part.jsonl.gz").touch()


def test_partitions_that_end_with_the_data_stay(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """It is on from the start, and costs a listing of names."""
    _land(tmp_path, END)
    assert tick().skip_message == "Dagster shows what is."
    assert reloads == []


def test_a_later_day_has_the_code_location_loaded_again_once(tick: Tick, tmp_path: Path, reloads: list[object]) -> None:
    """Web server and daemon see the server that follows; one that stays as it is is not asked again for ever."""
    _land(tmp_path, date(2017, 6, 5))
    first = tick()
    assert first.skip_message == (
        "The data ends elsewhere now: small on 2017-06-05. The code location is being loaded again."
    )
    assert len(reloads) == 1
    assert "press Reload" in str(tick(first.cursor).skip_message)
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
    assert ends_of_data(SMALL_CATALOG, Settings.at(tmp_path)) is None
    assert "cannot be read" in str(tick().skip_message)
    assert reloads == []
