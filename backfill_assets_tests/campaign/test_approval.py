"""What an approval covers is decided from what was shown, what is staged now, and what is known of it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from backfill_assets.campaign.approval import ApprovalVerdict, Attempt, decide, moved_days, moved_sentence
from backfill_assets.campaign.breaker import Exceeded
from backfill_assets.days import TableDay
from backfill_assets.difference.kept import Difference, difference_of
from backfill_assets.difference.records import DayCompared, RowCounts, Sides, TableCompared, fingerprint_of
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest

FIRST, LATE = date(2017, 3, 1), date(2017, 3, 7)
FACT, REPORT = "fact_sales_transactions", "fact_daily_revenue"
SHOWN: Sides = {TableDay(FACT, FIRST): ("1:10", "1:11"), TableDay(FACT, LATE): ("1:20", "1:21")}
MOVED: Sides = {**SHOWN, TableDay(FACT, LATE): ("1:20", "2:99")}
MADE = datetime(2017, 6, 1, tzinfo=UTC)
OVER = Exceeded("deviation", Decimal("0.2"), Decimal("0.1"), "it differs by 20 %.")
NEARLY = Exceeded("seconds", Decimal(9), Decimal(10), "it took 9 s.", stops=False)


def comparison(contents: Sides, *expected: str) -> Difference:
    """One row of each day changes."""
    days = tuple(
        DayCompared(day=day, how="compared", rows=RowCounts(changed=1), published=published, staged=staged)
        for (_, day), (published, staged) in contents.items()
    )
    asked = PlanRequest(target=FACT, days=f"{FIRST}..{LATE}")
    plan = Plan(asked=asked, steps=(), expectations=tuple(map(Expectation.parse, expected)), made_at=MADE)
    return difference_of(plan, [TableCompared(table=FACT, days=days)], log_entry=7, made_at=MADE)


AS_EXPECTED, BROKEN = comparison(MOVED, "rows unchanged"), comparison(MOVED, "everything unchanged")
OF_BEFORE = comparison(SHOWN)


@pytest.mark.parametrize(
    ("attempt", "verdict", "reason"),
    [
        (Attempt(fingerprint_of(SHOWN), SHOWN), ApprovalVerdict.PUBLISH, "it is what was approved"),
        (Attempt(fingerprint_of(MOVED), MOVED, None, (OVER,)), ApprovalVerdict.PUBLISH, "it is what was approved"),
        (Attempt(fingerprint_of(SHOWN), MOVED), ApprovalVerdict.COMPARE, ""),
        (Attempt("", SHOWN), ApprovalVerdict.COMPARE, ""),
        (Attempt(fingerprint_of(SHOWN), MOVED, OF_BEFORE), ApprovalVerdict.STAGE_AGAIN, "main moved"),
        (Attempt(fingerprint_of(SHOWN), MOVED, AS_EXPECTED), ApprovalVerdict.PUBLISH, "as expected"),
        (Attempt(fingerprint_of(SHOWN), MOVED, AS_EXPECTED, (NEARLY,)), ApprovalVerdict.PUBLISH, "as expected"),
        (Attempt(fingerprint_of(SHOWN), MOVED, BROKEN), ApprovalVerdict.STOP, "Not as expected: everything unchanged"),
        (Attempt(fingerprint_of(SHOWN), MOVED, BROKEN, (OVER,)), ApprovalVerdict.STOP, "Not as expected"),
        (Attempt(fingerprint_of(SHOWN), MOVED, AS_EXPECTED, (NEARLY, OVER)), ApprovalVerdict.WAIT, "differs by 20 %"),
        (
            Attempt(fingerprint_of(SHOWN), MOVED, AS_EXPECTED, (), ("a", "b")),
            ApprovalVerdict.WAIT,
            "held back: a, and 1 more",
        ),
    ],
)
def test_what_was_not_approved_as_it_is_is_judged_as_it_is(
    attempt: Attempt, verdict: ApprovalVerdict, reason: str
) -> None:
    """Beyond a limit a person can approve it again; an expectation that is not met needs another plan."""
    decision = decide(attempt)
    assert decision.verdict is verdict and reason in decision.reason
    assert decision.as_approved == (fingerprint_of(attempt.staged) == attempt.approved)


def test_days_that_moved_are_named() -> None:
    """Also one that is not published any more, and one that was not to be."""
    moved = moved_days(SHOWN, {TableDay(FACT, FIRST): ("1:10", "1:11"), TableDay(REPORT, LATE): ("0:0", "1:1")})
    assert moved == {REPORT: [str(LATE)], FACT: [str(LATE)]}
    assert moved_sentence(moved) == f"Moved after the approval: {REPORT} {LATE}; {FACT} {LATE}."
    assert moved_days(SHOWN, SHOWN) == {}
