"""Looks at what a cut-over is about to publish, each time something was staged again: approved, or judged anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from backfill_assets.campaign.approval import (
    ApprovalDecision,
    ApprovalVerdict,
    Attempt,
    decide,
    letter_terms,
    moved_days,
    moved_sentence,
)
from backfill_assets.campaign.breaker import Exceeded, held_back_lines
from backfill_assets.campaign.run import CampaignRun, StepReport, shadow_report
from backfill_assets.difference.find import declared_of, find_difference, last_difference
from backfill_assets.difference.kept import Difference
from backfill_assets.difference.letter import difference_answer
from backfill_assets.difference.records import TableCompared
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.plans import keep_page, page_uri
from backfill_assets.plan.cost import times_table
from backfill_assets.plan.keep import planned_by
from backfill_assets.plan.records import as_ranges
from backfill_assets.rebuild.lake import Progress
from backfill_assets.rebuild.shadow import ShadowedStep, sides_of, staged_by
from backfill_assets.report.html import html
from backfill_assets.report.markdown import markdown


@dataclass
class Review:
    """What a cut-over calls before it publishes. ``moved`` are the days that are not as they were approved."""

    at: CampaignRun
    compared: Difference | None = None
    moved: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._approved = self.at.approved_difference
        self._shown = last_difference(self.at.builder.lake.storage, self.at.plan.id)

    def __call__(self, done: Sequence[ShadowedStep], progress: Progress) -> bool:
        """True if ``done`` may be published, False if it has to be staged again first.

        Raises :class:`CampaignStopped` if it must not be: the approval is withdrawn, and the new difference is kept.
        """
        if not any(each.staged for each in done):
            return True
        decision = self._decide(done)
        if decision.verdict in (ApprovalVerdict.COMPARE, ApprovalVerdict.STAGE_AGAIN):
            self.compared = compare_and_keep(self.at, done, progress, self._known_tables())
            decision = self._decide(done)
        self.moved = {} if decision.as_approved else self._moved_days(done)
        return self._carry_out(decision, done, progress)

    def _decide(self, done: Sequence[ShadowedStep]) -> ApprovalDecision:
        knowingly = self.at.options.without_held_back
        held = () if knowingly else tuple(held_back_lines(each for step in done for each in step.held_back))
        exceeded = () if self.compared is None else tuple(self._exceeded_limits(done))
        return decide(Attempt(self._approved, sides_of(done), self.compared, exceeded, held))

    def _exceeded_limits(self, done: Sequence[ShadowedStep]) -> list[Exceeded]:
        """Not the budgets: the campaign has waited for its approval since they were judged."""
        return self.at.judge_limits(done, self.at.options.limits.without_budgets())

    def _carry_out(self, decision: ApprovalDecision, done: Sequence[ShadowedStep], progress: Progress) -> bool:
        if decision.verdict is ApprovalVerdict.PUBLISH:
            if self.moved:
                progress(f"{self.at.campaign}: {moved_sentence(self.moved)} {decision.reason}")
            return True
        if decision.verdict is ApprovalVerdict.STAGE_AGAIN or self.compared is None:
            return False
        report = evidence(self.at, done, self._exceeded_limits(done), self.compared)
        reason = f"{moved_sentence(self.moved)} {decision.reason}"
        if decision.verdict is ApprovalVerdict.STOP:
            raise self.at.stop(CampaignStep.CUT_OVER, reason, hint=self.at.plan_again, report=report)
        raise self.at.withdraw_approval(reason, report)

    def _known_tables(self) -> tuple[TableCompared, ...]:
        found = self.compared or self._shown
        return found.tables if found else ()

    def _moved_days(self, done: Sequence[ShadowedStep]) -> dict[str, list[str]]:
        """The days that moved since the approval; all days staged now if the approved difference is no longer kept."""
        if self._shown is not None and self._shown.fingerprint == self._approved:
            return moved_days(self._shown.sides, sides_of(done))
        return {table: list(as_ranges(each.build.computed)) for each in done for table in each.build.tables}


def compare_and_keep(
    at: CampaignRun, done: Sequence[ShadowedStep], progress: Progress, known: Sequence[TableCompared] = ()
) -> Difference:
    """The difference that publishing ``done`` makes; it is kept with its page, for those who approve."""
    found = find_difference(at.builder.lake, at.plan, progress, staged=staged_by(done), known=known)
    planner = planned_by(at.builder.lake.storage, at.plan.id)
    terms = letter_terms(at.plan, at.approval_by, planner, at.state, at.ui)
    answer = difference_answer(
        found, declared_of(at.catalog.steps), terms, times_table(at.plan, at.entries()), drawn=True
    )
    keep_page(at.builder.lake.storage, at.plan.id, html(answer))
    return found


def evidence(
    at: CampaignRun, done: Sequence[ShadowedStep], exceeded: Sequence[Exceeded], difference: Difference
) -> StepReport:
    """The report that asks for an approval; it has the ``fingerprint`` of the difference."""
    return {
        **shadow_report(done),
        "warnings": [each.sentence for each in exceeded],
        "sentence": difference.sentence,
        "report": page_uri(at.builder.lake.storage, at.plan.id),
        "fingerprint": difference.fingerprint,
        "difference": markdown(difference_answer(difference, declared_of(at.catalog.steps))),
    }
