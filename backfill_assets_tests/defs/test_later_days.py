"""Dagster is told which later days use the rows of a table: before a range is launched, and after it was built."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from backfill_assets.defs.later_days import LATER_DAYS, STALE_LATER_DAYS
from backfill_assets.defs.location import code_location
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_chain import publish_chain, publish_step
from backfill_assets_tests.defs.small_dataset import SMALL
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.story

RATES, FACT = "bronze_fx_rates", "fact_sales_transactions"
DAY, LAST = "2017-03-04", "2017-03-06"


@pytest.fixture
def lakehouse(tmp_path: Path) -> SmallLakehouse:
    """Three days of everything."""
    found = SmallLakehouse(tmp_path / "lakehouse")
    publish_chain(found, "p", [DAY, "2017-03-05", LAST])
    return found


@pytest.fixture
def defs(lakehouse: SmallLakehouse, tmp_path: Path) -> dg.Definitions:
    return code_location([SMALL], fake_resources(FakeBuilder(), tmp_path))


def ran(defs: dg.Definitions, instance: dg.DagsterInstance, *tables: str) -> dg.ExecuteInProcessResult:
    """The fake builder says that it has built DAY; what is published was published before."""
    return defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        tags={ASSET_PARTITION_RANGE_START_TAG: DAY, ASSET_PARTITION_RANGE_END_TAG: DAY},
        asset_selection=[dg.AssetKey(table) for table in tables],
    )


def told(result: dg.ExecuteInProcessResult, table: str) -> str:
    (event,) = result.asset_materializations_for_node(table)
    found = event.metadata.get(STALE_LATER_DAYS)
    return str(found.value) if found else ""


def test_a_table_says_where_it_is_launched_that_later_days_use_it(defs: dg.Definitions) -> None:
    """How long, who, and the command that builds them at once."""
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    for table in ("raw_fx_rates", RATES):
        description, metadata = str(specs[table].description), specs[table].metadata[LATER_DAYS]
        assert f"Days up to 7 days later use these rows as well: `{FACT}` looks back" in description
        assert f"`backfill run {table} --downstream --days A..B`" in description
        assert str(metadata.value) in description
    for table in ("raw_sales", "bronze_sales", FACT):
        assert LATER_DAYS not in specs[table].metadata and "days later" not in str(specs[table].description)


def test_a_run_says_which_later_days_it_leaves_stale(
    defs: dg.Definitions, lakehouse: SmallLakehouse, tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """Each with the command; those that the same run builds are not among them."""
    assert told(ran(defs, dagster_instance, RATES), RATES) == "", "nothing has changed"
    publish_step(lakehouse, "corrected", SMALL.step_of(RATES), {DAY: 3})
    defs = code_location([SMALL], fake_resources(FakeBuilder(), tmp_path))
    alone = told(ran(defs, dagster_instance, RATES), RATES)
    assert f"{FACT} {DAY}..{LAST} use the rows of this day and are stale now" in alone
    assert f'backfill run {FACT} --downstream --version "as published" --days {DAY}..{LAST}' in alone
    defs = code_location([SMALL], fake_resources(FakeBuilder(), tmp_path))
    together = told(ran(defs, dagster_instance, RATES, FACT, "fact_daily_revenue"), RATES)
    assert f"{FACT} 2017-03-05..{LAST} use" in together


def test_a_reused_day_has_made_nothing_stale(
    defs: dg.Definitions, lakehouse: SmallLakehouse, dagster_instance: dg.DagsterInstance
) -> None:
    """What is stale then, was stale before: the run that changed it has told it."""
    ran(defs, dagster_instance, RATES)
    publish_step(lakehouse, "corrected", SMALL.step_of(RATES), {DAY: 3})
    assert told(ran(defs, dagster_instance, RATES), RATES) == ""
