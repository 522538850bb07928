"""The steps of a plan that its campaign stages: all but raw, which is ingested into main before."""

from __future__ import annotations

from backfill_assets.datasets import registry
from backfill_assets.plan.records import Plan, PlannedStep
from backfill_assets.rebuild.shadow import ShadowStep


def rebuilt_steps(plan: Plan) -> list[PlannedStep]:
    """The steps that have days to rebuild, in build order."""
    return [each for each in plan.steps if each.kind == "rebuild" and each.days]


def shadow_steps(plan: Plan) -> list[ShadowStep]:
    """The same with their logic, by the versions that the plan names."""
    found = [(registry.step(each.name), each) for each in rebuilt_steps(plan)]
    return [ShadowStep(step, step.version(each.version), each.days) for step, each in found]
