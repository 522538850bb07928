"""What the code location consists of, for the declared datasets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg
import pytest
from dagster_shared.serdes import deserialize_value, serialize_value

from backfill_assets.days import Cadence
from backfill_assets.defs.location import code_location
from backfill_assets.defs.partitions import Chain
from backfill_assets.defs.specs import CADENCE_TAG, column_schema
from backfill_assets.landing.data_days import DataDays
from backfill_assets_tests.defs.conftest import FIRST_DAY
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_CATALOG
from backfill_assets_tests.model.test_checks import EveryCheck

BY_GROUP: Mapping[str, tuple[str, ...]] = {
    "raw": ("raw_sales", "raw_fx_rates", "raw_products", "raw_sea_temperatures"),
    "bronze": (
        *("bronze_sales", "bronze_fx_rates", "bronze_products", "bronze_sea_temperatures"),
        *("quarantine_sales", "quarantine_fx_rates", "quarantine_products", "quarantine_sea_temperatures"),
    ),
    "fact": ("fact_sales_transactions", "fact_daily_revenue"),
    "reports": (
        *("report_department_revenue", "report_store_ranking"),
        *("report_monthly_close", "report_sea_temperature"),
    ),
}
GROUPS = {table: group for group, tables in BY_GROUP.items() for table in tables}
RETAIL = [table for table in GROUPS if "sea_temperature" not in table]
PERIODS = {"report_store_ranking": Cadence.WEEKLY, "report_monthly_close": Cadence.MONTHLY}


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    from backfill_assets.definitions import defs

    return defs


@pytest.fixture(scope="module")
def specs(defs: dg.Definitions) -> dict[str, dg.AssetSpec]:
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def _downstream_days(defs: dg.Definitions, parent: str, child: str, day: str) -> set[str]:
    graph = defs.resolve_asset_graph()
    chain = Chain(FIRST_DAY)
    days, periods = chain.partitions[Cadence.DAILY], chain.partitions[PERIODS.get(child, Cadence.DAILY)]
    mapping = graph.get_partition_mapping(dg.AssetKey(child), dg.AssetKey(parent))
    chosen = days.subset_with_partition_keys([day])
    found = mapping.get_downstream_partitions_for_partitions(chosen, days, periods)
    return set(found.get_partition_keys())


def test_the_names_and_groups_of_all_assets(specs: dict[str, dg.AssetSpec]) -> None:
    """A renamed asset loses its history in Dagster. By name the UI lists what to begin with first, machinery last."""
    assert {name: spec.group_name for name, spec in specs.items()} == GROUPS | {
        "campaign": "under_the_hood",
        "start_here": "begin",
        "incidents": "begin",
        "stream_sales": "under_the_hood",
        "timelines": "under_the_hood",
    }


def test_where_dagster_shows_plain_text_there_are_no_marks(
    defs: dg.Definitions, specs: dict[str, dg.AssetSpec]
) -> None:
    """Of jobs, sensors, schedules and the fields of a launchpad; of assets and checks, lists show the first line."""
    repository = defs.get_repository_def()
    jobs = [each for each in repository.get_all_jobs() if not each.name.startswith("__")]
    ops = [node.definition for each in jobs for node in each.nodes]
    fields = [
        field for op in ops for field in getattr(getattr(op.config_schema, "config_type", None), "fields", {}).values()
    ]
    whole = [*jobs, *ops, *fields, *repository.sensor_defs, *repository.schedule_defs]
    checks = [check for each in defs.assets or () for check in getattr(each, "check_specs", ())]
    first_lines = [str(each.description).partition("\n")[0] for each in (*specs.values(), *checks)]
    texts = [*(str(each.description) for each in whole), *first_lines]
    assert len(texts) > 60 and [text for text in texts if "`" in text or "**" in text] == []


def test_every_asset_says_who_owns_it_what_it_is_and_what_its_columns_are(specs: dict[str, dg.AssetSpec]) -> None:
    """The catalogue is what people see first; it is derived from the declarations, so it is never empty."""
    for name in GROUPS:
        spec = specs[name]
        assert all((spec.owners, spec.description, spec.code_version))
        assert spec.kinds == {"spark", "delta"}
        assert spec.metadata["dagster/table_name"] == name
        assert spec.metadata["dagster/column_schema"].columns


def test_a_description_says_what_a_row_is_and_what_it_is_made_of(specs: dict[str, dg.AssetSpec]) -> None:
    """It is what people read before they launch: derived, so that it cannot speak of an earlier version."""
    told = {name: str(spec.description) for name, spec in specs.items()}
    assert "One row per `transaction_id` and day. Version `v2`" in told["fact_sales_transactions"]
    assert "- `bronze_fx_rates`, from 7 days before to the day itself" in told["fact_sales_transactions"]
    assert "- `fact_sales_transactions`, the days of the week that are published" in told["report_store_ranking"]
    assert "Ingested from the landed files of `sales`" in told["raw_sales"]


def test_one_tag_selects_the_tables_that_have_the_same_days(
    defs: dg.Definitions, specs: dict[str, dg.AssetSpec]
) -> None:
    """The dialog offers a range for them; with the days of another chain among them it does not."""
    daily = {name for name, spec in specs.items() if spec.tags.get("daily") == "sales"}
    assert {"raw_fx_rates", "bronze_products", "raw_sales", "fact_daily_revenue"} <= daily
    assert not daily & {"report_store_ranking", "report_monthly_close", "raw_sea_temperatures"}
    assert len({defs.resolve_asset_graph().get(dg.AssetKey(name)).partitions_def for name in daily}) == 1


def test_the_contract_becomes_the_column_schema(defs: dg.Definitions) -> None:
    """Types, nullability and descriptions come from the one contract, not from a second list."""
    fact = defs.get_assets_def("fact_sales_transactions").get_asset_spec()
    columns = {column.name: column for column in fact.metadata["dagster/column_schema"].columns}
    assert columns["amount_eur"].type == "decimal(18,4)"
    assert columns["transaction_id"].constraints.nullable is False
    assert columns["amount_eur"].constraints.other == ["greater than or equal to 0"]
    assert columns["currency"].constraints.other == ["matches ^[A-Z]{3}$"]
    assert columns["store_id"].constraints.other == ["1.. characters long"]


def test_each_edge_has_a_check_that_is_named_for_what_it_enforces(defs: dg.Definitions) -> None:
    """The card of the graph: what is read is reconciled with what is made of it, and blocks what does not agree."""
    specs = {(key.asset_key.to_user_string(), key.name) for key in defs.resolve_asset_graph().asset_check_keys}
    for table, check in (
        ("bronze_sales", "raw_sales_to_bronze_sales_reconciles"),
        ("fact_sales_transactions", "bronze_sales_to_fact_reconciles"),
        ("fact_daily_revenue", "revenue_agrees_with_fact"),
        ("report_monthly_close", "revenue_agrees_with_fact"),
        ("report_sea_temperature", "bronze_sea_temperatures_to_report_sea_temperature_reconciles"),
        *((table, check) for table in GROUPS for check in ("contract_holds", "fresh", "watchdog", "as_usual")),
        *((table, "keys_unique") for table in GROUPS if not table.startswith("raw_")),
    ):
        assert (table, check) in specs


def test_a_check_of_gates_blocks_and_lists_its_rules(defs: dg.Definitions) -> None:
    """A warning, freshness and the watchdog are about days that are published: they block nothing."""
    specs = defs.get_assets_def("bronze_sales").check_specs
    sales = {spec.name: spec for spec in specs if spec.asset_key == dg.AssetKey("bronze_sales")}
    blocking = {name for name, spec in sales.items() if spec.blocking}
    assert {name for name in sales if name not in blocking} == {"arrived_within", "fresh", "watchdog", "as_usual"}
    edge = str(sales["raw_sales_to_bronze_sales_reconciles"].description)
    assert "- `everything_accounted_for` (completeness): Raw equals winners" in edge
    assert "published with a warning" in str(sales["arrived_within"].description)
    assert all(spec.partitions_def for spec in sales.values())


def test_one_partitions_definition_and_one_policy_for_the_daily_tables_of_a_chain(defs: dg.Definitions) -> None:
    """Dagster puts a child into its parent's run only if both are the same."""
    graph = defs.resolve_asset_graph()
    daily = [graph.get(dg.AssetKey(table)) for table in RETAIL if table not in PERIODS]
    assert all(node.partitions_def == daily[0].partitions_def for node in daily)
    assert {node.backfill_policy for node in daily} == {dg.BackfillPolicy.single_run()}


def test_a_day_reaches_the_one_week_and_the_one_month_it_lies_in(defs: dg.Definitions) -> None:
    """Weeks are ISO weeks, also over the turn of a month: a daily backfill rebuilds exactly the periods it touches."""
    fact = "fact_sales_transactions"
    assert _downstream_days(defs, fact, "report_store_ranking", "2017-03-01") == {"2017-02-27"}
    assert _downstream_days(defs, fact, "report_store_ranking", "2017-03-05") == {"2017-02-27"}
    assert _downstream_days(defs, fact, "report_store_ranking", "2017-03-06") == {"2017-03-06"}
    assert _downstream_days(defs, fact, "report_monthly_close", "2017-03-31") == {"2017-03-01"}


def test_the_current_week_and_month_have_partitions(defs: dg.Definitions) -> None:
    """Their reports are wanted while they grow, flagged incomplete; a day that is not over has none."""
    today = datetime.now(UTC).date()
    partitions = Chain(FIRST_DAY).partitions
    assert not partitions[Cadence.DAILY].has_partition_key(str(today))
    for cadence in (Cadence.WEEKLY, Cadence.MONTHLY):
        assert partitions[cadence].get_last_partition_key() == str(cadence.period(today).first)


def test_partitions_of_data_that_has_ended_end_with_it() -> None:
    """The dialog offers the newest ninety: with a partition for each day until yesterday, all would be empty."""
    partitions = Chain(FIRST_DAY, last=date(2017, 5, 30)).partitions
    last = {cadence: partitions[cadence].get_last_partition_key() for cadence in Cadence}
    assert last == {Cadence.DAILY: "2017-05-30", Cadence.WEEKLY: "2017-05-29", Cadence.MONTHLY: "2017-05-01"}
    assert partitions[Cadence.DAILY].get_first_partition_key() == str(FIRST_DAY)


def test_the_tables_of_a_chain_that_has_ended_still_share_one_run() -> None:
    """A backfill of a range is one run."""
    location = code_location(
        SMALL_CATALOG, fake_resources(FakeBuilder()), data={"small": DataDays(last=date(2017, 5, 29))}
    )
    graph = location.resolve_asset_graph()
    daily = {
        graph.get(key).partitions_def for key in graph.get_all_asset_keys() if graph.get(key).tags.get(CADENCE_TAG)
    }
    assert [each.get_last_partition_key() for each in daily if each] == ["2017-05-29"]


@pytest.mark.parametrize("cadence", list(Cadence))
def test_a_backfill_under_way_goes_on_when_partitions_grow(cadence: Cadence) -> None:
    """Dagster ends a backfill whose targets are no partitions any more: those it has kept are found in the new ones."""
    ends = (date(2017, 5, 29), date(2017, 6, 20), None)
    ended, grown, goes_on = (Chain(FIRST_DAY, last=last).partitions[cadence] for last in ends)
    for before, after in ((ended, grown), (grown, goes_on), (goes_on, ended)):
        target: Any = before.subset_with_partition_keys(ended.get_partition_keys()[-3:]).to_serializable_subset()
        kept: Any = deserialize_value(serialize_value(target))
        there = after.subset_with_all_partitions() & kept
        assert list(there.get_partition_keys()) == list(kept.get_partition_keys())
        assert len(kept - there) == 0


def test_a_range_of_days_stays_that_range(defs: dg.Definitions) -> None:
    """Rates count for days after their own, the catalogue for a month. Declared to Dagster, its dialog would add all of
    these days to a range, also those that nothing has landed for, and their gates would fail the backfill."""
    for parent in ("bronze_fx_rates", "bronze_sales"):
        assert _downstream_days(defs, parent, "fact_sales_transactions", "2017-03-10") == {"2017-03-10"}
    assert _downstream_days(defs, "bronze_products", "report_department_revenue", "2017-03-10") == {"2017-03-10"}


def test_everything_that_acts_by_itself_is_on_from_the_start(defs: dg.Definitions) -> None:
    """None of it starts work before a person has built or landed something."""
    schedules = {each.name: each.default_status for each in defs.get_repository_def().schedule_defs}
    assert schedules == dict.fromkeys(schedules, dg.DefaultScheduleStatus.RUNNING)
    assert schedules.keys() >= {"every_day_sales", "watchdogs_every_night"}
    sensors = {each.name: each.default_status for each in defs.get_repository_def().sensor_defs}
    assert sensors == dict.fromkeys(sensors, dg.DefaultSensorStatus.RUNNING)
    schedule = defs.resolve_schedule_def("every_day_sales")
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 2 * * *", "UTC")


def test_loading_the_location_starts_no_jvm_and_imports_no_pandas() -> None:
    """Dagster loads it in every process it starts: a JVM in each would eat the machine, and pandera takes a second."""
    loads = "import sys, backfill_assets.definitions, pyspark"
    heavy = "{'pandas', 'ibis', 'duckdb'} & sys.modules.keys()"
    code = f"{loads}; print(pyspark.SparkContext._gateway, bool({heavy}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["None", "False"]


def test_every_check_of_a_contract_has_words() -> None:
    """For people who read the columns of a table in the UI; what is wrong with a value is said in the same ones."""
    shown = column_schema(replace(SMALL.tables[-1], contract=EveryCheck))
    words = {column.name: column.constraints.other for column in shown.columns}
    assert words["ge"] == ["greater than or equal to 0"] and words["closed"] == ["in [1, 3]"]
    assert words["opened"] == ["in (1, 3)"] and words["notin"] == ["none of a, b"]
    assert all(len(words[name]) == len(field.checks) for name, field in EveryCheck.fields().items())
