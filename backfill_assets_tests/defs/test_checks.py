"""What Dagster shows of the checks of a day: what was seen on both sides, also of days that were judged before."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import dagster as dg
import pytest

from backfill_assets.defs.checks import check_names, evaluations
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Dimension, RuleOutcome, Severity
from backfill_assets.quality.gates import checks_of
from backfill_assets.rebuild.outcome import BuiltDay, DaysFailed
from backfill_assets_tests.defs.fake_builder import built_day

BRONZE, FACT, REVENUE = "bronze_sales", "fact_sales_transactions", "fact_daily_revenue"
EDGE = "raw_sales_to_bronze_sales_reconciles"


def judged(
    rule: str, passed: bool = True, dimension: Dimension = "completeness", severity: Severity = "error"
) -> RuleOutcome:
    return RuleOutcome(rule, dimension, passed, "7 rows" if passed else "6 rows", "7 rows", "Look at raw.", severity)


def shown(day: BuiltDay) -> dict[str, dg.AssetCheckEvaluation]:
    checks = checks_of(CATALOG.table(day.table), CATALOG.step(day.table))
    return {each.check_name: each for each in evaluations(day, checks)}


def of(table: str, *rules: RuleOutcome, **changes: object) -> BuiltDay:
    return replace(built_day(table, date(2017, 3, 1)), rules=rules, **changes)  # type: ignore[arg-type]


def test_each_check_shows_its_own_rules() -> None:
    """One that broke does not paint the others red."""
    found = shown(of(FACT, judged("contract_holds"), judged("everything_published", passed=False)))
    assert {name: each.passed for name, each in found.items()} == {
        "contract_holds": True,
        "bronze_sales_to_fact_reconciles": False,
        "fresh": True,
    }
    broken = found["bronze_sales_to_fact_reconciles"]
    assert broken.blocking and broken.severity == dg.AssetCheckSeverity.ERROR
    assert broken.description == "everything_published: expected 7 rows, observed 6 rows -> Look at raw."


def test_the_numbers_of_both_sides_are_there_when_they_agree() -> None:
    """The history of a check has a line for each day: one that says nothing makes people open each of them."""
    found = shown(of(BRONZE, judged("everything_accounted_for")))[EDGE]
    assert found.description == "7 rows, expected 7 rows"
    assert (found.metadata["observed"].value, found.metadata["expected"].value) == ("7 rows", "7 rows")


def test_a_broken_contract_shows_what_pandera_says() -> None:
    """By itself and, in a day that fails, also in the error of the run."""
    said = ("quantity: greater_than_or_equal_to(1), for example 0", "currency: not_nullable")
    failed = replace(of(FACT, replace(judged("contract_holds", passed=False), details=said)), publication="")
    assert shown(failed)["contract_holds"].metadata["pandera"].value == "\n".join(said)
    assert "pandera" not in shown(of(FACT, judged("contract_holds")))["contract_holds"].metadata
    assert str(DaysFailed([failed], staged=0)).splitlines()[2:4] == [f"    {line}" for line in said]


def test_several_rules_of_a_check_are_a_table() -> None:
    """Passed rules are shown too: what held is half of the diagnosis."""
    rules = (judged("total_agrees_revenue_eur", passed=False), judged("total_agrees_lines"))
    found = shown(of(REVENUE, *rules))["revenue_agrees_with_fact"]
    rows = found.metadata["rules"].records  # type: ignore[attr-defined]
    assert [row.data["passed"] for row in rows] == [False, True]
    assert [row.data["next step"] for row in rows] == ["Look at raw.", ""]


def test_a_warning_is_shown_and_holds_nothing_back() -> None:
    """The check of a published day with late rows is yellow: red would say that the day was not published."""
    found = shown(of(BRONZE, judged("arrived_within", passed=False, severity="warning")))["arrived_within"]
    assert (found.passed, found.severity, found.blocking) == (False, dg.AssetCheckSeverity.WARN, False)
    assert found.description == "warning, arrived_within: expected 7 rows, observed 6 rows -> Look at raw."


def test_a_failed_day_shows_its_quality_and_is_not_called_fresh() -> None:
    """It has no materialization that could, and was not published."""
    found = shown(of(REVENUE, judged("contract_holds"), judged("keys_unique", passed=False), publication=""))
    assert {"quality", "quality_score"} <= set(found["contract_holds"].metadata)
    assert "fresh" not in found


def test_the_rules_of_an_unchanged_day_say_for_which_publication_they_were_judged() -> None:
    """A second run must not paint a warning green, and says when it was judged."""
    late = judged("arrived_within", passed=False, severity="warning")
    day = of(BRONZE, judged("contract_holds"), late, reused=True)
    found = shown(day)
    words = f"as judged for publication {day.publication}: 7 rows, expected 7 rows"
    assert found["contract_holds"].description == words
    assert (found["arrived_within"].passed, found["arrived_within"].severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "keys_unique" not in found, "nothing was judged by it then"


def test_an_unchanged_day_whose_rules_were_not_kept_says_so() -> None:
    found = shown(of(REVENUE, reused=True))
    assert list(found) == ["contract_holds", "keys_unique", "revenue_agrees_with_fact", "volume_within", "fresh"]
    assert "unchanged since they passed" in str(found["keys_unique"].description)


@pytest.mark.parametrize(
    ("table", "rule", "rows", "metrics"),
    [
        (BRONZE, "everything_accounted_for", 2_880, {"deduplicated": 3}),
        (FACT, "everything_published", 2_870, {"from.quarantine_sales.rows": 400, "from.bronze_sales.deduplicated": 3}),
    ],
)
def test_an_edge_says_what_a_day_lacks_also_when_it_reconciles(
    table: str, rule: str, rows: int, metrics: dict[str, int]
) -> None:
    """Received = accepted + rejected + deleted; also where no run but a stream or a command has published the day."""
    received = {"from.raw_sales.received": 3_286, "from.raw_sales.deleted": 3}
    found = shown(of(table, judged(rule), rows=rows, metrics={**received, **metrics}))
    edge = next(each for name, each in found.items() if name.endswith("_reconciles"))
    assert edge.passed
    assert edge.description == "7 rows, expected 7 rows; in quarantine: 400 of 3,286 received rows (12.2 %)"
    counts = {name: edge.metadata[name].value for name in ("received", "accepted", "rejected", "deleted")}
    assert counts == {"received": 3_286, "accepted": 2_883, "rejected": 400, "deleted": 3}


def test_an_edge_of_a_whole_day_says_that_nothing_was_rejected() -> None:
    """A day that failed has no account: its rules say it."""
    metrics = {"deduplicated": 0, "from.raw_sales.received": 7}
    whole = of(BRONZE, judged("everything_accounted_for"), rows=7, metrics=metrics)
    edge = shown(whole)[EDGE]
    assert edge.description == "7 rows, expected 7 rows"
    assert (edge.metadata["accepted"].value, edge.metadata["rejected"].value) == (7, 0)
    assert "rejected" not in shown(replace(whole, metrics={}))[EDGE].metadata
    assert "rejected" not in shown(replace(whole, publication=""))[EDGE].metadata


def test_what_a_run_and_the_watchdogs_evaluate_of_a_table_has_a_name() -> None:
    names = check_names(checks_of(CATALOG.table(REVENUE), CATALOG.step(REVENUE)))
    assert names == ["contract_holds", "keys_unique", "revenue_agrees_with_fact", "volume_within", "fresh", "watchdog"]
