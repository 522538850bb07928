"""Whether a cut-over may publish what it has staged: as approved, or compared and judged again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from backfill_assets.campaign.approval import (
    ApprovalDecision,
    ApprovalVerdict,
    Attempt,
    MovedDays,
    decide,
    moved_days,
    moved_sentence,
)
from backfill_assets.campaign.breaker import held_back_lines
from backfill_assets.campaign.ends import evidence, plan_again, record_stop, withdraw_approval
from backfill_assets.campaign.look import plan_difference_answer
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.staging import judge_limits
from backfill_assets.difference.difference import TableCompared
from backfill_assets.difference.find import find_difference, last_difference
from backfill_assets.difference.verdict import Difference
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.plans import keep_page
from backfill_assets.limits import Exceeded
from backfill_assets.plan.records import as_ranges
from backfill_assets.rebuild.lake import Progress
from backfill_assets.rebuild.walk import StepBuilt, sides_of, staged_by
from backfill_assets.report.html import html


@dataclass
class Review:
    at: CampaignRun
    compared: Difference | None = None
    moved: MovedDays = field(default_factory=dict)

    def __post_init__(self) -> None:
        approved = self.at.state.approved
        self._approved = (approved.fingerprint or "") if approved else ""
        self._shown = last_difference(self.at.storage, self.at.plan.id)

    def __call__(self, done: Sequence[StepBuilt], progress: Progress) -> bool:
        """True if ``done`` may be published, False if it has to be staged again first.

        Raises :class:`CampaignStopped` if neither: the approval is withdrawn, and the new difference is kept.
        """
        if not any(each.staged for each in done):
            return True
        decision = self._decide(done)
        if decision.verdict in (ApprovalVerdict.COMPARE, ApprovalVerdict.STAGE_AGAIN):
            self.compared = compare_and_keep(self.at, done, progress, self._known_tables())
            decision = self._decide(done)
        self.moved = {} if decision.as_approved else self._moved_days(done)
        return self._carry_out(decision, done, progress)

    def _decide(self, done: Sequence[StepBuilt]) -> ApprovalDecision:
        knowingly = self.at.options.without_held_back
        held = () if knowingly else tuple(held_back_lines(each for step in done for each in step.held_back))
        exceeded = () if self.compared is None else tuple(self._exceeded_limits(done))
        return decide(Attempt(self._approved, sides_of(done), self.compared, exceeded, held))

    def _exceeded_limits(self, done: Sequence[StepBuilt]) -> list[Exceeded]:
        """Leaves out budgets: time has passed while the campaign waited for approval."""
        return judge_limits(self.at, done, self.at.options.limits.without_budgets())

    def _carry_out(self, decision: ApprovalDecision, done: Sequence[StepBuilt], progress: Progress) -> bool:
        if decision.verdict is ApprovalVerdict.PUBLISH:
            if self.moved:
                progress(f"{self.at.plan.id}: {moved_sentence(self.moved)} {decision.reason}")
            return True
        if decision.verdict is ApprovalVerdict.STAGE_AGAIN or self.compared is None:
            return False
        exceeded = self._exceeded_limits(done)
        report = evidence(self.at, done, exceeded, self.compared)
        reason = f"{moved_sentence(self.moved)} {decision.reason}"
        if decision.verdict is ApprovalVerdict.STOP:
            raise record_stop(self.at, CampaignStep.CUT_OVER, reason, hint=plan_again(self.at.plan), report=report)
        raise withdraw_approval(self.at, reason, report, next((each for each in exceeded if each.stops), None))

    def _known_tables(self) -> tuple[TableCompared, ...]:
        found = self.compared or self._shown
        return found.tables if found else ()

    def _moved_days(self, done: Sequence[StepBuilt]) -> MovedDays:
        if self._shown is not None and self._shown.fingerprint == self._approved:
            return moved_days(self._shown.sides, sides_of(done))
        return {table: as_ranges(each.build.computed) for each in done for table in each.build.tables}


def compare_and_keep(
    at: CampaignRun, done: Sequence[StepBuilt], progress: Progress, known: Sequence[TableCompared] = ()
) -> Difference:
    storage = at.storage
    found = find_difference(at.lake, at.plan, progress, staged=staged_by(done), known=known)
    log = at.lake.publisher.log
    answer = plan_difference_answer(log, at.plan, found, at.catalog.steps, at.approval_by, ui=at.ui, drawn=True)
    keep_page(storage, at.plan.id, html(answer))
    return found
