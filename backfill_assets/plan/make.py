"""Makes a plan from a request and the situation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from backfill_assets.days import TableDay
from backfill_assets.model.graph import build_order
from backfill_assets.plan.basis import basis_of
from backfill_assets.plan.code_change import code_changes
from backfill_assets.plan.cost import Volumes, cost, estimate, estimate_times
from backfill_assets.plan.expectations import Expectation, require_known
from backfill_assets.plan.inputs import ahead_of, inputs_of
from backfill_assets.plan.only_rows import of_some_rows
from backfill_assets.plan.preflight import Preflight
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest
from backfill_assets.plan.scope import choose, planned_step, recommend
from backfill_assets.plan.situation import PlanContext


def make_plan(asked: PlanRequest, situation: PlanContext) -> Plan:
    """Findings say what blocks the plan or needs care. Raises :class:`InvalidRequest` for an unknown table or version,
    unreadable days, and expectations of what rebuilt tables lack.
    """
    asked = of_some_rows(asked, situation)
    if asked.version:
        situation.step_of(asked.target).version(asked.version)
    steps_by_name = sorted(situation.steps, key=lambda step: step.name)
    ordered = replace(situation, steps=build_order(steps_by_name)).with_version(asked.target, asked.version)
    chosen = choose(asked, ordered)
    inputs = inputs_of(chosen, ordered)
    volumes = Volumes(ordered)
    steps = tuple(
        planned_step(
            step,
            chosen.reasons[step.name],
            estimate(step, chosen, ordered, volumes),
            ordered.landed.get(step.name, {}),
        )
        for step in ordered.steps
        if step.name in chosen.reasons
    )
    _require_rebuilt(asked.expectations, steps, ordered)
    costs = cost(steps, ordered.machine)
    return Plan(
        asked=asked,
        steps=steps,
        pinned=inputs.pinned,
        as_of=inputs.as_of,
        ahead=ahead_of(chosen, ordered) if asked.newest_first else (),
        findings=Preflight(asked, chosen, steps, inputs, ordered).findings(),
        recommended=recommend(chosen, ordered),
        cost=costs,
        times=estimate_times(steps, ordered.journals),
        code=code_changes(ordered.steps, _published_with(steps, ordered)),
        rollback_window_days=ordered.rollback_window_days,
        basis=basis_of(steps, inputs.days, ordered),
        made_at=ordered.now,
    )


def _published_with(steps: Sequence[PlannedStep], situation: PlanContext) -> Iterator[tuple[str, str, str]]:
    for step in (each for each in steps if each.kind == "rebuild"):
        contents = (situation.observed.content(TableDay(step.name, day)) for day in step.days)
        yield from ((step.name, content.code_version, step.version) for content in contents if content)


def _require_rebuilt(expectations: Sequence[Expectation], steps: Sequence[PlannedStep], situation: PlanContext) -> None:
    planned = [step for step in steps if step.kind == "rebuild"]
    # With nothing left to rebuild, as after carrying a plan out, all planned tables count.
    rebuilt = {name for step in [each for each in planned if each.rebuild] or planned for name in step.tables}
    require_known(expectations, [table for step in situation.steps for table in step.tables if table.name in rebuilt])
