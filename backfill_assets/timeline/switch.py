"""Switching a step to another version: its days of the standby and the version come to main in one publication.

No row is read and no file is copied. What main held becomes the standby of the version that was current, before
anything is published: a switch that dies is finished by the next process, and the way back needs nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.named_timelines import NamedTimeline, Standby, delete_timeline
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
from backfill_assets.timeline.readiness import Readiness, readiness_of
from backfill_assets.timeline.standby import days_published, days_to_keep, find_standby, write_standby


@dataclass(frozen=True)
class SwitchPlan:
    """What a switch would publish: decided on one state of main, and refused if that has moved."""

    step: Step
    version: str
    former: str
    """The version that is current now."""
    switch: Switch
    standby: Standby | None = None
    """None for a switch that counts for new days alone."""
    changes: tuple[TableChange, ...] = ()
    inputs: tuple[InputRead, ...] = ()
    differing: Mapping[str, int] = field(default_factory=dict)
    days: Days = field(default_factory=dict)
    """All that the standby keeps ready, by table: those that main holds just so among them."""
    leaves_stale: Mapping[str, tuple[date, ...]] = field(default_factory=dict)
    """The days that read what the switch brings and are not on the standby, by table."""


def plan_switch(lake: Lake, steps: Sequence[Step], step: str, version: str, *, new_days_only: bool) -> SwitchPlan:
    """Plan to make ``version`` current for ``step``, with the days of its standby; from logs alone.

    ``steps`` are as they are declared. Raises :class:`InvalidRequest` for the version that is current, for one that is
    not declared and where there is no standby, :class:`PublicationRefused` for a standby that is behind.
    """
    lake.publisher.recover({name for each in steps for name in each.table_names})
    now = lake.publisher.log.head().state.current.get(step)
    current = lake.with_current(steps)
    chosen = next(each for each in current if each.name == step)
    former = now.version if now else chosen.current
    if chosen.source is not None or chosen.version(version).name == former:
        raise InvalidRequest(
            f"{version} of {step} is current already.",
            hint=f"backfill versions {step} lists its versions, and which one is current since when.",
        )
    plan = SwitchPlan(chosen, version, former, _switch(version, now))
    return plan if new_days_only else _with_standby(lake, current, plan)


def _switch(version: str, now: CurrentVersion | None) -> Switch:
    return Switch(version=version, former=now.version, former_by=now.publication) if now else Switch(version=version)


def _with_standby(lake: Lake, steps: Sequence[Step], plan: SwitchPlan) -> SwitchPlan:
    step, version = plan.step.name, plan.version
    timeline = find_standby(lake.storage, lake.publisher.now(), step, version)
    if timeline is None or timeline.standby is None:
        raise InvalidRequest(
            f"{version} of {step} is not kept ready, so that its days would have to be computed first.",
            hint=f"backfill standby keep {step} {version}, then backfill standby refresh {step}. For new days alone: "
            f"backfill switch {step} {version} --new-days-only",
        )
    days = days_to_keep(steps, timeline.standby, days_published(lake, steps))
    found = readiness_of(lake, steps, timeline, timeline.standby, days)
    _refuse_behind(plan, found)
    tables = [name for each in steps for name in each.table_names]
    return replace(
        plan,
        standby=timeline.standby,
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
            f"The standby of {plan.version} of {plan.step.name} is behind by {format_count(found.days_behind, 'day')}: "
            f"{table} {min(days)} is the first. Nothing was changed.",
            hint=f"backfill standby refresh {plan.step.name}, then switch again. It reports days that are held back.",
        )


def carry_out_switch(lake: Lake, plan: SwitchPlan, run: RunInfo) -> Published:
    """Publish what ``plan`` says, days and version together; what main holds becomes the standby of the former version.

    Raises :class:`PublicationRefused` if main has moved since the plan was made.
    """
    made = _keep_former(lake, plan, plan.standby.days, run) if plan.standby is not None else None
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
        hint=f"backfill standby refresh {plan.step.name}, then switch again.",
    )


def _keep_former(lake: Lake, plan: SwitchPlan, kept_days: str, run: RunInfo) -> NamedTimeline | None:
    """Keep what main holds as the standby of the version that is current; gives the timeline if there was none yet."""
    former = Standby(step=plan.step.name, version=plan.former, days=kept_days)
    was_there = find_standby(lake.storage, lake.publisher.now(), former.step, former.version) is not None
    held = main_days(lake.publisher.log, plan.days)
    kept = {table: {day: held[table][day] for day in days if day in held[table]} for table, days in plan.days.items()}
    change = f"what main held before the switch to {plan.version}"
    written = write_standby(lake, former, kept, change, run.launched_by)
    return None if was_there else written
