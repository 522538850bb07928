"""Who may approve a campaign: by the rule of this place, and by the plan. Pure."""

from __future__ import annotations

from collections.abc import Collection

from backfill_assets.rebuild.person import Person
from backfill_assets.settings import ApprovalRule
from backfill_assets.text import format_count


def may_approve(
    rule: ApprovalRule, planner: Person, starter: Person, approver: Person, listed: Collection[str]
) -> str | None:
    """Why ``approver`` may not approve; None if they may. ``starter`` started the campaign, or resumed it last.

    ``listed`` are the approvers of the plan; they hold by any rule. An unknown person is not another person.
    """
    if not listed and rule is ApprovalRule.ANYONE:
        return None
    if not listed and rule is ApprovalRule.LISTED:
        return "a plan has to list its approvers here, and this one lists none"
    if not approver:
        return "it is unknown who approves"
    if listed and approver.name not in listed:
        return f"the plan lists as approvers: {', '.join(sorted(listed))}"
    return _why_not_another(planner, starter, approver) if rule is ApprovalRule.ANOTHER_PERSON else None


def _why_not_another(planner: Person, starter: Person, approver: Person) -> str | None:
    for who, what in ((planner, "planned"), (starter, "started")):
        if not who:
            return f"another person has to approve, and it is not recorded who {what} it"
        if approver.is_same_as(who):
            return f"another person has to approve, and {who} {what} it"
    return None


def approvers_hint(rule: ApprovalRule, planner: Person, starter: Person, listed: Collection[str]) -> str:
    """Who may approve instead, and what to do where no one may."""
    if not listed and rule is ApprovalRule.LISTED:
        return "Write approvers into the file of the plan, and plan again. BACKFILL_APPROVAL_BY is listed here."
    known = planner and starter
    if rule is ApprovalRule.ANOTHER_PERSON and not known:
        return "Plan again and start that plan, as a user with a name (in Dagster: with the run's tag user)."
    if not listed:
        return f"Ask someone else than {' and '.join(dict.fromkeys((planner.name, starter.name)))} to approve it."
    able = [name for name in sorted(listed) if may_approve(rule, planner, starter, Person(name), listed) is None]
    return f"These may: {', '.join(able)}." if able else "No one of them may: list others in the file, and plan again."


def missing_approvers(rule: ApprovalRule, planner: Person, listed: Collection[str], needed: int) -> str | None:
    """Why too few people could approve a plan of ``planner`` that was never started; None if enough can."""
    if not listed:
        return "The plan lists no approvers, and here it has to." if rule is ApprovalRule.LISTED else None
    left_out = {name for name in listed if rule is ApprovalRule.ANOTHER_PERSON and planner.is_same_as(Person(name))}
    able = len(set(listed)) - len(left_out)
    if able >= needed:
        return None
    but = f", because {planner.name} plans it" if left_out else ""
    return f"The plan needs {format_count(needed, 'approval')}, and {able} of its approvers may approve it{but}."
