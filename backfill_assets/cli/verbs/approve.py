from __future__ import annotations

from typing import TYPE_CHECKING

import click

from backfill_assets.cli.campaigns import campaign_run, carry_on, goes_on_after_ctrl_c, say_campaign
from backfill_assets.cli.completion import complete_plan
from backfill_assets.cli.foreground import report_step
from backfill_assets.cli.options import as_json, yes
from backfill_assets.cli.output import ask, say_answer, wants_json
from backfill_assets.errors import CampaignStopped

if TYPE_CHECKING:
    from backfill_assets.campaign.later_decisions import LaterDecisions
    from backfill_assets.campaign.run import CampaignRun
    from backfill_assets.difference.verdict import Difference
    from backfill_assets.report.answer import Part


@click.command()
@click.argument("plan", shell_complete=complete_plan)
@click.option("--without-held-back", is_flag=True, help="Publish the days that pass, even if gates hold others back.")
@yes
@as_json
def approve(plan: str, without_held_back: bool, yes: bool) -> None:
    """Publish everything that `backfill run PLAN` has staged: all tables in one publication, or nothing.

    \b
    Examples:
      backfill approve plan-0123456789abcdef           look once more, then say yes
      backfill approve plan-0123456789abcdef --yes     in a script
      backfill rollback plan-0123456789abcdef          put all of its tables back

    It shows the difference and the notice to readers, and asks. Days whose inputs have changed since they were staged
    are then staged, compared and judged again. If the new difference misses an expectation or exceeds a limit, it is
    shown, and nothing is published.

    Readers who pin the publication log see all tables old or all tables new. One rollback puts all of them back.
    Afterwards, downstream tables that are not in the plan are built, and the notice is sent. After `backfill run PLAN
    --daemon`, this command records your approval, and Dagster's daemon does the rest.
    """
    from backfill_assets.answers.campaign import later_facts

    with campaign_run(plan, "backfill approve") as at:
        parts: tuple[Part, ...] = ()
        if not _is_under_way(at):
            parts = later_facts(_take_approval(at, without_held_back=without_held_back, yes=yes))
        with goes_on_after_ctrl_c(at):
            _publish(at)
        say_campaign(at, *parts)


def _is_under_way(at: CampaignRun) -> bool:
    from backfill_assets.campaign.standing import PlanStanding, standing_of

    ended = at.settle()
    facts = at.facts
    if standing_of(facts) is not PlanStanding.PUBLISHED or (facts.course.daemon and not ended):
        return False
    report_step(f"{facts.plan} is published, as {facts.publication}: it goes on with {facts.left}")
    return True


def _publish(at: CampaignRun) -> None:
    if at.state.approved is None or at.state.daemon:
        return
    seen = _difference(at)
    try:
        carry_on(at)
    except CampaignStopped:
        if not wants_json() and _difference(at) != seen:
            _say_difference(at)
        raise


def _take_approval(at: CampaignRun, *, without_held_back: bool, yes: bool) -> LaterDecisions:
    from backfill_assets.answers.campaign import approval_answer
    from backfill_assets.campaign import decisions
    from backfill_assets.campaign.later_decisions import later_decisions
    from backfill_assets.campaign.standing import PlanWord

    at.settle_and_require(PlanWord.APPROVE)
    seen, later = _difference(at), later_decisions(at.builder.lake.publisher, at.plan, at.catalog.steps)
    if not wants_json():
        _say_difference(at)
    decisions.require_approvable(at, without_held_back=without_held_back, seen=seen)
    if not wants_json():
        say_answer(approval_answer(at, later))
    if not yes:
        ask("Publish this?")
    with goes_on_after_ctrl_c(at):
        decisions.approve(at, without_held_back=without_held_back, seen=seen)
    return later


def _difference(at: CampaignRun) -> Difference | None:
    from backfill_assets.difference.find import last_difference

    return last_difference(at.builder.lake.storage, at.plan.id)


def _say_difference(at: CampaignRun) -> None:
    from backfill_assets.answers.campaign import kept_difference_answer

    if shown := kept_difference_answer(at):
        say_answer(shown)
