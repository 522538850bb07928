"""Two ways to publish a timeline: by a plan that is approved, or at once as the current version of its step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backfill_assets.cli.campaigns import stage_plan
from backfill_assets.cli.foreground import report_step, run_info
from backfill_assets.cli.ids import find_timeline
from backfill_assets.cli.output import ask, say, say_answer
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
from backfill_assets.report.answer import Answer, Fact, Id

if TYPE_CHECKING:
    from datetime import date

    from backfill_assets.campaign.course import CampaignState
    from backfill_assets.lakehouse.named_timelines import NamedTimeline
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.plan.records import Plan
    from backfill_assets.plan.status import DayStatus
    from backfill_assets.rebuild.lake import Lake


def publish_as_current(
    lake: Lake, timeline: NamedTimeline, *, new_days_only: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Show what becomes current, ask, and publish days and version together."""
    from backfill_assets.answers.timelines import as_current_answer
    from backfill_assets.timeline.switch import carry_out_switch, plan_switch

    plan = plan_switch(lake, timeline, new_days_only=new_days_only)
    shown = as_current_answer(plan)
    if dry_run or not as_json:
        say_answer(shown, as_json=as_json)
    if dry_run:
        return
    if not yes:
        ask(f"Make {plan.version} of {plan.step.name} current?")
    done = carry_out_switch(lake, plan, run_info("backfill timeline publish --as-current")).publication
    published = Fact("publication", Id(done))
    parts = (*shown.parts, published) if as_json else (published,)
    say_answer(replace(shown, parts=parts, next=(f"backfill rollback {done}",)), as_json=as_json)


def publish_by_plan(name: str, table: str, expected: Sequence[str], *, dry_run: bool, as_json: bool) -> bool:
    """Plan it and stage the plan; one that was begun for the same goes on. Whether a finding blocks it."""
    from backfill_assets.answers.plan import plan_answer
    from backfill_assets.campaign.run import Options
    from backfill_assets.campaign.timeline_plan import left_sentence, plan_begun, timeline_request
    from backfill_assets.lakehouse import named_timelines
    from backfill_assets.plan.expectations import Expectation
    from backfill_assets.plan.keep import plan_and_keep
    from backfill_assets.rebuild.person import os_person
    from backfill_assets.timeline.rewind import differing_from_main

    settings = current_settings()
    publisher = open_publisher(settings)
    storage = publisher.storage
    found = named_timelines.find_timeline(storage, find_timeline(storage, name, change=True), publisher.now())
    asked = timeline_request(current_catalog().steps, found, differing_from_main(storage, found), table)
    begun = plan_begun(asked, [Expectation.parse(text) for text in expected], _open_plans(storage))
    if begun is not None and not dry_run:
        report_step(f"{begun.id} was begun for this before: it goes on")
        stage_plan(begun.id, Options.of_plan, as_json=as_json)
        return False
    plan, now = plan_and_keep(settings, current_catalog(), asked, expected, by=os_person())
    if not as_json:
        say_answer(plan_answer(plan, now))
        say(*filter(None, [left_sentence(asked, found.name, _statuses(storage, asked.target))]))
    if plan.stopped or dry_run:
        if as_json:
            say_answer(Answer(parts=(Fact("plan", Id(plan.id)), Fact("stopped", plan.stopped))), as_json=True)
        return plan.stopped
    stage_plan(plan.id, Options.of_plan, as_json=as_json)
    return False


def _statuses(storage: Storage, table: str) -> Mapping[date, DayStatus]:
    from backfill_assets.plan.status import day_statuses
    from backfill_assets.published.observed import observe

    observed = observe(storage, current_catalog().table_names)
    return day_statuses(observed.with_current(current_catalog().steps), observed)[table]


def _open_plans(storage: Storage) -> list[tuple[Plan, CampaignState]]:
    """Those that can go on: of the days of the others, a new plan is made."""
    from backfill_assets.campaign.look import look
    from backfill_assets.campaign.standing import PlanStanding, standing_of
    from backfill_assets.lakehouse.campaign_journal import campaign_of
    from backfill_assets.plan.keep import open_plans
    from backfill_assets.publication.publisher import Publisher

    publisher = Publisher(storage)
    found = ((plan, look(publisher, campaign_of(plan.id), plan)) for plan in open_plans(storage))
    return [(plan, facts.course) for plan, facts in found if standing_of(facts) is not PlanStanding.OVERTAKEN]
