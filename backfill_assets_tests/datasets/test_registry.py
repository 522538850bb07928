from __future__ import annotations

import pytest

from backfill_assets.datasets import registry
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import Reads


def test_these_tables_keep_their_names() -> None:
    """Names of tables are names of folders and assets: renaming one loses its history."""
    assert {table.name for table in registry.tables()} >= {
        "raw_sales",
        "bronze_sales",
        "quarantine_sales",
        "fact_sales_transactions",
        "fact_daily_revenue",
        "report_department_revenue",
        "report_store_ranking",
        "report_monthly_close",
        "raw_products",
        "bronze_products",
        "quarantine_products",
        "raw_fx_rates",
        "bronze_fx_rates",
        "quarantine_fx_rates",
        "raw_sea_temperatures",
        "bronze_sea_temperatures",
        "quarantine_sea_temperatures",
        "report_sea_temperature",
    }


def test_a_chain_has_all_that_its_datasets_read() -> None:
    """A range of sales needs rates and products of the same days; the sea has nothing to do with them."""
    sales = {step.name for step in registry.steps_with("sales")}
    assert sales == {step.name for step in registry.steps_with("fx_rates")} >= {"raw_products", "bronze_fx_rates"}
    sea = [step.name for step in registry.steps_with("sea_temperatures")]
    assert sea == ["raw_sea_temperatures", "bronze_sea_temperatures", "report_sea_temperature"]


def test_every_step_comes_after_all_it_reads() -> None:
    """In any version: a plan may rebuild with an older one."""
    seen: set[str] = set()
    for step in registry.steps():
        assert {reads.table for version in step.versions for reads in version.reads} <= seen
        seen |= {table.name for table in step.tables}


@pytest.mark.parametrize(
    ("typo", "hint"), [("fact_daily_revenu", "Did you mean fact_daily_revenue"), ("x", "Tables: .*raw_fx_rates")]
)
def test_a_typo_gets_the_nearest_name(typo: str, hint: str) -> None:
    """Names are typed at the command line."""
    for find in (registry.table, registry.step):
        with pytest.raises(InvalidRequest, match=hint):
            find(typo)


@pytest.mark.parametrize(("typo", "hint"), [("sale", "Did you mean sales"), ("x", "Datasets: .*fx_rates, .*products")])
def test_a_dataset_that_is_not_there_is_refused(typo: str, hint: str) -> None:
    """A person who asks for the tables of a dataset may have forgotten to register it."""
    with pytest.raises(InvalidRequest, match=hint):
        registry.steps_with(typo)


def test_a_step_is_found_by_any_of_its_tables() -> None:
    """Quarantine is built with bronze; a person who asks for one gets both."""
    assert registry.step("quarantine_sales") is registry.step("bronze_sales")
    assert registry.table("quarantine_sales").layer == "quarantine"


def test_the_versions_of_conversion_read_different_days() -> None:
    """The previous day's rate needs a day more of history and never the day itself."""
    step = registry.step("fact_sales_transactions")
    assert step.current == "v2"
    assert step.version("v1").reads[1] == Reads("bronze_fx_rates", -8, -1)
    assert step.version("v2").reads[1] == Reads("bronze_fx_rates", -7, 0)
    with pytest.raises(InvalidRequest, match="no version 'v9'"):
        step.version("v9")


def test_names_that_rules_refer_to_are_tables() -> None:
    """A rule that names a table wrongly would fail in the middle of a run."""
    known = {table.name: table for table in registry.tables()}
    for table in known.values():
        for rule in table.rules:
            for attribute in ("raw", "bronze", "quarantine", "fact", "made_of"):
                assert getattr(rule, attribute, None) in {None, *known}, (table.name, rule.name)
            assert rule.name and rule.description
        assert len({rule.name for rule in table.rules}) == len(table.rules)
