"""What people decide about a campaign: to start it, to approve it, to give it up. Each is an entry of its journal."""

from __future__ import annotations

from backfill_assets import clock
from backfill_assets.campaign.approval import Approvers
from backfill_assets.campaign.ends import plan_again
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.standing import PlanWord
from backfill_assets.campaign.steps import decommission
from backfill_assets.difference.verdict import Difference
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import JournalEntry, set_damaged_aside
from backfill_assets.lakehouse.campaign_reports import ApprovalReport, StopReport
from backfill_assets.plan.keep import planned_by
from backfill_assets.publish.outbox import begins_key, withdraw


def start(at: CampaignRun, options: Options) -> None:
    """Start, or resume what was stopped or rolled back.

    Raises :class:`InvalidRequest` for a limit on money without a price, for waves or limits other than the plan's,
    and if nothing is to be staged.
    """
    options.require_as_planned(at.plan)
    if not any(each.days or each.source_files for each in at.plan.steps):
        hint = f"backfill status {at.plan.asked.target} shows them. To rebuild them all the same: plan with --force."
        raise InvalidRequest(f"{at.plan.id} has nothing to rebuild: every day of it is fresh.", hint=hint)
    if options.limits.money is not None and at.price_per_core_second is None:
        hint = "Set BACKFILL_CORE_HOUR_PRICE, or limit seconds instead."
        raise InvalidRequest("Money cannot be limited: the price of a core hour is not set.", hint=hint)
    at.settle_and_require(PlanWord.RUN)
    before, report = at.state, options.report(at.run.person)
    kind: journal.Kind = "resumed" if before.started else "started"
    at.write(JournalEntry(kind=kind, report=report, at=clock.now(), again=bool(before.rolled_back)))


# ------------------------------------------------------------------ approved


def approvers(at: CampaignRun) -> Approvers:
    planner, terms = planned_by(at.storage, at.plan.id), at.plan.terms
    return Approvers(at.approval_by, planner, at.state.started_by, terms.approvers, terms.approvals)


def approve(at: CampaignRun, *, without_held_back: bool = False, seen: Difference | None = None) -> None:
    """``seen`` is by default the difference that VALIDATE reported.

    Raises like :meth:`CampaignRun.settle_and_require` and :func:`require_approvable`.
    """
    at.settle_and_require(PlanWord.APPROVE)
    require_approvable(at, without_held_back=without_held_back, seen=seen)
    person = at.run.person
    report = ApprovalReport(
        fingerprint=seen.fingerprint if seen else at.state.validation.fingerprint,
        who=person.name,
        known_by=person.known_by,
        needed=at.plan.terms.approvals,
        without_held_back=without_held_back,
    )
    at.write(JournalEntry(kind="approved", at=clock.now(), reason=at.plan.id, report=report))


def require_approvable(at: CampaignRun, *, without_held_back: bool = False, seen: Difference | None = None) -> None:
    """Raise :class:`InvalidRequest` if the person may not approve, the difference is not as expected, or days are held
    back (unless ``without_held_back``).
    """
    _require_approver(at)
    if seen is not None and seen.unmet:
        unmet = seen.unmet[0].expectation
        raise InvalidRequest(f"{at.plan.id} is not as expected: {unmet}.", hint=plan_again(at.plan))
    held = at.state.validation.held_back
    if held and not without_held_back:
        more = f", and {len(held) - 1} more" if len(held) > 1 else ""
        hint = f"Fix them, then: backfill run {at.plan.id}. Or publish the others: --without-held-back."
        raise InvalidRequest(f"Days of {at.plan.id} are held back: {held[0]}{more}.", hint=hint)


def _require_approver(at: CampaignRun) -> None:
    able = approvers(at)
    if reason := able.why_not(at.run.person):
        who = str(at.run.person or at.run.launched_by or "an unknown person")
        raise InvalidRequest(f"{at.plan.id} cannot be approved by {who}: {reason}.", hint=able.hint)


# ------------------------------------------------------------------ given up


def give_up(at: CampaignRun) -> None:
    """Give up before the cut-over; raises :class:`InvalidRequest` otherwise. Unreadable journal entries are set
    aside.
    """
    begun = JournalEntry(kind="started", at=clock.now(), by=at.run.launched_by, reason="its journal was damaged")
    set_damaged_aside(at.storage, at.campaign, begun)
    at.settle_and_require(PlanWord.ABANDON)
    decommission(at)
    withdraw(at.storage, begins_key(at.campaign))
    reason, report = f"{at.run.launched_by} abandoned it", StopReport(abandoned=True)
    at.write(JournalEntry(kind="stopped", at=clock.now(), reason=reason, report=report))
