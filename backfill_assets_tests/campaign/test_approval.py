"""What an approval covers is decided from what was shown, what is staged now, and what is known of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from backfill_assets.campaign.approval import (
    ApprovalVerdict,
    Approvers,
    Attempt,
    decide,
    letter_terms,
    missing_approvers,
    moved_days,
    moved_sentence,
)
from backfill_assets.campaign.course import state_of
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.standing import PlanStanding, page_of
from backfill_assets.days import TableDay
from backfill_assets.difference.difference import DayCompared, RowCounts, Sides, TableCompared, fingerprint_of
from backfill_assets.difference.verdict import Difference, difference_of
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.limits import Exceeded
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest, PlanTerms
from backfill_assets.rebuild.outcome import UNKNOWN, Person
from backfill_assets.settings import ApprovalRule
from backfill_assets.ui_addresses import asset_page

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
    expectations = tuple(map(Expectation.parse, expected))
    asked = PlanRequest(target=FACT, days=f"{FIRST}..{LATE}", expectations=expectations)
    plan = Plan(asked=asked, steps=(), made_at=MADE)
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
    assert moved == {REPORT: (str(LATE),), FACT: (str(LATE),)}
    assert moved_sentence(moved) == f"Moved after the approval: {REPORT} {LATE}; {FACT} {LATE}."
    assert moved_days(SHOWN, SHOWN) == {}


ANYONE, ANOTHER, LISTED = ApprovalRule
ANA, BELA, CHEN = (Person(name, "OS user, uid 1000") for name in ("ana", "bela", "chen"))
PEOPLE = (UNKNOWN, ANA, BELA, CHEN)


def test_another_person_is_neither_the_planner_nor_the_starter_and_all_are_known() -> None:
    """In every combination; an unknown person is not another one."""
    for planner, starter, approver in itertools.product(PEOPLE, repeat=3):
        may = all((planner, starter, approver)) and approver not in (planner, starter)
        assert (Approvers(ANOTHER, planner, starter, ()).why_not(approver) is None) == may


@pytest.mark.parametrize("rule", ApprovalRule)
def test_those_whom_the_plan_lists_may_and_no_one_else_by_any_rule(rule: ApprovalRule) -> None:
    """With the rule of two persons both hold."""
    for planner, starter, approver in itertools.product(PEOPLE, repeat=3):
        may = approver in (ANA, BELA)
        if rule is ANOTHER:
            may = may and bool(planner) and bool(starter) and approver not in (planner, starter)
        assert (Approvers(rule, planner, starter, ["ana", "bela"]).why_not(approver) is None) == may


@pytest.mark.parametrize(
    ("rule", "planner", "starter", "listed", "needed", "who"),
    [
        (ANYONE, UNKNOWN, UNKNOWN, (), 1, "Anyone."),
        (ANYONE, ANA, ANA, (), 2, "2 people: anyone."),
        (ANYONE, ANA, ANA, ("chen", "bela"), 1, "bela or chen."),
        (ANYONE, ANA, ANA, ("chen", "bela", "ana"), 2, "2 of these: ana, bela, chen."),
        (ANOTHER, ANA, ANA, (), 1, "Anyone but ana, who planned and started it."),
        (ANOTHER, ANA, BELA, (), 2, "2 people: anyone but ana, who planned it, and bela, who started it."),
        (ANOTHER, UNKNOWN, ANA, (), 1, "No one: another person has to approve, and it is not recorded who planned it."),
        (ANOTHER, ANA, UNKNOWN, (), 1, "No one: another person has to approve, and it is not recorded who started it."),
        (ANOTHER, ANA, ANA, ("ana", "bela"), 1, "bela."),
        (ANOTHER, ANA, ANA, ("ana", "bela"), 2, "Too few: it needs 2 approvals, and 1 of its approvers may give it."),
        (LISTED, ANA, ANA, (), 1, "No one: a plan has to list its approvers here, and this one lists none."),
        (LISTED, ANA, ANA, ("ana",), 1, "ana."),
    ],
)
def test_the_letter_says_who_may_approve(
    rule: ApprovalRule, planner: Person, starter: Person, listed: tuple[str, ...], needed: int, who: str
) -> None:
    assert Approvers(rule, planner, starter, listed, needed).sentence == who


def entry(kind: str, hour: int, **more: object) -> JournalEntry:
    return JournalEntry.model_validate({"kind": kind, "at": datetime(2017, 6, 2, hour, tzinfo=UTC), **more})


def step(step: CampaignStep, hour: int) -> JournalEntry:
    return entry("step", hour, step=step.value)


def test_the_letter_has_what_the_plan_says_and_what_became_of_it() -> None:
    """While it waits, no outcome; a publication can be undone until it was."""
    plan = Plan(
        asked=PlanRequest(
            target="fact_daily_revenue",
            days="2017-03-01",
            terms=PlanTerms(title="Rates", reason="of the right day", approvers=("bela",)),
        ),
        steps=(),
        rollback_window_days=14,
        made_at=datetime(2017, 6, 1, tzinfo=UTC),
    )
    waits = [entry("started", 1, report={"who": ANA.name, "known by": ANA.known_by}), step(CampaignStep.VALIDATE, 2)]
    approved = [*waits, entry("approved", 3, report={"who": BELA.name, "known by": BELA.known_by})]
    published = [*approved, step(CampaignStep.CUT_OVER, 4)]

    def outcome(*journal: JournalEntry) -> tuple[str, bool]:
        found = letter_terms(plan, ANYONE, ANA, state_of("campaign-x", journal))
        assert (found.plan, found.campaign) == (plan.id, plan.id.replace("plan-", "campaign-"))
        assert (found.title, found.reason, found.window_days, found.who) == ("Rates", "of the right day", 14, "bela.")
        return found.outcome, found.published

    by = "bela (OS user, uid 1000)"
    assert outcome(*waits) == ("", False)
    assert outcome(*approved) == (f"It was approved by {by}, and is not published yet.", False)
    assert outcome(*published) == (f"It was published on 2017-06-02 04:00 UTC, approved by {by}.", True)
    back = entry("rolled back", 5, reason="by eva")
    assert letter_terms(plan, ANYONE, ANA, state_of("campaign-x", waits)).page == ""
    for journal in (waits, published, [*published, back]):
        by_commands = state_of("campaign-x", journal)
        assert letter_terms(plan, ANYONE, ANA, by_commands, "http://127.0.0.1:3000").page == ""
        linked = letter_terms(
            plan, ANYONE, ANA, replace(by_commands, options=Options(daemon=True)), "http://127.0.0.1:3000"
        )
        standing = PlanStanding.WAITING if journal is waits else PlanStanding.UNDONE
        standing = PlanStanding.LIVE if journal is published else standing
        assert linked.page == "http://127.0.0.1:3000" + asset_page("campaign", page_of(plan, standing))
    assert outcome(*published, back) == ("It was rolled back on 2017-06-02 05:00 UTC by eva.", False)
    stopped = entry("stopped", 3, reason="the canary differs by 7 %.")
    assert outcome(*waits, stopped) == (
        "It was stopped, and nothing of it is published: the canary differs by 7 %.",
        False,
    )


@pytest.mark.parametrize(
    ("approvers", "approver", "reason", "hint"),
    [
        (Approvers(ANYONE, UNKNOWN, UNKNOWN, ()), UNKNOWN, None, ""),
        (Approvers(ANYONE, ANA, ANA, ()), ANA, None, ""),
        (
            Approvers(LISTED, ANA, ANA, ()),
            BELA,
            "a plan has to list its approvers here",
            "Write approvers into the file",
        ),
        (
            Approvers(ANOTHER, ANA, BELA, ()),
            ANA,
            "another person has to approve, and ana (OS user, uid 1000) planned it",
            "Ask someone else than ana and bela to approve it.",
        ),
        (
            Approvers(ANOTHER, ANA, BELA, ()),
            Person("BELA", "tag user of the Dagster run"),
            "another person has to approve, and bela (OS user, uid 1000) started it",
            "Ask someone else than ana and bela to approve it.",
        ),
        (Approvers(ANOTHER, ANA, ANA, ()), ANA, "planned it", "Ask someone else than ana to approve it."),
        (
            Approvers(ANOTHER, UNKNOWN, BELA, ["chen"]),
            CHEN,
            "another person has to approve, and it is not recorded who planned it",
            "tag user",
        ),
        (Approvers(ANOTHER, ANA, BELA, ["ana", "chen"]), ANA, "planned it", "These may: chen."),
        (Approvers(ANOTHER, ANA, BELA, ["ana", "bela"]), ANA, "planned it", "No one of them may"),
        (
            Approvers(ANYONE, ANA, ANA, ["bela", "ana"]),
            CHEN,
            "the plan lists as approvers: ana, bela",
            "These may: ana, bela.",
        ),
        (
            Approvers(ANYONE, ANA, ANA, ["ana"]),
            Person("ANA", "x"),
            "the plan lists as approvers: ana",
            "These may: ana.",
        ),
        (Approvers(ANYONE, ANA, ANA, ["ana"]), UNKNOWN, "it is unknown who approves", "These may: ana."),
    ],
)
def test_who_is_refused_learns_why_and_whom_to_ask(
    approvers: Approvers, approver: Person, reason: str | None, hint: str
) -> None:
    """By name, and how they are known; a list is taken by the letter."""
    found = approvers.why_not(approver)
    assert found is None if reason is None else reason in str(found)
    assert hint in approvers.hint


@pytest.mark.parametrize(
    ("rule", "planner", "listed", "needed", "lacks"),
    [
        (ANYONE, ANA, ["ana"], 1, None),
        (ANYONE, ANA, (), 2, None),
        (LISTED, ANA, (), 1, "The plan lists no approvers, and here it has to."),
        (ANOTHER, ANA, ["ana", "bela"], 1, None),
        (
            ANOTHER,
            ANA,
            ["ana"],
            1,
            "The plan needs 1 approval, and 0 of its approvers may approve it, because ana plans it.",
        ),
        (ANOTHER, CHEN, ["ana"], 2, "The plan needs 2 approvals, and 1 of its approvers may approve it."),
    ],
)
def test_a_plan_that_too_few_may_approve_is_known_when_it_is_made(
    rule: ApprovalRule, planner: Person, listed: Sequence[str], needed: int, lacks: str | None
) -> None:
    """Before anything is staged for it."""
    assert missing_approvers(rule, planner, listed, needed) == lacks
