"""What the commands of a campaign share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_assets.cli.foreground import foreground_builder, report_progress, report_step, run_info
from backfill_assets.cli.group import Interrupted
from backfill_assets.cli.ids import find_plan
from backfill_assets.cli.output import deliver_notices, notice_sender, say_answer
from backfill_assets.cli.wiring import current_settings, open_storage

if TYPE_CHECKING:
    from backfill_assets.campaign.options import Options
    from backfill_assets.campaign.run import CampaignRun
    from backfill_assets.campaign.standing import PlanFacts
    from backfill_assets.plan.records import Plan
    from backfill_assets.report.answer import Part


@contextmanager
def campaign_run(plan: str, command: str) -> Iterator[CampaignRun]:
    from backfill_assets.campaign.run import CampaignRun
    from backfill_assets.cli.running_dev import running_ui

    settings = current_settings()
    with foreground_builder() as builder:
        yield CampaignRun.of_settings(
            settings,
            builder,
            find_plan(open_storage(), plan),
            run_info(command),
            report_progress,
            running_ui(settings),
        )


@contextmanager
def goes_on_after_ctrl_c(at: CampaignRun) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{interrupted_sentence(at.facts)}\n  -> Run the same command again: it goes on.") from None


def interrupted_sentence(facts: PlanFacts) -> str:
    from backfill_assets.campaign.standing import PlanStanding, standing_of

    plan, published = facts.plan, facts.publication
    found = {
        PlanStanding.NOT_STARTED: f"Interrupted before {plan} was started.",
        PlanStanding.STAGING: f"Interrupted while {plan} was staged: nothing is published, and staged days are kept.",
        PlanStanding.WAITING: f"Interrupted: {plan} is staged and waits for approval; nothing is published.",
        PlanStanding.APPROVED: f"Interrupted: {plan} is approved, and nothing of it is published yet.",
        PlanStanding.HALF_PUBLISHED: f"Interrupted while {plan} was published: {facts.half_done} is begun, and is ended"
        " by the next command.",
        PlanStanding.PUBLISHED: f"Interrupted: {plan} is published, as {published}. Not done yet: {facts.left}.",
    }
    return found.get(standing_of(facts), f"Interrupted: {plan} is {standing_of(facts).value}.")


def carry_on(at: CampaignRun) -> None:
    from backfill_assets.campaign import steps
    from backfill_assets.plan.keep import observe_context_of

    settings = current_settings()
    sender = notice_sender(settings)
    steps.carry_on(at, sender, lambda plan: observe_context_of(settings, at.catalog, plan), report_step)


def say_campaign(at: CampaignRun, *parts: Part, journal: bool = False) -> None:
    from backfill_assets.answers.campaign import campaign_answer

    answer = campaign_answer(at, journal=journal)
    say_answer(replace(answer, parts=(*answer.parts, *parts)))


def stage_plan(plan: str, options_of: Callable[[Plan], Options]) -> None:
    from backfill_assets.campaign import decisions
    from backfill_assets.plan.keep import require_carried_out

    with campaign_run(plan, "backfill run") as at:
        options = options_of(at.plan)
        require_carried_out(current_settings(), at.catalog, at.plan, started=at.state.started)
        with goes_on_after_ctrl_c(at):
            decisions.start(at, options)
            if not options.daemon:
                carry_on(at)
                # Retries notices that could not be sent when the campaign was announced.
                deliver_notices(current_settings(), at.builder.lake.publisher)
        say_campaign(at)
