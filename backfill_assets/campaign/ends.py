"""How a step ends: what it reports, and the journal's entry: done, stopped, or the approval withdrawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date

from backfill_assets import clock
from backfill_assets.campaign.breaker import held_back_lines
from backfill_assets.campaign.look import held_back_days
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.difference.find import declared_of
from backfill_assets.difference.letter import difference_answer
from backfill_assets.difference.verdict import Difference
from backfill_assets.errors import CampaignStopped
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.lakehouse.campaign_reports import ComparedReport, Report, StagedReport, StepCounts, StopReport
from backfill_assets.lakehouse.plans import page_uri
from backfill_assets.limits import Exceeded
from backfill_assets.plan.cost import step_line
from backfill_assets.plan.records import Plan, Ranges, as_ranges
from backfill_assets.rebuild.walk import StepBuilt
from backfill_assets.report.markdown import markdown


def record_step(at: CampaignRun, step: CampaignStep, report: Report) -> None:
    spent = at.time_spent(step)
    at.write(JournalEntry(kind="step", step=step, report=report, at=clock.now(), spent=spent))
    if spent is not None:
        at.progress(step_line(at.plan, step, at.entries()))


def record_wave(at: CampaignRun, number: int, report: StagedReport) -> None:
    spent = at.time_spent(CampaignStep.SHADOW)
    at.write(JournalEntry(kind="wave", wave=number, report=report, at=clock.now(), spent=spent))


def record_stop(
    at: CampaignRun, step: CampaignStep, reason: str, hint: str = "", report: StagedReport | None = None
) -> CampaignStopped:
    """The caller raises the returned error; ``hint`` is for later commands."""
    found, spent = StopReport.after(report or StagedReport(), hint), at.time_spent(step)
    at.write(JournalEntry(kind="stopped", step=step, reason=reason, report=found, at=clock.now(), spent=spent))
    before = "" if CampaignStep.CUT_OVER in at.state.done else "Nothing was published. "
    to_do = hint or f"Fix the cause, then: backfill run {at.plan.id}"
    return CampaignStopped(f"{at.plan.id} was stopped at {step.value}: {reason}", hint=f"{before}{to_do}")


def withdraw_approval(
    at: CampaignRun, reason: str, report: ComparedReport, exceeded: Exceeded | None = None
) -> CampaignStopped:
    step, spent, id = CampaignStep.CUT_OVER, at.time_spent(CampaignStep.CUT_OVER), at.plan.id
    at.write(JournalEntry(kind="withdrawn", step=step, reason=reason, report=report, at=clock.now(), spent=spent))
    look, give_up = f"Look at it: backfill status {id}.", f"Or give it up: backfill timeline delete {id}"
    others = f"Then approve it again: backfill approve {id}" if exceeded is None else allow_more(at.plan, exceeded)
    return CampaignStopped(
        f"{id} waits for approval again. Nothing was published. {reason}", hint=f"{look} {others}. {give_up}"
    )


# ------------------------------------------------------------------ what helps


def allow_more(plan: Plan, exceeded: Exceeded) -> str:
    if plan.terms.limits:
        return "Or allow more in the file of the plan, and plan again"
    return f"Or allow more: backfill run {plan.id} --limits {exceeded.limit}=VALUE"


def plan_again(plan: Plan) -> str:
    """Expectations are part of the plan: running it again cannot help."""
    again = f"Plan again with what is to be expected instead: {plan.command('TEXT')}."
    if not plan.terms.empty:
        again = f"Change what is expected in the file of the plan, and plan again: {plan.command()}."
    return f"{again} Or give this one up: backfill timeline delete {plan.id}"


# ------------------------------------------------------------------ what it reports


def shadow_report(done: Iterable[StepBuilt], warnings: Iterable[Exceeded] = ()) -> StagedReport:
    steps = list(done)
    held = [each for step in steps for each in step.held_back]
    return StagedReport(
        days={each.step: _counts(each) for each in steps},
        staged=_ranges_by_table(steps, lambda each: each.staged),
        unchanged=_ranges_by_table(steps, lambda each: each.kept),
        held_back=tuple(held_back_lines(held)),
        held_back_days=held_back_days(held),
        warnings=tuple(each.sentence for each in warnings),
    )


def _counts(built: StepBuilt) -> StepCounts:
    held = {each.day for each in built.held_back}
    return StepCounts(staged=len(built.staged), unchanged=len(built.kept), held_back=len(held))


def _ranges_by_table(steps: Iterable[StepBuilt], days: Callable[[StepBuilt], Iterable[date]]) -> dict[str, Ranges]:
    found = {table: as_ranges(days(each)) for each in steps for table in each.build.tables}
    return {table: ranges for table, ranges in found.items() if ranges}


def evidence(
    at: CampaignRun, done: Sequence[StepBuilt], exceeded: Sequence[Exceeded], difference: Difference
) -> ComparedReport:
    return ComparedReport.of(
        shadow_report(done, exceeded),
        sentence=difference.sentence,
        page=page_uri(at.storage, at.plan.id),
        fingerprint=difference.fingerprint,
        difference=markdown(difference_answer(difference, declared_of(at.catalog.steps))),
    )
