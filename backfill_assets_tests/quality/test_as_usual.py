"""What is usual is learned from the past of a day: by medians, so that a few bad days neither hide nor accuse one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import Cadence
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Metrics
from backfill_assets.quality import as_usual
from backfill_assets.quality.as_usual import learn

RAW, FACT, REPORT = CATALOG.table("raw_sales"), CATALOG.table("fact_sales_transactions"), "report_department_revenue"
QUARANTINE = CATALOG.table("quarantine_sales")
TODAY = date(2017, 6, 1)
"""A Thursday."""


def past(of: Callable[[int], Metrics], days: int = 56) -> dict[date, Metrics]:
    """The days before today, by how long ago."""
    return {TODAY - timedelta(days=ago): of(ago) for ago in range(1, days + 1)}


def rows(ago: int) -> Metrics:
    """A hundred more or less, and twice as many on Saturdays."""
    saturday = (TODAY - timedelta(days=ago)).weekday() == 5
    return {"rows": (2000 if saturday else 1000) + (-50, 0, 50)[ago % 3], "late_rows": 0}


def judged(table: str, known: Mapping[date, Metrics], today: Metrics, day: date = TODAY) -> tuple[bool, str, str]:
    outcome = as_usual.judge(CATALOG.table(table), CATALOG.step(table), {**known, day: today}, day)
    assert outcome
    assert outcome.severity == "warning"
    assert bool(outcome.next_step) is not outcome.passed
    return outcome.passed, outcome.observed, outcome.expected


SOLD: Metrics = {"from.bronze_sales.rows": 1000, "nulls_amount_eur": 0, "outdated_rate_day": 0, "rows": 1000}


def sold(ago: int, euros: int = 3000, **other: int) -> Metrics:
    return {**SOLD, "total_amount_eur": f"{euros + ago % 7}.50", "total_quantity": 1500 + ago % 5, **other}


def refined(_: int) -> Metrics:
    return {"rows": 1000, "from.raw_sales.rows": 1000}


@pytest.mark.parametrize(
    ("table", "known", "today", "words"),
    [
        ("raw_sales", past(rows), {"rows": 1010}, "passed: rows 1,010"),
        (
            "raw_sales",
            past(rows),
            {"rows": 820},
            "passed: rows 820, 18 % fewer rows than usual on a Thursday (median 1,000)",
        ),
        ("raw_sales", past(rows), {"rows": 500}, "rows 500, expected 555 to 1,445 (median 1,000 of 8 Thursdays)"),
        ("raw_sales", past(rows), {"rows": 2000}, "rows 2,000"),
        ("raw_sales", past(rows), {"rows": 0}, "no rows, expected rows, as on each of the 8 Thursdays before"),
        ("raw_sales", past(rows), {"rows": 1000, "late_rows": 30}, "late_rows per row 0.03, expected 0 to 0.006"),
        ("raw_sales", past(rows), {"rows": 1000, "late_rows": 6}, "passed"),
        ("raw_sales", past(rows), {"rows": 3000, "deleted": 900, "deleted_markers": 100}, "passed: rows 1,000"),
        ("raw_sales", past(rows), {"rows": 2000, "deleted": 1000}, "no rows, expected rows, as on each"),
        ("raw_sales", past(rows, 21), {"rows": 1}, "passed: rows 1, expected nothing learned yet: 3 Thursdays"),
        ("raw_sales", {}, {"rows": 0}, "passed: no rows, expected "),
        ("raw_sales", past(lambda ago: {"rows": 900 * (ago % 2)}), {"rows": 0}, "passed: no rows, expected "),
        ("fact_sales_transactions", past(sold), sold(0), "passed"),
        ("fact_sales_transactions", past(sold), sold(0, 4000), "amount_eur per row of bronze_sales 4"),
        ("fact_sales_transactions", past(sold), sold(0, nulls_amount_eur=90), "nulls_amount_eur per row"),
        ("fact_sales_transactions", past(sold), sold(0, rows=900), "rows per row of bronze_sales 0.9"),
        ("fact_sales_transactions", past(sold), {"rows": 0, "from.bronze_sales.rows": 0}, "passed: no rows, expected "),
        ("quarantine_sales", past(lambda _: {"rows": 0, "from.raw_sales.rows": 4000}), {"rows": 6}, "passed"),
        ("quarantine_sales", past(lambda _: {"rows": 0, "from.raw_sales.rows": 4000}), {"rows": 7}, "rows per row"),
        (
            "bronze_sales",
            past(refined),
            {**refined(0), "from.raw_sales.rows": 3000, "from.raw_sales.deleted": 1000},
            "passed",
        ),
        ("bronze_sales", past(refined), {**refined(0), "from.raw_sales.rows": 3000}, "rows per row of raw_sales 0.33"),
        ("quarantine_sales", past(lambda _: {"rows": 400, "from.raw_sales.rows": 4000}), {"rows": 430}, "passed"),
    ],
)
def test_a_day_is_told_from_its_past(table: str, known: dict[date, Metrics], today: Metrics, words: str) -> None:
    """Volume where rows come in; shares and means further down; counts of single things by the root of them."""
    sent = {"from.raw_sales.rows": 4000} if table.startswith("quarantine") else {}
    passed, observed, expected = judged(table, known, {**sent, **today})
    said = f"{'passed: ' * passed}{observed}, expected {expected}"
    assert words in said
    assert said.startswith("passed") is words.startswith("passed")


def test_a_quiet_day_is_unusual_once_and_not_in_each_table_below() -> None:
    """With a tenth of the rows, everything that is made of them is a tenth."""
    quiet = sold(0, 300, **{"from.bronze_sales.rows": 100}, rows=100, total_quantity=150)
    assert not judged("raw_sales", past(rows), {"rows": 100})[0]
    assert judged("fact_sales_transactions", past(sold), quiet)[0]


def test_weeks_and_months_are_compared_with_those_before_them() -> None:
    """They have no weekday."""
    table, step = CATALOG.table("report_store_ranking"), CATALOG.step("report_store_ranking")
    weeks = Cadence.WEEKLY.starts(TODAY - timedelta(days=n) for n in range(200))
    lines = "from.fact_sales_transactions.rows"
    known: dict[date, Metrics] = {week: {"rows": 100 + n % 3, lines: 30_000} for n, week in enumerate(weeks)}
    for count, passed in ((101, True), (300, False)):
        outcome = as_usual.judge(table, step, {**known, weeks[-1]: {"rows": count, lines: 30_000}}, weeks[-1])
        assert outcome
        assert outcome.passed is passed
        assert f"of {len(weeks) - 1} weeks" in outcome.expected


def test_a_table_may_declare_how_much_is_unusual_or_not_be_compared() -> None:
    days = {**past(rows), TODAY: {"rows": 500}}
    found = [
        as_usual.judge(replace(RAW, unusual_beyond=beyond), CATALOG.step("raw_sales"), days, TODAY)
        for beyond in (6.0, 9.0, None)
    ]
    assert [each and each.passed for each in found] == [False, True, None]


def test_a_total_that_agrees_with_another_table_is_compared_there_alone() -> None:
    """A rule says so: it would be unusual twice."""
    names = [each.name for each in as_usual.figures_of(CATALOG.table(REPORT), CATALOG.step(REPORT))]
    assert names == [
        "rows per row of fact_sales_transactions",
        "unknown_department per row of fact_sales_transactions",
    ]


values = st.floats(-1e6, 1e6)
kinds = st.lists(st.lists(values, min_size=4, max_size=8), min_size=1, max_size=7)


@given(kinds, values, st.floats(0.1, 100), st.floats(-1e6, 1e6))
def test_scale_and_shift_do_not_change_the_verdict(
    known: list[list[float]], value: float, scale: float, shift: float
) -> None:
    """Cents or euros, degrees Celsius or Kelvin."""
    band = learn(known[0], known, 6.0)
    moved = [[each * scale + shift for each in same] for same in known]
    other = learn(moved[0], moved, 6.0)
    distance = abs(abs(value - band.centre) - band.reach)
    if distance * scale > 1e-3:
        assert other.holds(value * scale + shift) is band.holds(value)


@given(st.lists(st.floats(900, 1100), min_size=28, max_size=56), st.integers(0, 27), st.floats(-1e9, 1e9))
def test_one_outlier_in_the_past_neither_hides_a_day_nor_accuses_one(
    known: list[float], place: int, outlier: float
) -> None:
    """Whatever the outlier is, and wherever."""
    with_outlier = [*known[:place], outlier, *known[place + 1 :]]
    weeks = [with_outlier[n::7] for n in range(7)]
    band = learn(weeks[place % 7], weeks, 6.0, least=10.0)
    assert not band.holds(0)
    assert not band.holds(3000)
    assert min(known) <= band.centre <= max(known)
