"""Partitions begin where data begins; days before that are looked back to, and come with the first partition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value
from dagster_shared.serdes import deserialize_value, serialize_value

from backfill_assets.days import Cadence, DayRange
from backfill_assets.defs.location import code_location
from backfill_assets.defs.look_back import EARLIER_TAG, earlier_days_of, earlier_days_tag
from backfill_assets.defs.partitions import Chain, PartitionedTables
from backfill_assets.defs.under_way import busy_days, days_of_backfill, launch_backfill
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.data_days import DataDays
from backfill_assets_tests.defs.conftest import materialized, run_range, target_of
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG

FIRST, LAST = date(2017, 3, 1), date(2017, 5, 29)
DATA = {"small": DataDays(FIRST, LAST)}
TABLES = PartitionedTables(SMALL_CATALOG, DATA)
EARLIER = (date(2017, 2, 26), date(2017, 2, 27), date(2017, 2, 28))
RATES = ("raw_fx_rates", "bronze_fx_rates")


@pytest.fixture
def begun(builder: FakeBuilder) -> dg.Definitions:
    return code_location(SMALL_CATALOG, fake_resources(builder), data=DATA)


def test_partitions_begin_where_data_begins() -> None:
    """`Failed and missing` launches all of them that are not built: a day that never landed would fail for ever."""
    retail = PartitionedTables(CATALOG, dict.fromkeys(("fx_rates", "products", "sales"), DataDays(FIRST, LAST)))
    begin = {name: str(each.get_first_partition_key()) for name, each in retail.by_table.items()}
    assert begin.pop("report_store_ranking") == "2017-02-27" and begin.pop("report_monthly_close") == "2017-03-01"
    assert begin.pop("raw_sea_temperatures") == "2016-02-15", "nothing has landed: as it is declared"
    assert {first for name, first in begin.items() if "sea_temperature" not in name} == {"2017-03-01"}
    assert len(retail.by_table["fact_daily_revenue"].get_partition_keys()) == len(DayRange(FIRST, LAST))


def test_a_chain_begins_as_one_so_that_one_run_carries_it(begun: dg.Definitions) -> None:
    """Dagster puts a child into its parent's run only if both have equal partitions: rates begin with the sales."""
    graph = begun.resolve_asset_graph()
    assert len({graph.get(dg.AssetKey(table)).partitions_def for table in (*RATES, "fact_daily_revenue")}) == 1


def test_days_that_are_looked_back_to_are_built_without_a_partition() -> None:
    """As far as any version looks back; of what is not looked back to, nothing is made before the first day."""
    retail = PartitionedTables(CATALOG, dict.fromkeys(("fx_rates", "products", "sales"), DataDays(FIRST, LAST)))
    for table, first in (
        *((f"{layer}_fx_rates", date(2017, 2, 21)) for layer in ("raw", "bronze", "quarantine")),
        *((f"{layer}_products", date(2017, 1, 25)) for layer in ("raw", "bronze", "quarantine")),
    ):
        days = [day for day in DayRange(date(2017, 1, 1), FIRST) if retail.builds(table, day)]
        assert days == list(DayRange(first, FIRST))
        assert not retail.has(table, days[-2]) and retail.has(table, FIRST)
    assert not retail.builds("bronze_sales", EARLIER[-1]) and not retail.builds("fact_daily_revenue", EARLIER[-1])
    assert not retail.builds("bronze_fx_rates", date(2017, 5, 30)), "after the data"


@pytest.mark.parametrize("cadence", list(Cadence))
def test_a_backfill_under_way_goes_on_when_partitions_begin_elsewhere(cadence: Cadence) -> None:
    """It was launched before the data had landed, or older history has landed since."""
    declared, begun, older = (
        Chain(start, last=LAST).partitions[cadence] for start in (date(2016, 12, 24), FIRST, date(2017, 1, 5))
    )
    for before, after in ((declared, begun), (begun, older), (older, begun)):
        target: Any = before.subset_with_partition_keys(begun.get_partition_keys()[:3]).to_serializable_subset()
        kept: Any = deserialize_value(serialize_value(target))
        there = after.subset_with_all_partitions() & kept
        assert list(there.get_partition_keys()) == begun.get_partition_keys()[:3]
        assert len(kept - there) == 0


def test_what_was_materialized_before_the_first_partition_breaks_nothing(dagster_instance: dg.DagsterInstance) -> None:
    """An instance that has known partitions from the declared first day on: only those that there are count."""
    before = code_location(SMALL_CATALOG, fake_resources(FakeBuilder()))
    assert run_range(before, dagster_instance, "2017-02-27..2017-03-02").success
    key, partitions = dg.AssetKey("bronze_fx_rates"), TABLES.by_table["bronze_fx_rates"]
    cached = get_and_update_asset_status_cache_value(dagster_instance, key, partitions, dagster_instance)
    assert cached
    assert list(cached.deserialize_materialized_partition_subsets(partitions).get_partition_keys()) == [
        "2017-03-01",
        "2017-03-02",
    ]


# ------------------------------------------------------------------ days before the first partition


def test_the_tag_says_days_by_table() -> None:
    """People read it on the run's page."""
    tag = earlier_days_tag({"raw_fx_rates": {EARLIER[0], *EARLIER[1:]}, "bronze_fx_rates": {EARLIER[0], EARLIER[2]}})
    assert tag == {EARLIER_TAG: "raw_fx_rates 2017-02-26..2017-02-28; bronze_fx_rates 2017-02-26, 2017-02-28"}
    assert earlier_days_of(tag, "raw_fx_rates") == set(EARLIER)
    assert earlier_days_of(tag, "bronze_fx_rates") == {EARLIER[0], EARLIER[2]}
    assert earlier_days_of(tag, "raw_fx") == set() == earlier_days_of({}, "raw_fx_rates")
    assert earlier_days_tag({}) == {}


def _launch(instance: dg.DagsterInstance, defs: dg.Definitions, days: Mapping[str, Any]) -> Any:
    earlier = TABLES.without_partition(days)
    launched = launch_backfill(instance, defs.resolve_asset_graph(), days, title="Rates", earlier=earlier)
    return instance.get_backfill(launched)


def test_earlier_days_are_launched_with_the_first_partition(
    dagster_instance: dg.DagsterInstance, begun: dg.Definitions
) -> None:
    """Whoever asks what is under way is told of them, too; an earlier day that nobody has named is a mistake."""
    days = {"raw_fx_rates": EARLIER, "bronze_fx_rates": (*EARLIER, FIRST, LAST), "fact_daily_revenue": (FIRST,)}
    backfill = _launch(dagster_instance, begun, days)
    assert target_of(backfill) == {
        "raw_fx_rates": {"2017-03-01"},
        "bronze_fx_rates": {"2017-03-01", "2017-05-29"},
        "fact_daily_revenue": {"2017-03-01"},
    }
    writes = days_of_backfill(backfill, set(days))
    assert writes["raw_fx_rates"] == frozenset({*EARLIER, FIRST}) and writes["fact_daily_revenue"] == frozenset({FIRST})
    assert busy_days(dagster_instance, set(days))["raw_fx_rates"][0].may_write([EARLIER[0]])
    with pytest.raises(InvalidRequest, match="has no partition 2017-02-2"):
        launch_backfill(dagster_instance, begun.resolve_asset_graph(), days, title="By mistake")


def test_the_run_of_the_first_partition_builds_them(
    dagster_instance: dg.DagsterInstance, begun: dg.Definitions, builder: FakeBuilder
) -> None:
    """Once, however many runs the backfill has. Dagster shows the days that have a partition, and all verdicts."""
    tags = earlier_days_tag(dict.fromkeys(RATES, EARLIER))
    assert run_range(begun, dagster_instance, "2017-03-02..2017-03-03", *RATES, tags=tags).success
    assert {day for _, day in builder.published} == {date(2017, 3, 2), date(2017, 3, 3)}
    assert run_range(begun, dagster_instance, "2017-03-01..2017-03-01", *RATES, tags=tags).success
    assert {day for _, day in builder.published} == {*EARLIER, *DayRange.parse("2017-03-01..2017-03-03")}
    assert materialized(dagster_instance, "bronze_fx_rates") == ["2017-03-01", "2017-03-02", "2017-03-03"]
