"""The steps of a plan that its campaign stages: all but raw, which is ingested into main before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from backfill_assets.model.catalog import Catalog
from backfill_assets.plan.records import Plan, PlannedStep
from backfill_assets.rebuild.shadow import ShadowStep


def rebuilt_steps(plan: Plan) -> list[PlannedStep]:
    """The steps that have days to rebuild, in build order."""
    return [each for each in plan.steps if each.kind == "rebuild" and each.days]


def shadow_steps(catalog: Catalog, plan: Plan, days: Mapping[str, tuple[date, ...]] | None = None) -> list[ShadowStep]:
    """The same with their logic, by the versions that the plan names; of those in ``days`` just these, by step."""
    steps = rebuilt_steps(plan)
    chosen = {each.name: each.days for each in steps} if days is None else days
    found = [(catalog.step(each.name), each.version) for each in steps if each.name in chosen]
    return [ShadowStep(step, step.version(version), chosen[step.name]) for step, version in found]
