"""Which versions each step has, which one is current since when, and how far those on standby are; from logs alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.lakehouse.records import CurrentVersion
from backfill_assets.model.current_versions import is_declared, with_current
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.lake import Lake
from backfill_assets.timeline.readiness import readiness_of
from backfill_assets.timeline.standby import days_published, days_to_keep, kept_standbys


@dataclass(frozen=True)
class StandbyState:
    """How far a version on standby is. ``behind`` counts its days that are stale or missing; None if unknown."""

    timeline: str
    days: int
    up_to: date | None
    behind: int | None
    held_back: tuple[str, ...] = ()


@dataclass(frozen=True)
class VersionState:
    """One version of a step."""

    name: str
    is_current: bool
    is_declared: bool = True
    standby: StandbyState | None = None


@dataclass(frozen=True)
class StepVersions:
    """The versions of one step. ``declared`` is the one that the code calls current."""

    step: str
    declared: str
    versions: tuple[VersionState, ...]
    switched_by: str = ""
    """The publication that made its version current; empty if the declared one counts."""
    switched_at: datetime | None = None
    switched_for: str = ""
    """Who asked for it."""

    @property
    def current(self) -> str:
        return next((each.name for each in self.versions if each.is_current), self.declared)


def step_versions(lake: Lake, steps: Sequence[Step], tables: Iterable[str] = ()) -> list[StepVersions]:
    """The steps (of ``tables``) that have several versions, a switch on record, or a standby."""
    wanted, now = set(tables), lake.publisher.now()
    current = lake.publisher.log.head().state.current
    standbys: dict[str, dict[str, NamedTimeline]] = {}
    for timeline, standby in kept_standbys(lake.storage, now):
        standbys.setdefault(standby.step, {})[standby.version] = timeline
    return [
        _of_step(lake, steps, step, current.get(step.name), standbys.get(step.name, {}))
        for step in steps
        if step.source is None
        and (not wanted or wanted.intersection(step.table_names))
        and (len(step.versions) > 1 or step.name in current or step.name in standbys)
    ]


def _of_step(
    lake: Lake, steps: Sequence[Step], step: Step, switched: CurrentVersion | None, standbys: dict[str, NamedTimeline]
) -> StepVersions:
    version = switched.version if switched else step.current
    names = dict.fromkeys([*(each.name for each in step.versions), version, *standbys])
    found = lake.publisher.log.find_prepared(switched.publication) if switched else None
    return StepVersions(
        step=step.name,
        declared=step.current,
        versions=tuple(_version(lake, steps, step, name, version, standbys.get(name)) for name in names),
        switched_by=switched.publication if switched else "",
        switched_at=found[1] if found else None,
        switched_for=found[0].publication.provenance.launched_by if found else "",
    )


def _version(
    lake: Lake, steps: Sequence[Step], step: Step, name: str, current: str, timeline: NamedTimeline | None
) -> VersionState:
    is_current, declared = name == current, is_declared(step, name)
    standby = None if timeline is None else _standby(lake, steps, step, timeline, check=declared and not is_current)
    return VersionState(name, is_current, declared, standby)


def _standby(lake: Lake, steps: Sequence[Step], step: Step, timeline: NamedTimeline, *, check: bool) -> StandbyState:
    days = [day for day, held in timeline.held(step.name).items() if held.content is not None]
    behind = _days_behind(lake, steps, timeline) if check else None
    return StandbyState(timeline.name, len(days), max(days, default=None), behind, timeline.held_back)


def _days_behind(lake: Lake, steps: Sequence[Step], timeline: NamedTimeline) -> int | None:
    if timeline.standby is None:
        return None
    current = with_current(steps, lake.switches())
    to_keep = days_to_keep(current, timeline.standby, days_published(lake, current))
    return readiness_of(lake, current, timeline, timeline.standby, to_keep).days_behind
