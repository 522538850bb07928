"""Dagster's partition status must say what was published, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from backfill_assets.defs.location import code_location
from backfill_assets.defs.specs import FORCE_TAG, REPAIR_TAG, VERSION_TAG
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.environment import git_commit
from backfill_assets_tests.defs.conftest import FIRST_DAY, Run, evaluated, materialized, range_tags, run_range
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG, TABLES

DAYS, DAY_KEYS = "2017-03-01..2017-03-03", ["2017-03-01", "2017-03-02", "2017-03-03"]
BAD_DAY = date(2017, 3, 3)


def _events(instance: dg.DagsterInstance, table: str, day: str) -> list[dg.AssetMaterialization]:
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey(table), asset_partitions=[day]), limit=10
    )
    return [record.asset_materialization for record in records.records if record.asset_materialization]


def _failed_partitions(instance: dg.DagsterInstance, table: str) -> set[str]:
    partitions = dg.DailyPartitionsDefinition(start_date=FIRST_DAY.isoformat())
    status = get_and_update_asset_status_cache_value(instance, dg.AssetKey(table), partitions, instance)
    return set(status.deserialize_failed_partition_subsets(partitions).get_partition_keys()) if status else set()


@dataclass(frozen=True)
class Ran:
    """A run of the whole chain for the days, and the instance that it ran on."""

    instance: dg.DagsterInstance
    result: dg.ExecuteInProcessResult
    builder: FakeBuilder


@contextmanager
def _ran(builder: FakeBuilder, **tags: str) -> Iterator[Ran]:
    location = code_location(SMALL_CATALOG, fake_resources(builder))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Ran(instance, run_range(location, instance, DAYS, tags=tags), builder)


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    """Launched by a backfill; a source brought late rows for days before."""
    late = {"raw_sales": (date(2017, 2, 25), date(2017, 2, 26), date(2017, 2, 28))}
    with _ran(FakeBuilder(late=late), **{"dagster/backfill": "abcdefgh"}) as found:
        yield found


@pytest.fixture(scope="module")
def failed() -> Iterator[Ran]:
    """A gate of one table failed on one day."""
    with _ran(FakeBuilder(failing={"bronze_sales": [BAD_DAY]})) as found:
        yield found


def test_a_range_materializes_every_day_of_every_table(ran: Ran) -> None:
    """One run carries the chain for a range, and each (table, day) gets its own status."""
    assert ran.result.success
    for table in TABLES:
        assert materialized(ran.instance, table) == DAY_KEYS


def test_each_day_carries_its_own_numbers(ran: Ran) -> None:
    """Metadata of a ranged run is per day: the row count of one day must not be shown for another."""
    for day, rows in (("2017-03-02", 2), ("2017-03-03", 3)):
        (event,) = _events(ran.instance, "bronze_sales", day)
        assert event.metadata["dagster/partition_row_count"].value == rows
        assert event.metadata["accounting"].value == f"received {rows}"
        assert event.metadata["publication"].value == "publication-of-bronze_sales"
        details = event.metadata["details"].value
        assert isinstance(details, dict) and details["input_versions"] == {"upstream": 1}


def test_checks_are_evaluated_per_day_against_the_new_materialization(ran: Ran) -> None:
    """Evaluations that come before the materialization leave the partition view of a check empty."""
    run_id = ran.result.run_id
    evaluations = evaluated(ran.instance, run_id, "quarantine_sales", "contract_holds")
    assert [each.partition for each in evaluations] == DAY_KEYS
    targets = [each.target_materialization_data for each in evaluations if each.passed]
    assert [target.run_id for target in targets if target] == [run_id] * len(DAY_KEYS)


def test_a_published_day_is_fresh_and_its_watchdog_has_not_looked(ran: Ran) -> None:
    """Each check of the rules, and that it is built from what is published; the watchdog has a job of its own."""
    found = evaluated(ran.instance, ran.result.run_id, "bronze_sales")
    of_day = {each.check_name: each.passed for each in found if each.partition == "2017-03-01"}
    assert of_day == {"contract_holds": True, "keys_unique": True, "fresh": True}


def test_days_outside_the_run_that_got_late_rows_are_named_on_the_run(ran: Ran) -> None:
    """Those days have no event in this run: its log names them."""
    (warning,) = _messages(ran.instance, ran.result.run_id, logging.WARNING)
    assert "raw_sales: late rows were appended to 2017-02-25..2017-02-26, 2017-02-28." in warning


def test_a_publication_records_who_launched_it(ran: Ran) -> None:
    """A year later the publication log must lead back to the run and to the backfill behind it."""
    info = ran.builder.runs[-1]
    assert (info.run_id, info.launched_by) == (ran.result.run_id, "backfill abcdefgh")
    assert info.git_commit == git_commit() != ""


def test_the_newest_materialization_says_where_each_column_comes_from(ran: Ran) -> None:
    """Dagster draws column lineage from it; ninety copies of it a range would only fill the event log."""
    events = [_events(ran.instance, "fact_daily_revenue", day)[0] for day in DAY_KEYS]
    *others, shown = (event.metadata.get("dagster/column_lineage") for event in events)
    assert others == [None, None]
    assert isinstance(shown, dg.TableColumnLineageMetadataValue)
    (origin,) = shown.column_lineage.deps_by_column["amount"]
    assert (origin.asset_key, origin.column_name) == (dg.AssetKey("fact_sales_transactions"), "amount")


def test_a_failed_gate_materializes_nothing_of_the_step(failed: Ran) -> None:
    """A run publishes all of its days of a table or none, so Dagster must not show two of three as there."""
    assert not failed.result.success
    for table in ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue"):
        assert materialized(failed.instance, table) == []
    for table in ("raw_sales", "raw_fx_rates", "bronze_fx_rates"):
        assert materialized(failed.instance, table) == DAY_KEYS
    assert _failed_partitions(failed.instance, "bronze_sales") == set(DAY_KEYS)


def test_a_failed_gate_is_evaluated_for_the_failed_day_only(failed: Ran) -> None:
    """The other days were not published: a green gate on them would speak about data that is not there."""
    found = evaluated(failed.instance, failed.result.run_id, "bronze_sales")
    assert [(each.check_name, each.partition, each.passed) for each in found] == [
        ("contract_holds", "2017-03-03", True),
        ("keys_unique", "2017-03-03", False),
    ]
    assert all(each.target_materialization_data is None for each in found)
    assert evaluated(failed.instance, failed.result.run_id, "quarantine_sales") == []


def test_the_failure_names_day_rule_and_next_step(failed: Ran) -> None:
    """Who reads only the run's error must know what to look at."""
    message = str(failed.result.failure_data_for_node("bronze_sales"))
    for part in ("bronze_sales", "2017-03-03", "keys_unique", "6 rows, expected 7 rows", "nothing was published"):
        assert part in message
    assert "Look at the quarantine of that day." in message


def test_what_was_published_before_stays_when_a_later_attempt_fails(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """FAILED means that the last attempt published nothing, not that the days are gone."""
    bronze = ("bronze_sales", "quarantine_sales")
    run(DAYS, *bronze)
    builder.failing = {"bronze_sales": [BAD_DAY]}
    builder.published.clear()
    run(DAYS, *bronze)
    assert len(_events(dagster_instance, "bronze_sales", "2017-03-03")) == 1
    assert "2017-03-03" in _failed_partitions(dagster_instance, "bronze_sales")
    builder.failing = {}
    assert run(DAYS, *bronze).success
    assert _failed_partitions(dagster_instance, "bronze_sales") == set()


def test_an_unchanged_day_is_materialized_as_reused(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """A targeted partition without a materialization counts as failed in a backfill, though it is published."""
    run("2017-03-01", "fact_daily_revenue")
    assert run("2017-03-01..2017-03-02", "fact_daily_revenue").success
    newest, _ = _events(dagster_instance, "fact_daily_revenue", "2017-03-01")
    assert newest.metadata["reused"].value is True
    assert "unchanged since" in str(newest.metadata["gates"].value)
    (new_day,) = _events(dagster_instance, "fact_daily_revenue", "2017-03-02")
    assert new_day.metadata["reused"].value is False


def test_force_and_version_reach_the_builder(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """A person asks by configuration for another version, or for a rebuild of unchanged days.

    A backfill has one configuration for no asset at all, and tags for all of them; configuration comes first.
    """
    as_published = {VERSION_TAG: AS_PUBLISHED}
    run("2017-03-01", "fact_daily_revenue", tags=as_published)
    assert builder.versions == [AS_PUBLISHED]
    options = {"ops": {"fact_daily_revenue": {"config": {"force": True, "version": "v2"}}}}
    run("2017-03-01", "fact_daily_revenue", run_config=options, tags=as_published)
    newest, _ = _events(dagster_instance, "fact_daily_revenue", "2017-03-01")
    assert newest.metadata["reused"].value is False
    assert builder.versions[-1] == "v2"


def test_an_unknown_version_is_a_clear_failure(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """``v9`` must not fall back to the current version."""
    options = {"ops": {"fact_daily_revenue": {"config": {"version": "v9"}}}}
    result = run("2017-03-01", "fact_daily_revenue", run_config=options)
    assert "has no version 'v9'" in str(result.failure_data_for_node("fact_daily_revenue"))
    assert materialized(dagster_instance, "fact_daily_revenue") == []


def test_a_reversed_range_fails(location: dg.Definitions, dagster_instance: dg.DagsterInstance) -> None:
    """Dagster takes it for a range without partitions and calls the run a success."""
    reversed_range = range_tags("2017-03-05", "2017-03-01")
    result = run_range(location, dagster_instance, DAYS, "raw_sales", tags=reversed_range)
    assert not result.success
    assert "2017-03-05...2017-03-01 has no day" in str(result.failure_data_for_node("raw_sales"))


def _messages(instance: dg.DagsterInstance, run: str, level: int) -> list[str]:
    logs = instance.all_logs(run)
    return [entry.user_message for entry in logs if entry.level == level and entry.dagster_event is None]


def test_a_run_that_builds_over_a_rollback_says_so(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """A person put these days back; who reads the log or the day's page must learn that it was undone, and by which."""
    builder.rolled_back = {("fact_daily_revenue", date(2017, 3, day)): "undo" for day in (1, 2)}
    result = run("2017-03-01..2017-03-03", "fact_daily_revenue")
    (warning,) = _messages(dagster_instance, result.run_id, logging.WARNING)
    assert warning.startswith("fact_daily_revenue: 2017-03-01..2017-03-02 had been rolled back by undo; this run has")
    shown = [_events(dagster_instance, "fact_daily_revenue", f"2017-03-0{n}")[0].metadata for n in (1, 3)]
    assert [str(each["built over the rollback"].value) for each in shown[:1]] == ["undo"]
    assert "built over the rollback" not in shown[1]


def test_a_run_shows_which_days_are_closed_by_whom_and_why(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """One was built before, and stays as it was; of the other nothing is there to be judged."""
    builder.closed = {date(2017, 3, 1): True, date(2017, 3, 2): False}
    result = run(DAYS, "fact_daily_revenue")
    said = "closed by ana on 2017-05-02: reported"
    warnings = _messages(dagster_instance, result.run_id, logging.WARNING)
    assert warnings == [f"fact_daily_revenue: 2017-03-01..2017-03-02 is {said}. This run leaves it as it is."]
    found = evaluated(dagster_instance, result.run_id, "fact_daily_revenue")
    fresh = {each.partition: (each.passed, each.description) for each in found if each.check_name == "fresh"}
    assert fresh["2017-03-01"] == (False, "closed: by ana on 2017-05-02: reported")
    assert fresh["2017-03-02"] == (False, f"Nothing is published for this day: it is {said}")
    shown = [_events(dagster_instance, "fact_daily_revenue", f"2017-03-0{n}")[0].metadata for n in (1, 2)]
    assert shown[0]["closed"].value == "by ana on 2017-05-02: reported"
    assert shown[1]["gates"].value == f"nothing to judge: it was never built, and is {said}"


def test_a_repair_shows_what_it_leaves_to_a_rollback(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """A day that was put back is stale by then, and of one that was taken away nothing is there to be judged.

    A person who forces the same run has the days built all the same.
    """
    builder.held = {("fact_daily_revenue", date(2017, 3, 1)): True, ("fact_daily_revenue", date(2017, 3, 2)): False}
    repair = {REPAIR_TAG: "late_rows", FORCE_TAG: "watchdog"}
    result = run(DAYS, "fact_daily_revenue", tags=repair)
    (warning,) = _messages(dagster_instance, result.run_id, logging.WARNING)
    said = "fact_daily_revenue: 2017-03-01..2017-03-02 had been rolled back by undo, and this repair leaves them so."
    assert warning == said
    found = evaluated(dagster_instance, result.run_id, "fact_daily_revenue")
    fresh = {each.partition: (each.passed, each.description) for each in found if each.check_name == "fresh"}
    assert fresh["2017-03-01"] == (False, "rolled back; the sensor repairs says what next")
    assert fresh["2017-03-02"] == (False, "Nothing is published for this day since undo withdrew it. Build it again.")
    assert fresh["2017-03-03"][0]
    gates = {each.description for each in found if each.partition == "2017-03-02" and each.check_name != "fresh"}
    assert gates == {"nothing to judge: undo withdrew the day"}
    shown = [_events(dagster_instance, "fact_daily_revenue", f"2017-03-0{n}")[0].metadata for n in (1, 2)]
    assert shown[0]["left to the rollback"].value == "undo"
    assert {shown[1]["gates"].value} == gates and shown[1]["publication"].value == "undo"
    forced = {"ops": {"fact_daily_revenue": {"config": {"force": True}}}}
    run("2017-03-01", "fact_daily_revenue", run_config=forced, tags=repair)
    newest, *_ = _events(dagster_instance, "fact_daily_revenue", "2017-03-01")
    assert newest.metadata["reused"].value is False


def test_each_table_is_a_line_in_the_log(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """The events of each day are for the UI."""
    run("2017-03-01", "fact_daily_revenue")
    result = run("2017-03-01..2017-03-03", "fact_daily_revenue")
    lines = _messages(dagster_instance, result.run_id, logging.INFO)
    assert lines[-1] == (
        "fact_daily_revenue: published 2017-03-02..2017-03-03 by publication-of-fact_daily_revenue; 1 of 3 unchanged"
        "; by v2"
    )
