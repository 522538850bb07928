"""Publishes a timeline by its plan, without a campaign's waves, comparison and approval: planned, staged, cut over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from backfill_assets import clock
from backfill_assets.campaign.cutover import CutOver, cut_over
from backfill_assets.campaign.timeline_plan import timeline_request
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.model.declaration import Step
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Plan
from backfill_assets.plan.situation import PlanContext
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.state.observed import observe, schemas_read
from backfill_assets.timeline.rewind import differing_from_main


def publish_timeline(lake: Lake, steps: Sequence[Step], timeline: NamedTimeline, campaign: str) -> CutOver:
    asked = timeline_request(steps, timeline, differing_from_main(lake.storage, timeline))
    found = shadow_steps(steps, make_plan(asked, plan_context(lake, steps)))
    if not found:
        raise InvalidRequest(f"Nothing of {timeline.name} is to be published.")
    return cut_over(lake, campaign, found, RunInfo("publish"), silent)


def shadow_steps(steps: Sequence[Step], plan: Plan) -> list[StepRequest]:
    by_name = {step.name: step for step in steps}
    planned = [each for each in plan.steps if each.kind == "rebuild" and each.days]
    return [StepRequest(by_name[each.name], each.days, each.version) for each in planned]


def plan_context(lake: Lake, steps: Sequence[Step]) -> PlanContext:
    """What a plan is made from, of a lakehouse without a landing zone."""
    seen = observe(lake.storage, [name for step in steps for name in step.table_names])
    schemas = schemas_read(lake.storage, seen)
    return PlanContext(
        steps=steps,
        observed=seen,
        begins=date(2017, 1, 1),
        now=clock.now(),
        bytes=seen.bytes,
        schemas=schemas,
        declared_schemas=schemas,
    )
