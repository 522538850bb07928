"""Who may approve a campaign, and what an approval covers. Pure.

An approval is for one difference. Days that move afterwards are staged again, and published within all expectations
and limits.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from backfill_assets.campaign.course import CampaignState, approved_by, is_published
from backfill_assets.campaign.standing import PlanFacts, page_of, standing_of
from backfill_assets.days import by_table
from backfill_assets.difference.difference import Sides, fingerprint_of
from backfill_assets.difference.letter import LetterTerms
from backfill_assets.difference.verdict import Difference
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.limits import Exceeded
from backfill_assets.plan.records import Plan, Ranges, as_ranges
from backfill_assets.rebuild.outcome import Person
from backfill_assets.settings import ApprovalRule
from backfill_assets.text import format_count
from backfill_assets.ui_addresses import asset_page

MovedDays = Mapping[str, Ranges]


class ApprovalVerdict(enum.StrEnum):
    PUBLISH = "publish"
    COMPARE = "compare it with main first"
    STAGE_AGAIN = "stage it again"
    WAIT = "wait for another approval"
    STOP = "stop"


@dataclass(frozen=True)
class ApprovalDecision:
    verdict: ApprovalVerdict
    reason: str
    as_approved: bool = False


@dataclass(frozen=True)
class Attempt:
    """What a cut-over is about to publish: the ``approved`` difference's fingerprint, the newest one ``compared``, the
    breaker's word, and days left out without consent.
    """

    approved: str
    staged: Sides
    compared: Difference | None = None
    exceeded: tuple[Exceeded, ...] = ()
    held_back: tuple[str, ...] = ()


def decide(attempt: Attempt) -> ApprovalDecision:
    """Only what was approved exactly, or judged exactly as staged, is published."""
    if fingerprint_of(attempt.staged) == attempt.approved:
        return ApprovalDecision(ApprovalVerdict.PUBLISH, "it is what was approved", as_approved=True)
    difference = attempt.compared
    if difference is None:
        return ApprovalDecision(ApprovalVerdict.COMPARE, "it is not what was approved")
    if difference.sides != attempt.staged:
        return ApprovalDecision(ApprovalVerdict.STAGE_AGAIN, "main moved while it was compared")
    if unmet := difference.unmet:
        return ApprovalDecision(ApprovalVerdict.STOP, f"{difference.sentence} Not as expected: {unmet[0].expectation}.")
    if reason := _held_back_text(attempt.held_back) or next(
        (each.sentence for each in attempt.exceeded if each.stops), ""
    ):
        return ApprovalDecision(ApprovalVerdict.WAIT, reason)
    return ApprovalDecision(ApprovalVerdict.PUBLISH, difference.sentence)


def _held_back_text(lines: Sequence[str]) -> str:
    more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
    return f"Days are held back: {lines[0]}{more}." if lines else ""


def moved_days(approved: Sides, staged: Sides) -> dict[str, Ranges]:
    found = by_table(key for key in approved.keys() | staged.keys() if approved.get(key) != staged.get(key))
    return {table: as_ranges(days) for table, days in sorted(found.items())}


def moved_sentence(moved: MovedDays) -> str:
    days = "; ".join(f"{table} {', '.join(ranges)}" for table, ranges in moved.items() if ranges)
    return f"Moved after the approval: {days or 'what was staged'}."


_ANOTHER = Person("another person")


@dataclass(frozen=True)
class Approvers:
    """``starter`` began or resumed it last. An unknown person is never another. ``listed`` approvers restrict every
    rule; ``needed`` of them have to approve.
    """

    rule: ApprovalRule
    planner: Person
    starter: Person
    listed: Collection[str] = ()
    needed: int = 1

    def why_not(self, approver: Person) -> str | None:
        if not self.listed and self.rule is ApprovalRule.ANYONE:
            return None
        if not self.listed and self.rule is ApprovalRule.LISTED:
            return "a plan has to list its approvers here, and this one lists none"
        if not approver:
            return "it is unknown who approves"
        if self.listed and approver.name not in self.listed:
            return f"the plan lists as approvers: {', '.join(sorted(self.listed))}"
        return self._why_not_another(approver) if self.rule is ApprovalRule.ANOTHER_PERSON else None

    def _why_not_another(self, approver: Person) -> str | None:
        for who, what in ((self.planner, "planned"), (self.starter, "started")):
            if not who:
                return f"another person has to approve, and it is not recorded who {what} it"
            if approver.is_same_as(who):
                return f"another person has to approve, and {who} {what} it"
        return None

    @property
    def able(self) -> list[str]:
        return [name for name in sorted(self.listed) if self.why_not(Person(name)) is None]

    @property
    def hint(self) -> str:
        if not self.listed and self.rule is ApprovalRule.LISTED:
            return "Write approvers into the file of the plan, and plan again. BACKFILL_APPROVAL_BY is listed here."
        if self.rule is ApprovalRule.ANOTHER_PERSON and not (self.planner and self.starter):
            return "Plan again and start that plan, as a user with a name (in Dagster: with the run's tag user)."
        if not self.listed:
            names = dict.fromkeys((self.planner.name, self.starter.name))
            return f"Ask someone else than {' and '.join(names)} to approve it."
        able = ", ".join(self.able)
        return f"These may: {able}." if able else "No one of them may: list others in the file, and plan again."

    @property
    def sentence(self) -> str:
        if self.listed:
            able, needed = self.able, format_count(self.needed, "approval")
            if len(able) < self.needed:
                return f"Too few: it needs {needed}, and {len(able)} of its approvers may give it."
            return f"{' or '.join(able)}." if self.needed == 1 else f"{self.needed} of these: {', '.join(able)}."
        if reason := self.why_not(_ANOTHER):
            return f"No one: {reason}."
        by = _planner_and_starter(self.planner, self.starter)
        but = f" but {by}" if self.rule is ApprovalRule.ANOTHER_PERSON else ""
        return f"Anyone{but}." if self.needed == 1 else f"{self.needed} people: anyone{but}."


def _planner_and_starter(planner: Person, starter: Person) -> str:
    if planner.is_same_as(starter):
        return f"{planner.name}, who planned and started it"
    return f"{planner.name}, who planned it, and {starter.name}, who started it"


def letter_terms(plan: Plan, rule: ApprovalRule, planner: Person, state: CampaignState, ui: str = "") -> LetterTerms:
    """Links to the UI only if Dagster's daemon carries the campaign on."""
    terms = plan.terms
    return LetterTerms(
        plan=plan.id,
        campaign=campaign_of(plan.id),
        window_days=plan.rollback_window_days,
        who=Approvers(rule, planner, state.started_by, terms.approvers, terms.approvals).sentence,
        title=terms.title,
        reason=terms.reason,
        outcome=_outcome(state),
        published=is_published(state),
        page=ui + asset_page("campaign", page_of(plan, standing_of(PlanFacts(plan.id, state))))
        if ui and state.daemon
        else "",
    )


def _outcome(state: CampaignState) -> str:
    if back := state.rolled_back:
        return f"It was rolled back on {back.at:%Y-%m-%d %H:%M} UTC {back.reason}".rstrip(" .") + "."
    if is_published(state) and (published := state.cut_over_at):
        by = approved_by(state)
        return f"It was published on {published:%Y-%m-%d %H:%M} UTC{f', approved by {by}' if by else ''}."
    if state.stopped:
        return f"It was stopped, and nothing of it is published: {state.stopped.reason.rstrip('.')}."
    return f"It was approved by {approved_by(state)}, and is not published yet." if state.approved else ""


def missing_approvers(rule: ApprovalRule, planner: Person, listed: Collection[str], needed: int) -> str | None:
    if not listed:
        return "The plan lists no approvers, and here it has to." if rule is ApprovalRule.LISTED else None
    left_out = {name for name in listed if rule is ApprovalRule.ANOTHER_PERSON and planner.is_same_as(Person(name))}
    able = len(set(listed)) - len(left_out)
    if able >= needed:
        return None
    but = f", because {planner.name} plans it" if left_out else ""
    return f"The plan needs {format_count(needed, 'approval')}, and {able} of its approvers may approve it{but}."
