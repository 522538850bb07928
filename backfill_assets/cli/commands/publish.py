"""``backfill publish``: brings a timeline into main by a plan, whose days are staged on it already."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.commands.campaign import stage_plan
from backfill_assets.cli.completion import complete_table, complete_timeline
from backfill_assets.cli.foreground import report_step
from backfill_assets.cli.ids import find_timeline as find_timeline_name
from backfill_assets.cli.output import say, say_json
from backfill_assets.cli.plan_screen import say_plan
from backfill_assets.cli.queries.campaign_table import facts_of
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher

if TYPE_CHECKING:
    from backfill_assets.campaign.course import CampaignState
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.plan.records import Plan
    from backfill_assets.plan.status import DayStatus

_EPILOG = """
\b
Examples:
  backfill publish with-v2
  backfill publish with-v2 --expect "rows unchanged" --expect "weekends unchanged"
  backfill publish with-v2 --plan-only        the plan, for others to look at
"""


@click.command(epilog=_EPILOG)
@click.argument("name", shell_complete=complete_timeline)
@click.option(
    "--table",
    default="",
    shell_complete=complete_table,
    metavar="TABLE",
    help="Only this table, and what is computed from it.",
)
@click.option("--expect", "expected", multiple=True, metavar="TEXT", help="As in `backfill plan`.")
@click.option("--limits", default="", metavar="NAME=VALUE,..", help="As in `backfill run PLAN`.")
@click.option("--plan-only", is_flag=True, help="Make the plan, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def publish(
    ctx: click.Context, name: str, table: str, expected: tuple[str, ...], limits: str, plan_only: bool, as_json: bool
) -> None:
    """Plan what the timeline NAME holds and main does not, and stage it for approval.

    Days that the timeline has computed are used as they are; days whose inputs have changed since are computed again.
    It stops before anything is published: `backfill diff PLAN` shows what would change, `backfill approve PLAN`
    publishes all tables at once, and `backfill rollback` undoes it. The timeline stays as it is. Type the same again
    after a kill or a stop: the plan that was begun goes on.

    The exit code is 1 if a finding blocks the plan.
    """
    from backfill_assets.campaign.breaker import Limits
    from backfill_assets.campaign.run import Options
    from backfill_assets.campaign.timeline_plan import left_sentence, plan_begun, timeline_request
    from backfill_assets.lakehouse.named_timelines import find_timeline
    from backfill_assets.plan.expectations import Expectation
    from backfill_assets.plan.keep import plan_and_keep
    from backfill_assets.rebuild.person import os_person
    from backfill_assets.timeline.rewind import differing_from_main

    options, settings = Options(limits=Limits.parse(limits)), current_settings()
    publisher = open_publisher(settings)
    name = find_timeline_name(publisher.storage, name, change=True)
    found = find_timeline(publisher.storage, name, publisher.now())
    asked = timeline_request(current_catalog().steps, found, differing_from_main(publisher.storage, found), table)
    begun = plan_begun(asked, [Expectation.parse(text) for text in expected], _open_plans(publisher.storage))
    if begun is not None and not plan_only:
        report_step(f"{begun.id} was begun for this before: it goes on")
        stage_plan(begun.id, lambda _: options, None, as_json)
        return
    plan, now = plan_and_keep(settings, current_catalog(), asked, expected, by=os_person())
    if not as_json:
        say_plan(plan, now)
        say(*filter(None, [left_sentence(asked, name, _statuses(publisher.storage, asked.target))]))
    if plan.stopped or plan_only:
        if as_json:
            say_json({"plan": plan.id, "stopped": plan.stopped})
        ctx.exit(1 if plan.stopped else 0)
    stage_plan(plan.id, lambda _: options, None, as_json)


def _statuses(storage: Storage, table: str) -> Mapping[date, DayStatus]:
    from backfill_assets.plan.status import day_statuses
    from backfill_assets.published.observed import observe

    observed = observe(storage, current_catalog().table_names)
    return day_statuses(observed.with_current(current_catalog().steps), observed)[table]


def _open_plans(storage: Storage) -> list[tuple[Plan, CampaignState]]:
    """Those that can go on: of the days of the others, a new plan is made."""
    from backfill_assets.campaign.standing import PlanStanding, standing_of
    from backfill_assets.plan.observe import open_plans

    found = ((plan, facts_of(storage, plan)) for plan in open_plans(storage))
    return [(plan, facts.course) for plan, facts in found if standing_of(facts) is not PlanStanding.OVERTAKEN]
