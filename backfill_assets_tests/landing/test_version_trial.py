"""What is said of a version that was tried: which rows it loses, and what of that is an error."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from backfill_assets.landing.version_trial import RuleTried, TotalTried, VersionTried
from backfill_assets.model.declaration import RuleOutcome

FACT = VersionTried("fact_visits", "v1", is_current=True, reads="bronze_visits", rows_in=48, rows_out=48)
REPORT = replace(FACT, table="report_visits", rows_out=2, aggregates=True)
WHOLE = TotalTried("cost", Decimal(96), Decimal(96), is_compared=False)
HALF = replace(WHOLE, own=Decimal(48))
BROKEN = RuleTried("fact_visits", date(2017, 3, 1), 1, RuleOutcome("few_nulls", "validity", False, "9", "0"))


def test_a_row_for_each_loses_none() -> None:
    assert FACT.is_good and not FACT.loses and not FACT.may_lose
    lost = replace(FACT, rows_out=24, totals=(HALF,))
    assert lost.loses == (
        "fact_visits, version v1 loses rows: 24 rows of 48 of bronze_visits (cost 48 of 96), and no rule compares them."
    )
    assert not lost.is_good
    assert replace(lost, is_compared=True).is_good, "a rule has said how many may be lost"
    assert replace(lost, is_current=False).is_good, "people have seen it, and made another one"


def test_fewer_rows_are_by_design_where_they_are_aggregated() -> None:
    """A sum that is less than what it is made of is a warning, and so is a table of which nothing can be seen."""
    assert not replace(REPORT, totals=(WHOLE,)).may_lose
    half = replace(REPORT, totals=(WHOLE, replace(HALF, name="visits")))
    assert half.may_lose == (
        "report_visits, version v1 may lose rows: 2 rows of 48 of bronze_visits (cost 96 of 96, visits 48 of 96), "
        "and no rule compares visits 48 of 96."
    )
    assert half.is_good and not half.loses
    assert not replace(REPORT, totals=(replace(HALF, is_compared=True),)).may_lose
    of_others = replace(REPORT, totals=(replace(HALF, of_input=None),))
    assert "Nothing that it adds up is comparable" in of_others.may_lose
    assert not replace(of_others, is_compared=True).may_lose and not replace(of_others, rows_in=0).may_lose


def test_what_holds_a_day_back_counts_for_what_is_current() -> None:
    held = replace(FACT, rules=(BROKEN,))
    assert held.holds_back and not held.is_good and replace(held, is_current=False).is_good
    warned = replace(BROKEN, outcome=replace(BROKEN.outcome, severity="warning"))
    assert replace(FACT, rules=(warned,)).is_good
    assert replace(FACT, not_tried="it reads what is not there").is_good
    assert not replace(FACT, not_tried="it cannot be computed", failed=True).is_good
