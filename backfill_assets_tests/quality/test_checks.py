"""Each gate of a table is shown by one check, which is named for what it enforces."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import DayFacts, DayRule, GateFinding, RuleOutcome
from backfill_assets.quality.gates import TableCheck, checks_of, gates_of


def checks(table: str) -> dict[str, TableCheck]:
    return {check.name: check for check in checks_of(CATALOG.table(table), CATALOG.step(table))}


def rules(table: str) -> dict[str, list[str]]:
    return {name: [rule.name for rule in check.rules] for name, check in checks(table).items()}


def test_an_input_is_a_check_of_its_own() -> None:
    """Named after the table that the step reads, although what was received further up is compared as well."""
    assert rules("bronze_sales")["raw_sales_to_bronze_sales_reconciles"] == ["everything_accounted_for"]
    assert rules("fact_sales_transactions")["bronze_sales_to_fact_reconciles"] == ["everything_published"]
    sea = "bronze_sea_temperatures_to_report_sea_temperature_reconciles"
    assert rules("report_sea_temperature")[sea] == ["total_agrees_readings"]


def test_a_dataset_names_a_check_itself() -> None:
    totals = ["total_agrees_revenue_eur", "total_agrees_quantity", "total_agrees_lines"]
    assert rules("fact_daily_revenue")["revenue_agrees_with_fact"] == totals
    assert checks("fact_daily_revenue")["revenue_agrees_with_fact"].inputs == ("fact_sales_transactions",)


def test_each_gate_is_in_one_check() -> None:
    for table in CATALOG.tables:
        assert "contract_holds" in rules(table.name)
        shown = [name for names in rules(table.name).values() for name in names]
        assert sorted(shown) == sorted(rule.name for rule in gates_of(table)), table.name
        assert ("keys_unique" in rules(table.name)) is bool(table.key)


def test_a_check_of_warnings_alone_blocks_nothing() -> None:
    assert not checks("raw_sales")["arrived_within"].blocks
    assert checks("raw_sales")["content_intact"].blocks


def test_a_check_shows_the_outcomes_of_its_own_rules() -> None:
    outcomes = [RuleOutcome(name, "validity", True, "", "") for name in ("few_rejected", "volume_within")]
    assert checks("bronze_sales")["few_rejected"].outcomes(outcomes) == (outcomes[0],)
    assert checks("bronze_sales")["few_duplicates"].outcomes(outcomes) == ()


def test_a_name_that_dagster_does_not_take_is_written_otherwise() -> None:
    """A rule of one's own has any name: a check is part of an identifier."""

    @dataclass(frozen=True)
    class NoGaps(DayRule):
        name_format = "no gaps (by hour)"
        dimension = "completeness"

        def judge(self, facts: DayFacts) -> GateFinding:
            return GateFinding(True, "", "", "")

    table = CATALOG.table("report_store_ranking")
    ruled = type(table)(table.name, table.layer, "", table.contract, (), rules=(NoGaps(), NoGaps(check="other")))
    found = checks_of(ruled, CATALOG.step(table.name))
    assert [check.name for check in found] == ["contract_holds", "no_gaps__by_hour_", "other"]
