"""A run in Dagster builds the days that its own look back to, if nobody has built them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from backfill_assets.defs.location import code_location
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_chain import publish_chain
from backfill_assets_tests.defs.small_dataset import SMALL, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.story

FRIDAY, SATURDAY, SUNDAY, TUESDAY = (date(2017, 3, day) for day in (3, 4, 5, 7))
RATES = ("raw_fx_rates", "bronze_fx_rates")


def ran(home: Path, instance: dg.DagsterInstance, *tables: str, fake: FakeBuilder | None = None) -> FakeBuilder:
    """Sunday to Tuesday of ``tables``; rates have landed on Friday and Saturday."""
    for day in (FRIDAY, SATURDAY):
        file = home / "landing" / "fx_rates" / str(day) / "rates.jsonl.gz"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"")
    builder = fake or FakeBuilder()
    defs = code_location([SMALL], fake_resources(builder, home))
    defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        tags={ASSET_PARTITION_RANGE_START_TAG: str(SUNDAY), ASSET_PARTITION_RANGE_END_TAG: str(TUESDAY)},
        asset_selection=[dg.AssetKey(table) for table in tables],
        raise_on_error=fake is None,
    )
    return builder


def earlier(builder: FakeBuilder) -> dict[str, set[date]]:
    found: dict[str, set[date]] = {}
    for table, day in builder.published:
        if day < SUNDAY:
            found.setdefault(table, set()).add(day)
    return found


def test_the_rates_of_friday_are_built_with_a_range_that_begins_on_a_sunday(
    tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """Before the run's own days; its partitions are its own days only."""
    builder = ran(tmp_path, dagster_instance, *TABLES)
    assert earlier(builder) == {table: {FRIDAY, SATURDAY} for table in RATES}
    told = dagster_instance.get_materialized_partitions(dg.AssetKey("raw_fx_rates"))
    assert told == {"2017-03-05", "2017-03-06", "2017-03-07"}


def test_days_that_are_published_are_left_alone(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> None:
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    publish_chain(lakehouse, "p", [str(FRIDAY)])
    lakehouse.publish("q", {"raw_fx_rates": {str(SATURDAY): [1]}})
    assert earlier(ran(tmp_path, dagster_instance, *TABLES)) == {"bronze_fx_rates": {SATURDAY}}


def test_a_run_that_looks_back_to_nothing_builds_its_own_days(
    tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    assert earlier(ran(tmp_path, dagster_instance, *RATES)) == {}


def test_an_earlier_day_that_fails_its_gates_fails_the_step(
    tmp_path: Path, dagster_instance: dg.DagsterInstance
) -> None:
    """It is no partition of the run, so no check is evaluated for it."""
    builder = ran(tmp_path, dagster_instance, *TABLES, fake=FakeBuilder(failing={"raw_fx_rates": [FRIDAY]}))
    assert not [day for table, day in builder.published if table == "raw_fx_rates"]
    assert dagster_instance.get_materialized_partitions(dg.AssetKey("raw_fx_rates")) == set()
