"""Standby versions: a timeline keeps what main would hold if another version of a step were the current one.

Its days are the step's, and those that are computed from them. Going forward brings it up to date with what arrived
since; days whose inputs are the same are kept, and without a day to compute no Spark is started. The timeline of the
version that is current now follows main by naming its files, so that a rollback of a switch finds it ready.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import (
    LONGEST_NAME,
    STANDBY,
    HeldDay,
    NamedTimeline,
    Standby,
    TimelineBase,
    change_timeline,
    create_timeline,
    kept_timelines,
    new_timeline_id,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import TIMELINES, open_timelines
from backfill_assets.model.current_versions import is_declared
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, steps_of, walk_downstream
from backfill_assets.published.moments import main_days
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.rebuild.decide import published_days
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.timeline.forward import ForwardedStep, forward

StandbyTimeline = tuple[NamedTimeline, Standby]
"""A timeline, with what it keeps ready."""


@dataclass(frozen=True)
class Refreshed:
    """A standby after it was brought up to date; ``note`` says why it was not, or that it follows main."""

    timeline: NamedTimeline
    standby: Standby
    steps: tuple[ForwardedStep, ...] = ()
    note: str = ""


def kept_standbys(storage: Storage, now: datetime, step: str = "") -> list[StandbyTimeline]:
    """The standbys (of ``step``), by name."""
    kept = [(each, each.standby) for each in kept_timelines(storage, now)]
    return [(each, standby) for each, standby in kept if standby is not None and step in ("", standby.step)]


def find_standby(storage: Storage, now: datetime, step: str, version: str) -> NamedTimeline | None:
    return next((each for each, standby in kept_standbys(storage, now, step) if standby.version == version), None)


def keep_version(lake: Lake, step: Step, version: str, days: DayRange | None, by: str) -> NamedTimeline:
    """Declare that ``version`` of ``step`` is kept ready beside the current one, for ``days`` or for all that main has.

    Raises :class:`InvalidRequest` for the current version, and for one that is not declared.
    """
    (step,) = lake.with_current([step])
    if step.source is not None or step.version(version).name == step.current:
        raise InvalidRequest(
            f"{version} of {step.name} is what main has: there is nothing to keep beside it.",
            hint=f"Versions: {', '.join(each.name for each in step.versions) or 'none'}. backfill versions lists them.",
        )
    standby = Standby(step=step.name, version=version, days=str(days) if days else "")
    return write_standby(lake, standby, {}, "declared", by)


def standby_name(step: str, version: str) -> str:
    """``standby-fact-sales-transactions-v1``; a long name is cut, and ends in a hash of all of it."""
    name = f"{STANDBY}{re.sub('[^a-z0-9]+', '-', f'{step}-{version}'.lower()).strip('-')}"
    if len(name) <= LONGEST_NAME:
        return name
    ending = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - len(ending) - 1]}-{ending}"


def write_standby(
    lake: Lake, standby: Standby, days: Mapping[str, Mapping[date, HeldDay]], change: str, by: str
) -> NamedTimeline:
    """Write what ``standby`` holds: as a new timeline, or over the ``days`` that its timeline has."""
    storage, now = lake.storage, lake.publisher.now()
    newest = Snapshot.newest(storage)
    base = TimelineBase(sequence=newest.sequence, versions=newest.versions)
    found = find_standby(storage, now, standby.step, standby.version)
    if found is not None:
        values = {"base": base, "standby": standby}
        return change_timeline(storage, found.with_days(days).model_copy(update=values), change, now)
    made = NamedTimeline(
        id=new_timeline_id(now),
        name=standby_name(standby.step, standby.version),
        made_at=now,
        by=by,
        base=base,
        change=change,
        changed_at=now,
        targets=(standby.step,),
        standby=standby,
    )
    return create_timeline(storage, made.with_days(days))


def days_to_keep(steps: Sequence[Step], standby: Standby, published: Days) -> dict[str, set[date]]:
    """The published days of the standby's step, and those that are computed from them, by table. Pure."""
    own = {step.name: _chosen_days(step, standby, published) for step in steps_of(steps, [standby.step])}

    def visit(step: Step, given: set[date], readers: set[date]) -> set[date]:
        return (given | readers) & _published_days(step, published)

    return walk_downstream(steps, own, visit)


def _chosen_days(step: Step, standby: Standby, published: Days) -> set[date]:
    there = _published_days(step, published)
    return there.intersection(step.cadence.starts(DayRange.parse(standby.days))) if standby.days else there


def _published_days(step: Step, published: Days) -> set[date]:
    return {day for name in step.table_names for day in published.get(name, ())}


def with_days_to_keep(timeline: NamedTimeline, days: Mapping[str, Collection[date]]) -> NamedTimeline:
    """``timeline`` with just ``days``; those that it does not have yet hold nothing. Pure."""
    held = {table: timeline.held(table) for table in days}
    chosen = {
        table: tuple(held[table].get(day, HeldDay(day=day)) for day in sorted(found)) for table, found in days.items()
    }
    return timeline.model_copy(update={"days": {table: found for table, found in sorted(chosen.items()) if found}})


def refresh_standby(
    lake: Lake, steps: Sequence[Step], found: StandbyTimeline, run: RunInfo, progress: Progress
) -> Refreshed:
    """Bring one standby up to date: days that are new in main come along, stale ones are computed by its version.

    What is computed from the step is built by the current versions. A version that is not declared any more is
    reported, and not built. The timeline of the current version is given the files that main has.
    """
    timeline, standby = found
    current = lake.with_current(steps)
    step = next((each for each in current if each.name == standby.step), None)
    if step is None or not is_declared(step, standby.version):
        note = f"{standby.version} of {standby.step} is not declared any more, so that it is not built"
        return Refreshed(timeline, standby, note=note)
    wanted = days_to_keep(current, standby, days_published(lake, current))
    if not wanted:
        return Refreshed(timeline, standby, note=f"nothing of {standby.step} is published")
    asked = with_days_to_keep(timeline, wanted)
    if standby.version == step.current:
        return Refreshed(_write(lake, timeline, _following_main(lake, asked), "follows main"), standby, note="current")
    done = forward(lake, steps, asked, standby.version, run, progress)
    written = _write(lake, timeline, done.timeline, "brought up to date")
    return Refreshed(written, standby, done.steps)


def days_published(lake: Lake, steps: Sequence[Step]) -> Days:
    log = lake.publisher.log
    return published_days(log.day_states(log.head(), {name for step in steps for name in step.table_names}))


def _following_main(lake: Lake, asked: NamedTimeline) -> NamedTimeline:
    """``asked`` whose days are those of main."""
    base, held = Snapshot.newest(lake.storage), main_days(lake.publisher.log, asked.days)
    days = {
        table: tuple(held[table].get(each.day, HeldDay(day=each.day)) for each in own)
        for table, own in asked.days.items()
    }
    values = {"base": TimelineBase(sequence=base.sequence, versions=base.versions), "held_back": ()}
    return asked.model_copy(update={"days": days, **values})


def _write(lake: Lake, before: NamedTimeline, after: NamedTimeline, change: str) -> NamedTimeline:
    """Write a revision, if there is something new."""
    same = all(getattr(after, name) == getattr(before, name) for name in ("days", "held_back", "versions"))
    if same and after.base.versions == before.base.versions:
        return before
    written = change_timeline(lake.storage, after, change, lake.publisher.now())
    _close_what_it_left(lake.storage, written)
    return written


def _close_what_it_left(storage: Storage, timeline: NamedTimeline) -> None:
    """Close its folders of staged days that it names no more: a standby lives for years, and is staged every night."""
    for table, held in timeline.days.items():
        named = {file.path for each in held for file in each.files}
        folders = {path.split("/", 2)[1] for path in named if path.startswith(f"{TIMELINES}/")}
        for staged in open_timelines(storage, table):
            if staged.name.startswith(f"{timeline.id}-") and staged.name not in folders:
                staged.close()
