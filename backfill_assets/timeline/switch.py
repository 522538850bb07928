"""Making another version of a step current: its days on a timeline and the version come to main in one publication.

No row is read and no file is copied. What main held becomes the timeline of the version that was current, before
anything is published: a switch that dies is finished by the next process, and the way back needs nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.named_timelines import NamedTimeline, delete_timeline
from backfill_assets.lakehouse.records import CurrentVersion, InputRead, Publication, Switch, TableChange
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days
from backfill_assets.publication.publisher import Published
from backfill_assets.published.moments import main_days
from backfill_assets.published.observed import observe
from backfill_assets.published.readers import left_stale
from backfill_assets.rebuild.lake import Lake, provenance
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.text import format_count
from backfill_assets.timeline.of_version import days_published, days_to_keep, take_days, version_of
from backfill_assets.timeline.readiness import Readiness, readiness_of


@dataclass(frozen=True)
class SwitchPlan:
    """What a switch would publish: decided on one state of main, and refused if that has moved."""

    timeline: NamedTimeline
    step: Step
    version: str
    former: str
    """The version that is current now."""
    switch: Switch
    new_days_only: bool
    """Days that are published stay as they are."""
    changes: tuple[TableChange, ...] = ()
    inputs: tuple[InputRead, ...] = ()
    differing: Mapping[str, int] = field(default_factory=dict)
    days: Days = field(default_factory=dict)
    """All that the timeline is to have, by table: those that main holds just so among them."""
    leaves_stale: Mapping[str, tuple[date, ...]] = field(default_factory=dict)
    """The days that read what the switch brings and are not on the timeline, by table."""


def plan_switch(lake: Lake, timeline: NamedTimeline, *, new_days_only: bool) -> SwitchPlan:
    """Plan to make the version of ``timeline`` current, with its days; from logs alone.

    Raises :class:`InvalidRequest` for the version that is current, for one that is not declared and for a timeline of
    no version, :class:`PublicationRefused` for a timeline that is behind.
    """
    asked, steps = version_of(timeline), lake.catalog.steps
    lake.publisher.recover({name for each in steps for name in each.table_names})
    now = lake.publisher.log.head().state.current.get(asked.step)
    current = lake.with_current(steps)
    chosen = next((each for each in current if each.name == asked.step), None)
    if chosen is None:
        raise InvalidRequest(
            f"{asked.step} is not declared any more.",
            hint=f"To forget its days: backfill timeline delete {timeline.name}",
        )
    former = now.version if now else chosen.current
    if chosen.version(asked.version).name == former:
        raise InvalidRequest(
            f"{asked.version} of {asked.step} is current already.",
            hint=f"backfill history {asked.step} shows which publication made it so.",
        )
    plan = SwitchPlan(timeline, chosen, asked.version, former, _switch(asked.version, now), new_days_only)
    return plan if new_days_only else _with_days(lake, current, plan)


def _switch(version: str, now: CurrentVersion | None) -> Switch:
    return Switch(version=version, former=now.version, former_by=now.publication) if now else Switch(version=version)


def _with_days(lake: Lake, steps: Sequence[Step], plan: SwitchPlan) -> SwitchPlan:
    asked = version_of(plan.timeline)
    days = days_to_keep(steps, asked, days_published(lake, steps))
    found = readiness_of(lake, steps, plan.timeline, asked, days)
    _refuse_behind(plan, found)
    tables = [name for each in steps for name in each.table_names]
    return replace(
        plan,
        changes=found.changes,
        inputs=found.inputs,
        differing=found.differing,
        days=days,
        leaves_stale=left_stale(steps, observe(lake.storage, tables), found.changes),
    )


def _refuse_behind(plan: SwitchPlan, found: Readiness) -> None:
    if found.behind:
        table, days = next(iter(found.behind.items()))
        raise PublicationRefused(
            f"{plan.timeline.name} is behind by {format_count(found.days_behind, 'day')}: {table} {min(days)} is the "
            "first. Nothing was changed.",
            hint=f"{_again(plan)} It reports days that are held back. --new-days-only leaves published days alone.",
        )


def _again(plan: SwitchPlan) -> str:
    return f"backfill timeline forward {plan.timeline.name}, then publish it again."


def carry_out_switch(lake: Lake, plan: SwitchPlan, run: RunInfo) -> Published:
    """Publish what ``plan`` says, days and version together; a timeline of the former version has what main holds.

    Raises :class:`PublicationRefused` if main has moved since the plan was made.
    """
    made = None if plan.new_days_only else _keep_former(lake, plan, run)
    reason = f"switch of {plan.step.name} from {plan.former} to {plan.version}"
    result = lake.publisher.publish(
        Publication(
            id=lake.new_id(f"switch-{plan.step.name}"),
            kind="replace",
            tables=plan.changes,
            inputs=plan.inputs,
            leaves_stale=plan.leaves_stale,
            provenance=provenance(run, "").model_copy(update={"reason": reason}),
            switches={plan.step.name: plan.switch},
        )
    )
    if isinstance(result, Published):
        return result
    if made is not None and lake.switches().get(plan.step.name, plan.former) == plan.former:
        delete_timeline(lake.storage, made, lake.publisher.now())  # another switch would need it for the way back
    raise PublicationRefused(
        f"{plan.step.name} was not switched, main has moved since it was looked at: {'; '.join(result.reasons[:3])}.",
        hint=_again(plan),
    )


def _keep_former(lake: Lake, plan: SwitchPlan, run: RunInfo) -> NamedTimeline | None:
    """Keep what main holds on a timeline of the version that is current; gives it if there was none yet."""
    former = version_of(plan.timeline).model_copy(update={"version": plan.former})
    held = main_days(lake.publisher.log, plan.days)
    kept = {table: {day: held[table][day] for day in days if day in held[table]} for table, days in plan.days.items()}
    change = f"what main held before the switch to {plan.version}"
    written, is_new = take_days(lake, former, kept, change, run.launched_by)
    return written if is_new else None
