"""Dagster's partition status must say what was published, and nothing else."""

from __future__ import annotations

import logging
from datetime import date

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from backfill_assets.defs.specs import VERSION_TAG
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.environment import git_commit
from backfill_assets_tests.defs.conftest import FIRST_DAY, Run, evaluated, materialized
from backfill_assets_tests.defs.fake_builder import FakeBuilder
from backfill_assets_tests.defs.small_dataset import TABLES

pytestmark = pytest.mark.story

DAYS = "2017-03-01..2017-03-05"
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


def test_a_range_materializes_every_day_of_every_table(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """One run carries the chain for a range, and each (table, day) gets its own status."""
    assert run(DAYS).success
    for table in TABLES:
        assert materialized(dagster_instance, table) == [f"2017-03-0{n}" for n in range(1, 6)]


def test_each_day_carries_its_own_numbers(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """Metadata of a ranged run is per day: the row count of one day must not be shown for another."""
    run(DAYS)
    for day, rows in (("2017-03-02", 2), ("2017-03-05", 5)):
        (event,) = _events(dagster_instance, "bronze_sales", day)
        assert event.metadata["dagster/partition_row_count"].value == rows
        assert event.metadata["received"].value == rows
        assert event.metadata["publication"].value == "publication-of-bronze_sales"
        assert event.metadata["input_versions"].value == {"upstream": 1}


def test_checks_are_evaluated_per_day_against_the_new_materialization(
    run: Run, dagster_instance: dg.DagsterInstance
) -> None:
    """Evaluations that come before the materialization leave the partition view of a check empty."""
    result = run(DAYS)
    evaluations = evaluated(dagster_instance, result.run_id, "quarantine_sales", "contract_holds")
    assert [e.partition for e in evaluations] == [f"2017-03-0{n}" for n in range(1, 6)]
    assert all(e.passed and e.target_materialization_data for e in evaluations)
    assert {e.target_materialization_data.run_id for e in evaluations if e.target_materialization_data} == {
        result.run_id
    }


def test_a_failed_gate_materializes_nothing_of_the_step(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """A run publishes all of its days of a table or none, so Dagster must not show four of five as there."""
    builder.failing = {"quarantine_sales": [BAD_DAY]}
    assert not run(DAYS).success
    for table in ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue"):
        assert materialized(dagster_instance, table) == []
    for table in ("raw_sales", "raw_fx_rates", "bronze_fx_rates"):
        assert len(materialized(dagster_instance, table)) == 5
    assert _failed_partitions(dagster_instance, "bronze_sales") == {f"2017-03-0{n}" for n in range(1, 6)}


def test_a_published_day_is_fresh_and_its_watchdog_has_not_looked(
    run: Run, dagster_instance: dg.DagsterInstance
) -> None:
    """Each check of the rules, and that it is built from what is published; the watchdog has a job of its own."""
    result = run("2017-03-01")
    found = {each.check_name: each.passed for each in evaluated(dagster_instance, result.run_id, "bronze_sales")}
    assert found == {"contract_holds": True, "keys_unique": True, "fresh": True}


def test_a_failed_gate_is_evaluated_for_the_failed_day_only(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """The other days were not published: a green gate on them would speak about data that is not there."""
    builder.failing = {"bronze_sales": [BAD_DAY]}
    result = run(DAYS)
    found = evaluated(dagster_instance, result.run_id, "bronze_sales")
    assert [(each.check_name, each.partition, each.passed) for each in found] == [
        ("contract_holds", "2017-03-03", True),
        ("keys_unique", "2017-03-03", False),
    ]
    assert all(each.target_materialization_data is None for each in found)
    assert evaluated(dagster_instance, result.run_id, "quarantine_sales") == []


def test_the_failure_names_day_rule_and_next_step(run: Run, builder: FakeBuilder) -> None:
    """Who reads only the run's error must know what to look at."""
    builder.failing = {"bronze_sales": [BAD_DAY]}
    message = str(run(DAYS).failure_data_for_node("bronze_sales"))
    for part in ("bronze_sales", "2017-03-03", "keys_unique", "6 rows, expected 7 rows", "nothing was published"):
        assert part in message
    assert "Look at the quarantine of that day." in message


def test_what_was_published_before_stays_when_a_later_attempt_fails(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """FAILED means that the last attempt published nothing, not that the days are gone."""
    run(DAYS)
    builder.failing = {"bronze_sales": [BAD_DAY]}
    builder.published.clear()
    run(DAYS)
    assert len(_events(dagster_instance, "bronze_sales", "2017-03-03")) == 1
    assert "2017-03-03" in _failed_partitions(dagster_instance, "bronze_sales")
    builder.failing = {}
    assert run(DAYS).success
    assert _failed_partitions(dagster_instance, "bronze_sales") == set()


def test_an_unchanged_day_is_materialized_as_reused(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """A targeted partition without a materialization counts as failed in a backfill, though it is published."""
    run("2017-03-01")
    assert run("2017-03-01..2017-03-02").success
    newest, _ = _events(dagster_instance, "fact_daily_revenue", "2017-03-01")
    assert newest.metadata["reused"].value is True
    assert "unchanged since" in str(newest.metadata["gates"].value)
    (new_day,) = _events(dagster_instance, "fact_daily_revenue", "2017-03-02")
    assert new_day.metadata["reused"].value is False


def test_force_and_version_reach_the_builder(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """The run configuration is how a person asks for another version, or for a rebuild of unchanged days."""
    run("2017-03-01")
    options = {"ops": {"fact_daily_revenue": {"config": {"force": True, "version": "v2"}}}}
    run("2017-03-01", "fact_daily_revenue", run_config=options)
    newest, _ = _events(dagster_instance, "fact_daily_revenue", "2017-03-01")
    assert newest.metadata["reused"].value is False
    assert builder.versions[-1] == "v2"


def test_a_tag_asks_for_the_version_that_each_day_was_published_with(run: Run, builder: FakeBuilder) -> None:
    """A backfill has one configuration for no asset at all, and tags for all of them; configuration comes first."""
    run("2017-03-01", tags={VERSION_TAG: AS_PUBLISHED})
    assert set(builder.versions) == {AS_PUBLISHED}
    options = {"ops": {"fact_daily_revenue": {"config": {"version": "v2"}}}}
    run("2017-03-01", "fact_daily_revenue", run_config=options, tags={VERSION_TAG: AS_PUBLISHED})
    assert builder.versions[-1] == "v2"


def test_an_unknown_version_is_a_clear_failure(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """``v9`` must not fall back to the current version."""
    options = {"ops": {"fact_daily_revenue": {"config": {"version": "v9"}}}}
    result = run("2017-03-01", "fact_daily_revenue", run_config=options)
    assert "has no version 'v9'" in str(result.failure_data_for_node("fact_daily_revenue"))
    assert materialized(dagster_instance, "fact_daily_revenue") == []


def test_a_reversed_range_fails(location: dg.Definitions, dagster_instance: dg.DagsterInstance) -> None:
    """Dagster takes it for a range without partitions and calls the run a success."""
    result = location.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=dagster_instance,
        tags={
            "dagster/asset_partition_range_start": "2017-03-05",
            "dagster/asset_partition_range_end": "2017-03-01",
        },
        asset_selection=[dg.AssetKey("raw_sales")],
        raise_on_error=False,
    )
    assert not result.success
    assert "2017-03-05...2017-03-01 has no day" in str(result.failure_data_for_node("raw_sales"))


def test_days_outside_the_run_that_got_late_rows_are_named_on_the_run(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """Those days have no event in this run: its log names them."""
    builder.late = {"raw_sales": (date(2017, 2, 25), date(2017, 2, 26), date(2017, 2, 28))}
    result = run(DAYS)
    (warning,) = _messages(dagster_instance, result.run_id, logging.WARNING)
    assert "raw_sales: late rows were appended to 2017-02-25..2017-02-26, 2017-02-28." in warning
    assert materialized(dagster_instance, "raw_sales")[0] == "2017-03-01"


def _messages(instance: dg.DagsterInstance, run: str, level: int) -> list[str]:
    logs = instance.all_logs(run)
    return [entry.user_message for entry in logs if entry.level == level and entry.dagster_event is None]


def test_a_run_that_builds_over_a_rollback_says_so(
    run: Run, builder: FakeBuilder, dagster_instance: dg.DagsterInstance
) -> None:
    """A person put these days back; who reads the log or the day's page must learn that it was undone, and by which."""
    days = [date(2017, 3, 1), date(2017, 3, 2)]
    builder.rolled_back = {("fact_daily_revenue", day): "undo" for day in days}
    result = run("2017-03-01..2017-03-03", "fact_daily_revenue")
    (warning,) = _messages(dagster_instance, result.run_id, logging.WARNING)
    assert warning.startswith("fact_daily_revenue: 2017-03-01..2017-03-02 had been rolled back by undo; this run has")
    shown = [_events(dagster_instance, "fact_daily_revenue", f"2017-03-0{n}")[0].metadata for n in (1, 3)]
    assert [str(each["built over the rollback"].value) for each in shown[:1]] == ["undo"]
    assert "built over the rollback" not in shown[1]


def test_each_table_is_a_line_in_the_log(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """The events of each day are for the UI."""
    run("2017-03-01", "fact_daily_revenue")
    result = run("2017-03-01..2017-03-03", "fact_daily_revenue")
    lines = _messages(dagster_instance, result.run_id, logging.INFO)
    assert lines[-1] == (
        "fact_daily_revenue: published 2017-03-02..2017-03-03 by publication-of-fact_daily_revenue; 1 of 3 unchanged"
        "; by v2"
    )


def test_a_publication_records_who_launched_it(run: Run, builder: FakeBuilder) -> None:
    """A year later the publication log must lead back to the run and to the backfill behind it."""
    result = run("2017-03-01", tags={"dagster/backfill": "abcdefgh"})
    info = builder.runs[-1]
    assert (info.run_id, info.launched_by) == (result.run_id, "backfill abcdefgh")
    assert info.git_commit == git_commit() != ""


def test_the_newest_materialization_says_where_each_column_comes_from(
    run: Run, dagster_instance: dg.DagsterInstance
) -> None:
    """Dagster draws column lineage from it; ninety copies of it a range would only fill the event log."""
    run("2017-03-01..2017-03-03")
    table = dg.AssetKey("fact_daily_revenue")
    records = dagster_instance.fetch_materializations(dg.AssetRecordsFilter(table), limit=10).records
    lineages = {
        str(record.partition_key): record.asset_materialization.metadata.get("dagster/column_lineage")
        for record in records
        if record.asset_materialization
    }
    assert set(lineages) == {"2017-03-01", "2017-03-02", "2017-03-03"}
    assert lineages["2017-03-01"] is lineages["2017-03-02"] is None
    shown = lineages["2017-03-03"]
    assert isinstance(shown, dg.TableColumnLineageMetadataValue)
    (origin,) = shown.column_lineage.deps_by_column["amount"]
    assert (origin.asset_key, origin.column_name) == (dg.AssetKey("fact_sales_transactions"), "amount")
