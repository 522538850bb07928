"""Switches a step to another version: its days on a timeline and the version come to main in one publication.

Logs alone say what is behind; no file is copied. Main's days are first kept on a timeline of the former version: a
switch that died can be finished, and switched back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property

from deltalake import Schema

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError, InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineVersion, delete_timeline
from backfill_assets.lakehouse.records import (
    CurrentVersion,
    DayRecord,
    DayRecords,
    InputRead,
    Publication,
    Switch,
    TableChange,
    content_in,
    logical_or_empty,
)
from backfill_assets.model.current_versions import is_declared
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, steps_of
from backfill_assets.publish.pinned import Pin
from backfill_assets.publish.promote import Again, promote, silent
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets.publish.torn_days import is_as
from backfill_assets.rebuild.decide import Decision
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import NOTHING_LAID, Overlay, Place
from backfill_assets.rebuild.stage import StagedTableDay
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepDecision, StepRequest
from backfill_assets.rebuild.walk import Walk
from backfill_assets.state.observed import observe, observe_each
from backfill_assets.state.readers import naming_readers
from backfill_assets.state.status import left_stale
from backfill_assets.state.view import View, records_seen
from backfill_assets.text import format_count
from backfill_assets.timeline.of_version import (
    current_version,
    days_published,
    days_to_keep,
    take_days,
    version_of,
    with_days_to_keep,
)


def _brought_by(
    lake: Lake, steps: Sequence[Step], timeline: NamedTimeline, asked: TimelineVersion, to_keep: Days
) -> _Brought:
    """Compare each day of ``timeline`` with what would be computed now, and with main.

    ``steps`` have current versions; ``to_keep``: days that it should have.
    """
    own = with_days_to_keep(timeline, to_keep)
    walk = Walk(lake, Place(timeline.id), RunInfo(""), lambda _: None)
    brought = _Brought(View.of(lake.storage, timeline))
    for step in steps_of(steps, to_keep):
        held = {name: own.held(name) for name in step.table_names}
        days = sorted(own.days_of(step.table_names))
        version = asked.version if step.name == asked.step else step.current
        # Everything else is read from main, as compare-and-swap compares it there.
        walk.place = Place(timeline.id, brought.overlay.with_records(held))
        build, found = walk.look(StepRequest(step, days, version))
        ready = found.days(Decision.KEEP)
        walk.out |= dict.fromkeys(step.table_names, frozenset(days).difference(ready))
        brought.behind |= {table: out for table in step.table_names if (out := walk.out[table])}
        brought.add(build, found, {day: {name: records[day] for name, records in held.items()} for day in ready})
    return brought


def days_behind(lake: Lake, timeline: NamedTimeline) -> int | None:
    """How many days its version would compute differently now; None for a current, undeclared or no version."""
    asked, current = timeline.of_version, lake.with_current(lake.catalog.steps)
    step = next((each for each in current if asked and each.name == asked.step), None)
    if (
        asked is None
        or step is None
        or current_version(lake, step) == asked.version
        or not is_declared(step, asked.version)
    ):
        return None
    to_keep = days_to_keep(current, asked, days_published(lake, current))
    return _brought_by(lake, current, timeline, asked, to_keep).days_behind


@dataclass
class _Brought:
    view: View
    overlay: Overlay = NOTHING_LAID
    behind: dict[str, frozenset[date]] = field(default_factory=dict)
    changes: list[TableChange] = field(default_factory=list)
    inputs: list[InputRead] = field(default_factory=list)
    differing: dict[str, int] = field(default_factory=dict)

    @property
    def days_behind(self) -> int:
        return len({day for days in self.behind.values() for day in days})

    def add(self, build: StepBuild, found: StepDecision, ready: Mapping[date, Mapping[str, DayRecord]]) -> None:
        build.place, build.versions, pin = Place(overlay=self.overlay), dict(found.versions), found.pin
        for day, held in ready.items():
            if not all(_is_in_main(pin, name, each) for name, each in held.items()):
                build.staged[day] = [self.staged(name, each, pin) for name, each in held.items()]
        if not build.staged:
            return
        self.inputs += (read for read in build.inputs_read(pin) if read.days)
        for table in build.tables:
            own = [each for days in build.staged.values() for each in days if each.table == table]
            self.changes.append(build.table_change(table, own))
            was = {each.day: logical_or_empty(content_in(pin.states, TableDay(table, each.day))) for each in own}
            self.differing[table] = sum(was[each.day] != each.content.logical for each in own)
        self.overlay = self.overlay.with_records(build.records())

    def staged(self, table: str, held: DayRecord, pin: Pin) -> StagedTableDay:
        schema = self.schema_of(table).to_json()
        return StagedTableDay(table, held.day, held.files, held.measured, (), pin, schema)

    @cached_property
    def schema_of(self) -> Callable[[str], Schema]:
        return cache(self.view.schema)


def _is_in_main(pin: Pin, table: str, held: DayRecord) -> bool:
    """Compares inputs and version, not files: main may be compacted."""
    return held.content is not None and is_as(pin.content(TableDay(table, held.day)), held.content)


@dataclass(frozen=True)
class SwitchPlan:
    """Decided on one state of main."""

    timeline: NamedTimeline
    step: Step
    version: str
    former: str
    switch: Switch
    new_days_only: bool
    changes: tuple[TableChange, ...] = ()
    inputs: tuple[InputRead, ...] = ()
    differing: Mapping[str, int] = field(default_factory=dict)
    """Days with other rows; the rest differ by version alone."""
    days: Days = field(default_factory=dict)
    """All that the timeline should have, also days equal to main's."""
    leaves_stale: Mapping[str, tuple[date, ...]] = field(default_factory=dict)
    """Readers of what the switch brings that are not on the timeline."""


def plan_switch(lake: Lake, timeline: NamedTimeline, *, new_days_only: bool) -> SwitchPlan:
    """Plan to make the version of ``timeline`` current, with its days; reads logs.

    Raises :class:`InvalidRequest` for the current version, an undeclared one or a timeline of none, and
    :class:`PublicationRefused` for a timeline that is behind.
    """
    asked, steps = version_of(timeline), lake.catalog.steps
    lake.publisher.recover({name for each in steps for name in each.table_names})
    now = lake.publisher.log.head().state.current.get(asked.step)
    current = lake.with_current(steps)
    chosen = next((each for each in current if each.name == asked.step), None)
    if chosen is None or not is_declared(chosen, asked.version):
        gone = f"{asked.version} of {asked.step}" if chosen else asked.step
        raise InvalidRequest(
            f"{gone} is not declared any more.",
            hint=f"To forget its days: backfill timeline delete {timeline.name}",
        )
    former = now.version if now else chosen.current
    if asked.version == former:
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
    found = _brought_by(lake, steps, plan.timeline, asked, days)
    _refuse_behind(plan, found)
    tables = [name for each in steps for name in each.table_names]
    return replace(
        plan,
        changes=tuple(found.changes),
        inputs=tuple(found.inputs),
        differing=found.differing,
        days=days,
        leaves_stale=left_stale(steps, observe_each(lake.storage, tables), found.changes),
    )


def _refuse_behind(plan: SwitchPlan, found: _Brought) -> None:
    if found.behind:
        table, days = next(iter(found.behind.items()))
        raise PublicationRefused(
            f"{plan.timeline.name} is behind by {format_count(found.days_behind, 'day')}: {table} {min(days)} is the "
            "first. Nothing was changed.",
            hint=f"{_again(plan)} It reports days that are held back. --new-days-only leaves published days alone.",
        )


def _again(plan: SwitchPlan) -> str:
    return f"backfill timeline forward {plan.timeline.name}, then publish it again."


def carry_out_switch(lake: Lake, plan: SwitchPlan, run: RunInfo, progress: Progress = silent) -> Published:
    """Publish days and version of ``plan`` together; keeps main's days on a timeline of the former version.

    Raises :class:`PublicationRefused`, and leaves nothing behind, if the timeline is behind, another version is
    current, or main keeps moving.
    """
    switching = _Switching(lake, plan, run)
    try:
        return promote(
            lake.publisher, switching, progress, readers=naming_readers(lake.catalog.steps, lake.publisher.log)
        )
    except BackfillError:
        switching.forget_former()
        raise


@dataclass
class _Switching:
    lake: Lake
    plan: SwitchPlan
    run: RunInfo
    made: NamedTimeline | None = None

    def stage(self, *, held: bool) -> Publication:
        plan = self.plan
        if not plan.new_days_only:
            written, is_new = _keep_former(self.lake, plan, self.run)
            self.made = written if is_new or self.made else None
        return Publication(
            id=self.lake.new_id(f"switch-{plan.step.name}"),
            kind="replace",
            tables=plan.changes,
            inputs=plan.inputs,
            provenance=self.run.provenance(reason=f"switch of {plan.step.name} from {plan.former} to {plan.version}"),
            switches={plan.step.name: plan.switch},
        )

    def overtaken(self, by: Conflict) -> Again:
        step, reasons = self.plan.step.name, "; ".join(by.reasons[:3])
        refused = PublicationRefused(
            f"{step} was not switched, main has moved since it was looked at: {reasons}.", hint=_again(self.plan)
        )
        again = plan_switch(self.lake, self.plan.timeline, new_days_only=self.plan.new_days_only)
        if again.switch != self.plan.switch:
            raise refused
        self.plan = again
        return Again(f"{step}: main moved while it was switched ({reasons}), looking again", refused)

    def forget_former(self) -> None:
        """A timeline left behind would be in the way of another switch."""
        now = self.lake.switches().get(self.plan.step.name, self.plan.former)
        if self.made is not None and now == self.plan.former:
            delete_timeline(self.lake.storage, self.made, clock.now())


def _keep_former(lake: Lake, plan: SwitchPlan, run: RunInfo) -> tuple[NamedTimeline, bool]:
    """Keep main's days, with foreign rows, on a timeline of the current version; True if it is new."""
    former = version_of(plan.timeline).model_copy(update={"version": plan.former})
    held = _held(lake, plan.days)
    kept = {table: {day: held[table][day] for day in days if day in held[table]} for table, days in plan.days.items()}
    change = f"what main held before the switch to {plan.version}"
    return take_days(lake, former, kept, change, run.launched_by)


def _held(lake: Lake, tables: Iterable[str]) -> DayRecords:
    observed = observe(lake.storage, tables, lake.publisher.log)
    found = {table: records_seen(observed, table, observed.read_files) for table in observed.read_files}
    for table, days in found.items():
        days |= {day: each for day, each in records_seen(observed, table, observed.files).items() if each.files}
    return {
        table: {day: each for day, each in days.items() if each.content is not None or each.files}
        for table, days in found.items()
    }
