"""A company's own asset below a table of ours has the table's days, by a name that does not change."""

from __future__ import annotations

import dagster as dg
import pytest

from backfill_assets.defs.location import partitions_of
from backfill_assets.errors import InvalidRequest
from backfill_assets_tests.defs.company_asset import defs, invoices, ours
from backfill_assets_tests.defs.conftest import materialized

DAY = "2017-03-01"
TABLE = "fact_daily_revenue"


def test_a_day_of_it_is_materialized_in_one_run_with_the_table() -> None:
    """Both have one partition key, and the asset waits for the table."""
    with dg.DagsterInstance.ephemeral() as instance:
        job = defs.resolve_implicit_global_asset_job_def()
        keys = [dg.AssetKey(TABLE), invoices.key]
        done = job.execute_in_process(instance=instance, asset_selection=keys, partition_key=DAY)
        assert done.success
        assert materialized(instance, TABLE) == materialized(instance, "invoices") == [DAY]


def test_each_day_reads_the_same_day_of_the_table() -> None:
    graph = defs.resolve_asset_graph()
    days = partitions_of(ours, TABLE)
    assert graph.get(invoices.key).partitions_def is days is graph.get(dg.AssetKey(TABLE)).partitions_def
    mapping = graph.get_partition_mapping(invoices.key, dg.AssetKey(TABLE))
    chosen = days.subset_with_partition_keys([DAY])
    read = mapping.get_upstream_mapped_partitions_result_for_partitions(chosen, days, days)
    assert list(read.partitions_subset.get_partition_keys()) == [DAY]


def test_weeks_and_months_have_theirs() -> None:
    from backfill_assets.definitions import defs as examples

    assert isinstance(partitions_of(examples, "report_store_ranking"), dg.WeeklyPartitionsDefinition)


def test_a_table_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidRequest, match="Did you mean fact_daily_revenue"):
        partitions_of(ours, "fact_daily_revenu")
    with pytest.raises(InvalidRequest, match="no table 'start_here'"):
        partitions_of(ours, "start_here")
