"""Each gate fails for its own reason and is in one check; what people see of a day's quality does not look better."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import DayFacts, DayRule, Dimension, GateFinding, Metrics, RuleOutcome, Severity
from backfill_assets.quality.gates import (
    DIMENSIONS,
    DimensionQuality,
    TableCheck,
    chart,
    checks_of,
    from_record,
    gates_of,
    judge,
    looked_at,
    score,
    summarize,
    to_metrics,
)
from backfill_assets.quality.measures import add_up, as_metrics

HUGE = 10**36
"""Sums of hashes have more digits than decimal arithmetic keeps by default."""

RAW: Metrics = {"rows": 104, "received": 103, "content_hash_sum": HUGE + 1_000, "recomputed_hash_sum": HUGE + 1_000}
QUARANTINE: Metrics = {"rows": 2, "content_hash_sum": HUGE + 20}
BRONZE: Metrics = {
    "rows": 100,
    "keys": 100,
    "violating": 0,
    "violating_example": "",
    "content_hash_sum": 965,
    "recomputed_hash_sum": 965,
    "deduplicated": 1,
    "deduplicated_hash_sum": 15,
    "superseded": 3,
    "superseded_hash_sum": 65,
    "late_rows": 0,
    "arrived_rows": 100,
}
FACT: Metrics = {
    "rows": 97,
    "keys": 97,
    "violating": 0,
    "violating_example": "",
    "recomputed_hash_sum": 900,
    "without_rate": 0,
    "without_rate_example": "",
    "nulls_amount_eur": 0,
    "misconverted_amount_eur": 0,
    "outdated_rate_day": 0,
    "total_amount_eur": "123.4500",
    "total_quantity": 200,
}
REVENUE: Metrics = {
    "rows": 4,
    "keys": 4,
    "violating": 0,
    "violating_example": "",
    "total_revenue_eur": "123.4500",
    "total_lines": 97,
    "total_quantity": 200,
}
OWN: dict[str, Metrics] = {"bronze_sales": BRONZE, "fact_sales_transactions": FACT, "fact_daily_revenue": REVENUE}


def _judged(table: str, own: Metrics, **others: Metrics) -> dict[str, RuleOutcome]:
    known: dict[str, Metrics] = {
        "raw_sales": RAW,
        "quarantine_sales": QUARANTINE,
        "bronze_sales": BRONZE,
        "fact_sales_transactions": FACT,
    }
    facts = DayFacts(own=own, upstream={**known, **others})
    return {outcome.rule: outcome for outcome in judge(CATALOG.table(table), facts)}


def test_rejected_rows_that_are_only_too_early_may_be_right() -> None:
    """What is declared of their days may be wrong, and the source right: both are said, with both names."""
    early: Metrics = {**RAW, "on_arrival_day": 90, "on_arrival_day_example": "2016-11-03"}
    told = _judged("bronze_sales", BRONZE, raw_sales=early, quarantine_sales={**QUARANTINE, "rows": 90})["few_rejected"]
    assert told.next_step.startswith("90 of them are on the day they arrived, for example 2016-11-03: before")
    for name in ("earliest_day", "first_day", "days_ahead", "backfill raw refresh raw_sales"):
        assert name in told.next_step
    assert (
        "Ask the source to send corrected rows, in a new file or as events, then build this day again."
        in told.next_step
    )
    assert told.next_step.endswith('backfill raw release quarantine_sales DAY "REASON"')


@pytest.mark.parametrize("table", sorted(OWN))
def test_a_sound_day_passes_every_gate(table: str) -> None:
    """103 received = 97 published + 2 quarantined + 1 deduplicated + 3 superseded; no one has to do anything."""
    outcomes = _judged(table, OWN[table])
    assert len(outcomes) >= 5
    assert all(outcome.passed and not outcome.next_step for outcome in outcomes.values()), outcomes


@pytest.mark.parametrize(
    ("table", "change", "rule", "words"),
    [
        ("bronze_sales", {"violating": 2, "violating_example": "quantity: is missing"}, "contract_holds", "quantity"),
        ("bronze_sales", {"keys": 99}, "keys_unique", "99 different transaction_id in 100 rows"),
        ("bronze_sales", {"recomputed_hash_sum": 966}, "content_intact", "966"),
        ("bronze_sales", {"recomputed_hash_sum": 966}, "everything_accounted_for", f"content {HUGE + 1_001}"),
        ("bronze_sales", {"rows": 99, "keys": 99}, "everything_accounted_for", "99 published"),
        ("fact_sales_transactions", {"rows": 96, "keys": 96}, "everything_published", "= 102"),
        ("fact_sales_transactions", {"recomputed_hash_sum": 901}, "everything_published", f"{HUGE + 1_001}"),
        (
            "fact_sales_transactions",
            {"without_rate": 7, "without_rate_example": "CHF, NOK"},
            "rates_found",
            "7 lines without a rate (CHF, NOK)",
        ),
        ("fact_sales_transactions", {"nulls_amount_eur": 1}, "few_nulls_amount_eur", "1 of 97"),
        ("fact_sales_transactions", {"misconverted_amount_eur": 2}, "converted_exactly_amount_eur", "2 rows whose"),
        ("fact_daily_revenue", {"total_revenue_eur": "123.4499"}, "total_agrees_revenue_eur", "123.4499"),
        ("fact_daily_revenue", {"total_lines": 96}, "total_agrees_lines", "96"),
        ("fact_daily_revenue", {"total_quantity": 199}, "total_agrees_quantity", "199"),
        ("fact_daily_revenue", {"rows": 0, "keys": 0}, "volume_within", "0 rows"),
        ("fact_daily_revenue", {"rows": 98, "keys": 98}, "volume_within", "98 rows"),
    ],
)
def test_each_gate_fails_for_its_own_reason(table: str, change: dict[str, Any], rule: str, words: str) -> None:
    """Every gate is broken once: it fails, says what it saw, and what to do."""
    outcome = _judged(table, {**OWN[table], **change})[rule]
    assert not outcome.passed
    assert words in outcome.observed
    assert outcome.expected
    assert outcome.next_step


@pytest.mark.parametrize(
    ("table", "change", "rule", "words"),
    [
        ("bronze_sales", {"late_rows": 21}, "arrived_within", "21 of 100 rows arrived more than 7 days after"),
        ("bronze_fx_rates", {"late_rows": 1}, "arrived_within", "1 of 100 rows arrived more than 1 day after"),
        ("fact_sales_transactions", {"outdated_rate_day": 2}, "recent_rate_day", "2 rows with a rate_day more than 5"),
    ],
)
def test_what_comes_late_is_a_warning(table: str, change: dict[str, Any], rule: str, words: str) -> None:
    """Late data is normal and has to get in: it is reported, and the day is published."""
    own = {**OWN.get(table, BRONZE), "duplicates": 0, "duplicates_identical": 0, **change}
    outcomes = _judged(table, own, raw_fx_rates=RAW, quarantine_fx_rates=QUARANTINE)
    assert words in outcomes[rule].observed
    assert outcomes[rule].next_step
    assert (outcomes[rule].passed, outcomes[rule].severity, outcomes[rule].holds_back) == (False, "warning", False)
    assert not any(outcome.holds_back for outcome in outcomes.values())


@pytest.mark.parametrize(("arrived", "late", "passed"), [(100, 20, True), (100, 21, False), (1000, 50, True)])
def test_the_tolerated_share_of_late_rows_is_declared(arrived: int, late: int, passed: bool) -> None:
    """20 rows always, and 5 % of what arrived: a correction of an old receipt is no alarm."""
    own = {**BRONZE, "late_rows": late, "arrived_rows": arrived}
    assert _judged("bronze_sales", own)["arrived_within"].passed is passed


def test_an_outcome_from_before_there_were_warnings_is_an_error() -> None:
    """Timelines staged by an older release are judged again from what they recorded."""
    stored = RuleOutcome("few_rejected", "validity", False, "9 rows", "at most 2").__dict__
    old = {name: value for name, value in stored.items() if name != "severity"}
    loaded = TypeAdapter(RuleOutcome).validate_python(old)
    assert (loaded.severity, loaded.holds_back) == ("error", True)


EQUAL_VERSIONS: Metrics = {
    "duplicates": 21,
    "duplicates_identical": 20,
    "duplicates_example": "a.jsonl.gz:1 and a.jsonl.gz:2",
}


@pytest.mark.parametrize(
    ("deduplicated", "duplicates", "passed"), [(20, None, True), (21, 20, True), (21, 21, False), (50, 21, False)]
)
def test_few_rows_may_give_way_to_an_equal_version(deduplicated: int, duplicates: int | None, passed: bool) -> None:
    """20 rows of sales, or 2 %: a key that is none loses rows, and everything else about the day is sound."""
    looked = {} if duplicates is None else {**EQUAL_VERSIONS, "duplicates": duplicates}
    outcome = _judged("bronze_sales", {**BRONZE, "deduplicated": deduplicated, **looked})["few_duplicates"]
    assert outcome.passed is passed
    assert outcome.holds_back is not passed
    if not passed:
        assert outcome.observed == (
            "21 of 103 rows give way to one of equal key and version, 20 of them to an identical line, for example "
            "a.jsonl.gz:1 and a.jsonl.gz:2"
        )
        assert outcome.expected == "at most 20"
        assert "numbered=True" in outcome.next_step and "tolerated_duplicates" in outcome.next_step


def test_a_dataset_that_says_nothing_tolerates_no_duplicates() -> None:
    """The rule is there without being asked for."""
    raw = {**RAW, "received": 3_846}
    own = {**BRONZE, "deduplicated": 7, **EQUAL_VERSIONS, "duplicates": 7}
    outcome = _judged("bronze_fx_rates", own, raw_fx_rates=raw, quarantine_fx_rates=QUARANTINE)["few_duplicates"]
    assert (outcome.passed, outcome.expected) == (False, "at most 0")


def test_one_unit_of_a_sum_of_36_digits_is_noticed() -> None:
    """Decimal arithmetic keeps 28 digits; a sum of hashes that is rounded would hide a changed row."""
    one_more: Metrics = {**RAW, "content_hash_sum": HUGE + 1_001}
    assert not _judged("bronze_sales", BRONZE, raw_sales=one_more)["everything_accounted_for"].passed


@pytest.mark.parametrize("table", ["bronze_sales", "fact_sales_transactions"])
def test_what_the_source_took_back_is_accounted_for(table: str) -> None:
    """By count and by content: raw has received it, and no table made of it has it."""
    own, rule = (BRONZE, "everything_accounted_for") if table == "bronze_sales" else (FACT, "everything_published")
    hashes = int(str(RAW["content_hash_sum"]))
    raw: Metrics = {**RAW, "received": int(str(RAW["received"])) + 2, "content_hash_sum": hashes + 77}
    assert not _judged(table, own, raw_sales=raw)[rule].passed
    outcome = _judged(table, own, raw_sales={**raw, "deleted": 2, "deleted_hash_sum": 77})[rule]
    assert outcome.passed and "+ 2 deleted = " in outcome.observed
    assert not _judged(table, own, raw_sales={**raw, "deleted": 2, "deleted_hash_sum": 78})[rule].passed
    assert "deleted" not in _judged(table, own)[rule].observed


def test_rejected_rows_that_came_again_are_not_missing() -> None:
    """A source that lands its lines again, sound, is done; those that it never corrected still count."""
    rejects = {**QUARANTINE, "rows": 25}
    for corrected, passed in ((0, False), (4, False), (5, True), (25, True)):
        told = _judged("bronze_sales", {**BRONZE, "corrected": corrected}, quarantine_sales=rejects)["few_rejected"]
        assert told.passed is passed, corrected
        assert ("came again" in told.observed) is bool(corrected)


def test_totals_are_compared_as_numbers() -> None:
    """A day without rows has the total 0, and its fact 0.0000."""
    none: Metrics = {**REVENUE, "rows": 0, "keys": 0, "total_revenue_eur": 0, "total_lines": 0, "total_quantity": 0}
    fact = {**FACT, "rows": 0, "total_amount_eur": "0.0000", "total_quantity": 0}
    assert all(outcome.passed for outcome in _judged("fact_daily_revenue", none, fact_sales_transactions=fact).values())


@pytest.mark.parametrize(
    ("received", "quarantined", "passed"), [(105, 20, True), (105, 21, False), (3_286, 32, True), (3_286, 33, False)]
)
def test_the_tolerated_share_of_rejects_is_declared(received: int, quarantined: int, passed: bool) -> None:
    """20 rows always, and a hundredth of what was received: a day that lacks more is not called sound."""
    raw, rejects = {**RAW, "received": received}, {**QUARANTINE, "rows": quarantined}
    assert _judged("bronze_sales", BRONZE, raw_sales=raw, quarantine_sales=rejects)["few_rejected"].passed is passed


def test_the_metrics_that_are_looked_at_are_known_beforehand() -> None:
    """Who judges must have fetched them; a missing one is said by name."""
    fact = looked_at(CATALOG.table("fact_sales_transactions").rules)
    assert fact == ("raw_sales", "bronze_sales", "quarantine_sales")
    assert looked_at(CATALOG.table("fact_daily_revenue").rules) == ("fact_sales_transactions",)
    with pytest.raises(LookupError, match="fact_sales_transactions"):
        judge(CATALOG.table("fact_daily_revenue"), DayFacts(own=REVENUE))


def test_the_days_of_a_period_add_up_exactly() -> None:
    """A week's report is judged by the totals of its days: no digit may be lost, however long the sums are."""
    first: Metrics = {"rows": 1, "checksum": HUGE, "total": "0.0001", "violating_example": ""}
    second: Metrics = {"rows": 2, "checksum": -1, "total": f"{HUGE}.5", "violating_example": "a: is missing"}
    together = add_up([first, second])
    assert together.pop("total") == f"{HUGE}.5001"
    assert together == {"rows": 3, "checksum": HUGE - 1, "violating_example": "a: is missing"}


def test_a_total_that_a_day_lacks_is_unknown_of_the_period() -> None:
    """It was declared after the day was published: the sum of the other days would be a wrong number."""
    assert add_up([{"rows": 1, "total_eur": "1.5"}, {"rows": 2}]) == {"rows": 3, "total_eur": None}


def test_an_unmeasured_total_of_the_facts_fails_the_day_and_says_so() -> None:
    """Not 0, and no error of the program: what to do about it is said."""
    facts = {name: value for name, value in FACT.items() if name != "total_amount_eur"}
    found = _judged("fact_daily_revenue", REVENUE, fact_sales_transactions=facts)
    (broken,) = [each for each in found.values() if not each.passed]
    assert broken.rule == "total_agrees_revenue_eur"
    assert "which is unknown: it was not measured" in broken.expected and "--force" in broken.next_step


def test_metrics_are_numbers_and_text() -> None:
    """They go into a log as JSON: a hash sum stays a whole number, money keeps its digits as text."""
    measured = {"day": object(), "rows": 1, "checksum": Decimal(HUGE), "total": Decimal("1.5000"), "x_example": ""}
    assert as_metrics(measured) == {"rows": 1, "checksum": HUGE, "total": "1.5000", "x_example": ""}
    with pytest.raises(TypeError, match="float"):
        as_metrics({"share": 0.5})


# ---------------------------------------------------------------------------------- each gate is shown by one check


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


# -------------------------------------------------------------------------------------------------- what people see


def _outcome(
    dimension: Dimension, *, passed: bool = True, rule: str = "rule", severity: Severity = "error"
) -> RuleOutcome:
    return RuleOutcome(rule, dimension, passed, "3 rows", "at most 2", "", severity)


MIXED = (
    _outcome("completeness"),
    _outcome("completeness", passed=False, rule="late_news", severity="warning"),
    _outcome("completeness", passed=False, rule="lost"),
    _outcome("completeness"),
    _outcome("uniqueness"),
    _outcome("timeliness", passed=False, rule="arrived_within", severity="warning"),
)


def test_every_dimension_is_counted_and_the_worst_is_named() -> None:
    """An error is worse than a warning, whichever comes first; a dimension without rules is shown without a share."""
    found = {each.dimension: each for each in summarize(MIXED)}
    assert tuple(found) == DIMENSIONS
    assert (found["completeness"].passed, found["completeness"].rules) == (2, 4)
    assert found["completeness"].worst == "lost: 3 rows, expected at most 2"
    assert found["timeliness"].worst == "warning: arrived_within: 3 rows, expected at most 2"
    assert (found["uniqueness"].worst, found["uniqueness"].share) == ("", 1.0)
    assert (found["validity"].rules, found["validity"].share) == (0, None)


def test_the_score_counts_rules_and_not_dimensions() -> None:
    """A dimension with one rule must not weigh as much as one with four; nothing judged is not a good score."""
    assert score(summarize(MIXED)) == 3 / 6
    assert score(summarize(())) is None


def test_the_chart_has_a_bar_for_each_dimension() -> None:
    """Read in a monospaced block of the UI, under each other."""
    assert chart(summarize(MIXED)).splitlines() == [
        "```",
        "completeness █████░░░░░ 2/4",
        "uniqueness   ██████████ 1/1",
        "validity     ·········· no rule",
        "consistency  ·········· no rule",
        "timeliness   ░░░░░░░░░░ 0/1",
        "```",
    ]


def test_one_broken_rule_of_many_leaves_a_gap_in_the_bar() -> None:
    """Rounding must not hide it."""
    assert "█████████░ 99/100" in chart([DimensionQuality("validity", passed=99, rules=100)])


def test_what_was_judged_can_be_had_back_from_the_record() -> None:
    """A reused day shows the counts of its publication; a day from before they were kept shows none."""
    kept = to_metrics(MIXED)
    assert kept["quality.completeness.passed"] == 2
    assert not any("validity" in name for name in kept)
    again = from_record({"rows": 5, **kept})
    assert again is not None
    assert [(each.passed, each.rules) for each in again] == [(each.passed, each.rules) for each in summarize(MIXED)]
    assert from_record({"rows": 5}) is None


@pytest.mark.parametrize("deliveries", [1, 3])
def test_deliveries_of_one_day_add_up(deliveries: int) -> None:
    """Raw is appended to, and the log sums what its parts recorded: the share stays one between 0 and 1."""
    kept = {name: count * deliveries for name, count in to_metrics(MIXED).items()}
    assert score(from_record(kept) or ()) == 0.5
