"""Who may approve: every rule with every combination of who planned, started and approves."""

from __future__ import annotations

import itertools

import pytest

from backfill_assets.campaign.approvers import approvers_hint, may_approve, missing_approvers
from backfill_assets.rebuild.person import UNKNOWN, Person
from backfill_assets.settings import ApprovalRule

ANYONE, ANOTHER, LISTED = ApprovalRule
ANA, BELA, CHEN = (Person(name, "OS user, uid 1000") for name in ("ana", "bela", "chen"))
PEOPLE = (UNKNOWN, ANA, BELA, CHEN)


def test_without_a_rule_and_without_a_list_anyone_may() -> None:
    """As it was before there were rules, also for a person who is unknown."""
    for planner, starter, approver in itertools.product(PEOPLE, repeat=3):
        assert may_approve(ANYONE, planner, starter, approver, ()) is None


def test_another_person_is_neither_the_planner_nor_the_starter_and_all_are_known() -> None:
    """In every combination; an unknown person is not another one."""
    for planner, starter, approver in itertools.product(PEOPLE, repeat=3):
        may = all((planner, starter, approver)) and approver not in (planner, starter)
        assert (may_approve(ANOTHER, planner, starter, approver, ()) is None) == may


@pytest.mark.parametrize("rule", ApprovalRule)
def test_those_whom_the_plan_lists_may_and_no_one_else_by_any_rule(rule: ApprovalRule) -> None:
    """With the rule of two persons both hold."""
    for planner, starter, approver in itertools.product(PEOPLE, repeat=3):
        may = approver in (ANA, BELA)
        if rule is ANOTHER:
            may = may and bool(planner) and bool(starter) and approver not in (planner, starter)
        assert (may_approve(rule, planner, starter, approver, ["ana", "bela"]) is None) == may


def test_a_plan_that_lists_no_one_cannot_be_approved_where_it_has_to() -> None:
    for approver in PEOPLE:
        assert may_approve(LISTED, ANA, ANA, approver, ()) == (
            "a plan has to list its approvers here, and this one lists none"
        )
    assert "Write approvers into the file" in approvers_hint(LISTED, ANA, ANA, ())


def test_the_reasons_name_people_and_how_they_are_known() -> None:
    """The one who is refused learns whom to ask."""
    assert may_approve(ANOTHER, ANA, BELA, ANA, ()) == (
        "another person has to approve, and ana (OS user, uid 1000) planned it"
    )
    assert may_approve(ANOTHER, ANA, BELA, Person("BELA", "tag user of the Dagster run"), ()) == (
        "another person has to approve, and bela (OS user, uid 1000) started it"
    )
    assert may_approve(ANOTHER, UNKNOWN, BELA, ANA, ()) == (
        "another person has to approve, and it is not recorded who planned it"
    )
    assert may_approve(ANYONE, ANA, ANA, CHEN, ["bela", "ana"]) == "the plan lists as approvers: ana, bela"
    assert may_approve(ANYONE, ANA, ANA, Person("ANA", "x"), ["ana"]) is not None, "a list is taken by the letter"
    assert may_approve(ANYONE, ANA, ANA, UNKNOWN, ["ana"]) == "it is unknown who approves"


def test_the_hint_names_those_who_may() -> None:
    assert approvers_hint(ANOTHER, ANA, BELA, ()) == "Ask someone else than ana and bela to approve it."
    assert approvers_hint(ANOTHER, ANA, ANA, ()) == "Ask someone else than ana to approve it."
    assert approvers_hint(ANOTHER, ANA, BELA, ["ana", "chen"]) == "These may: chen."
    assert approvers_hint(ANYONE, UNKNOWN, UNKNOWN, ["ana", "chen"]) == "These may: ana, chen."
    assert approvers_hint(ANOTHER, ANA, BELA, ["ana", "bela"]).startswith("No one of them may")
    assert "tag user" in approvers_hint(ANOTHER, UNKNOWN, BELA, ["chen"])


def test_a_plan_that_too_few_may_approve_is_known_when_it_is_made() -> None:
    """Before anything is staged for it."""
    assert missing_approvers(ANYONE, ANA, ["ana"], 1) is None
    assert missing_approvers(ANYONE, ANA, (), 2) is None
    assert missing_approvers(LISTED, ANA, (), 1) == "The plan lists no approvers, and here it has to."
    assert missing_approvers(ANOTHER, ANA, ["ana", "bela"], 1) is None
    assert missing_approvers(ANOTHER, ANA, ["ana"], 1) == (
        "The plan needs 1 approval, and 0 of its approvers may approve it, because ana plans it."
    )
    assert missing_approvers(ANOTHER, CHEN, ["ana"], 2) == (
        "The plan needs 2 approvals, and 1 of its approvers may approve it."
    )
