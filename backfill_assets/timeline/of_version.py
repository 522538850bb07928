"""Timelines of a version: what main would hold if another version of a step were current.

They hold days of the step and of its readers, and go forward every night. The current version's names main's files,
for switching back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import (
    LONGEST_NAME,
    NamedTimeline,
    TimelineVersion,
    change_timeline,
    create_timeline,
    kept_timelines,
)
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import TIMELINES, open_timelines
from backfill_assets.model.current_versions import is_declared
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, steps_of, walk_downstream
from backfill_assets.rebuild.decide import published_days
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.state.view import View
from backfill_assets.text import format_count
from backfill_assets.timeline.build import TimelineBuilt, computed_again
from backfill_assets.timeline.rewind import new_timeline


def fresh_timelines(storage: Storage, now: datetime) -> list[NamedTimeline]:
    return [each for each in kept_timelines(storage, now) if each.of_version and each.of_version.fresh]


def find_of_version(storage: Storage, now: datetime, step: str, version: str) -> NamedTimeline | None:
    kept = [(each, each.of_version) for each in kept_timelines(storage, now)]
    return next((each for each, of in kept if of and (of.step, of.version) == (step, version)), None)


def create_of_version(lake: Lake, name: str, step: Step, asked: TimelineVersion, by: str) -> NamedTimeline:
    """Make a timeline for days of a version; going forward computes them.

    Raises :class:`InvalidRequest` for the current or an undeclared version, and if the timeline exists.
    """
    if step.external is not None:
        step.external.refuse(
            "it has no versions here", "Keep the versions of what is computed from it beside each other."
        )
    if step.source is not None:
        raise InvalidRequest(f"{step.name} is raw: it has no versions to keep beside each other.")
    if step.version(asked.version).name == current_version(lake, step):
        raise _is_current(step, asked.version, published_versions(lake, step))
    if found := find_of_version(lake.storage, clock.now(), step.name, asked.version):
        raise InvalidRequest(
            f"{found.name} has {asked.version} of {step.name} already.", hint=f"backfill timeline show {found.name}"
        )
    return _created(lake, name, asked, {}, "created", by)


def take_days(
    lake: Lake, asked: TimelineVersion, days: Mapping[str, Mapping[date, DayRecord]], change: str, by: str
) -> tuple[NamedTimeline, bool]:
    storage, now = lake.storage, clock.now()
    found = find_of_version(storage, now, asked.step, asked.version)
    if found is None:
        return _created(lake, name_of_version(asked.step, asked.version), asked, days, change, by), True
    values = {"base": View.newest(storage).base, "of_version": asked}
    return change_timeline(storage, found.with_days(days).model_copy(update=values), change, now), False


def current_version(lake: Lake, step: Step) -> str:
    return lake.switches().get(step.name, step.current)


def published_versions(lake: Lake, step: Step) -> dict[str, list[date]]:
    found: dict[str, list[date]] = {}
    for day, record in View.newest(lake.storage).records([step.name])[step.name].items():
        found.setdefault(record.content.code_version if record.content else "", []).append(day)
    return found


def _is_current(step: Step, version: str, published: Mapping[str, Sequence[date]]) -> InvalidRequest:
    others = [day for name, days in published.items() if name not in ("", version) for day in days]
    is_current = f"{version} is the current version of {step.name}: runs build main with it"
    if not others:
        others_named = ", ".join(each.name for each in step.versions if each.name != version) or "none"
        return InvalidRequest(f"{is_current}.", hint=f"A timeline is for another one. Other versions: {others_named}.")
    names = ", ".join(sorted(set(published) - {"", version}))
    return InvalidRequest(
        f"{is_current}, and {format_count(len(others), 'day')} of main {'is' if len(others) == 1 else 'are'} still of "
        f"{names}.",
        hint=f"To rebuild them: backfill plan {step.name} --days {DayRange(min(others), max(others))} --version "
        f"{version}. A timeline is for a version that is not current.",
    )


def name_of_version(step: str, version: str) -> str:
    """``standby-fact-sales-transactions-v1``; a long name is cut, and ends in a hash."""
    name = f"standby-{re.sub('[^a-z0-9]+', '-', f'{step}-{version}'.lower()).strip('-')}"
    if len(name) <= LONGEST_NAME:
        return name
    ending = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - len(ending) - 1]}-{ending}"


def _created(
    lake: Lake, name: str, asked: TimelineVersion, days: Mapping[str, Mapping[date, DayRecord]], change: str, by: str
) -> NamedTimeline:
    made = new_timeline(lake.storage, name, by, clock.now())
    values = {"change": change, "targets": (asked.step,), "of_version": asked}
    return create_timeline(lake.storage, made.model_copy(update=values).with_days(days))


def days_to_keep(steps: Sequence[Step], asked: TimelineVersion, published: Days) -> dict[str, set[date]]:
    own = {step.name: _chosen_days(step, asked, published) for step in steps_of(steps, [asked.step])}

    def visit(step: Step, given: set[date], readers: set[date]) -> set[date]:
        return (given | readers) & _published_days(step, published)

    return walk_downstream(steps, own, visit)


def _chosen_days(step: Step, asked: TimelineVersion, published: Days) -> set[date]:
    there = _published_days(step, published)
    return there.intersection(step.cadence.starts(DayRange.parse(asked.days))) if asked.days else there


def _published_days(step: Step, published: Days) -> set[date]:
    return {day for name in step.table_names for day in published.get(name, ())}


def with_days_to_keep(timeline: NamedTimeline, days: Days) -> NamedTimeline:
    held = {table: timeline.held(table) for table in days}
    chosen = {table: {day: held[table].get(day, DayRecord(day=day)) for day in of} for table, of in days.items()}
    return timeline.model_copy(update={"days": {}}).with_days(chosen)


def version_of(timeline: NamedTimeline) -> TimelineVersion:
    if timeline.of_version is None:
        raise InvalidRequest(
            f"{timeline.name} is not a timeline of a version.",
            hint="backfill timeline create NAME --version STEP=V makes one.",
        )
    return timeline.of_version


def keep_fresh(storage: Storage, timeline: NamedTimeline, now: datetime, *, fresh: bool) -> NamedTimeline:
    asked = version_of(timeline).model_copy(update={"fresh": fresh})
    change = "kept fresh" if fresh else "not kept fresh any more"
    return change_timeline(storage, timeline.model_copy(update={"of_version": asked}), change, now)


def bring_up_to_date(lake: Lake, timeline: NamedTimeline, run: RunInfo, progress: Progress) -> TimelineBuilt:
    """Add main's new days to a timeline of a version, and compute stale ones by it; readers use current versions. An
    undeclared version is only noted.
    """
    asked, current = version_of(timeline), lake.with_current(lake.catalog.steps)
    step = next((each for each in current if each.name == asked.step), None)
    if step is None or not is_declared(step, asked.version):
        note = f"{asked.version} of {asked.step} is not declared any more, so that it is not built"
        return TimelineBuilt(timeline, note=note)
    wanted = days_to_keep(current, asked, days_published(lake, current))
    if not wanted:
        return TimelineBuilt(timeline, note=f"nothing of {asked.step} is published")
    if asked.version == current_version(lake, step):
        follows = _write(lake, timeline, _following_main(lake, timeline, wanted), "follows main")
        return TimelineBuilt(follows, note="it is the current version, and follows main")
    done = computed_again(lake, with_days_to_keep(timeline, wanted), asked.version, run, progress)
    return replace(done, timeline=_write(lake, timeline, done.timeline, "brought up to date"))


def days_published(lake: Lake, steps: Sequence[Step]) -> Days:
    log = lake.publisher.log
    return published_days(log.day_states(log.head(), {name for step in steps for name in step.table_names}))


def _following_main(lake: Lake, timeline: NamedTimeline, wanted: Days) -> NamedTimeline:
    view = View.newest(lake.storage)
    main = view.records(wanted)
    days = {table: {day: main[table].get(day, DayRecord(day=day)) for day in days} for table, days in wanted.items()}
    return timeline.model_copy(update={"days": {}, "base": view.base, "held_back": ()}).with_days(days)


def _write(lake: Lake, before: NamedTimeline, after: NamedTimeline, change: str) -> NamedTimeline:
    same = all(getattr(after, name) == getattr(before, name) for name in ("days", "held_back", "versions"))
    if same and after.base.versions == before.base.versions:
        return before
    written = change_timeline(lake.storage, after, change, clock.now())
    _close_what_it_left(lake.storage, written)
    return written


def _close_what_it_left(storage: Storage, timeline: NamedTimeline) -> None:
    """It may live for years, and stages every night."""
    for table, held in timeline.days.items():
        named = {file.path for each in held for file in each.files}
        folders = {path.split("/", 2)[1] for path in named if path.startswith(f"{TIMELINES}/")}
        for staged in open_timelines(storage, table):
            if staged.name.startswith(f"{timeline.id}-") and staged.name not in folders:
                staged.close()
