"""Builds days on a timeline as a run builds them on main: gates decide, and nothing is published.

What a step reads is what the timeline shows: its own days, and all others as of its base. A run takes all of its days
of a step or none, and writes one revision at its end: a process that is killed leaves the timeline as it was, and what
it has staged is used by the next one. Without a day to compute, no Spark is started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import NamedTimeline, change_timeline
from backfill_assets.model.declaration import Step
from backfill_assets.quality import gates
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.builder import touched_tables
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import Place
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import StepBuilt, Walk
from backfill_assets.spark.session import explain_lost_server
from backfill_assets.state.view import View
from backfill_assets.text import format_count
from backfill_assets.timeline.forward import overlay_of


@dataclass(frozen=True)
class TimelineRun:
    """The timeline as it is now, and what was done for it, in build order."""

    timeline: NamedTimeline
    steps: tuple[StepBuilt, ...]


def run_on(
    lake: Lake,
    timeline: NamedTimeline,
    asked: Sequence[StepRequest],
    run: RunInfo,
    progress: Progress,
    *,
    report: Callable[[StepBuilt], None] = lambda _: None,
) -> TimelineRun:
    """Build days on ``timeline``, step by step, and write its next revision if one of them is other than it was.

    ``report`` is called with each step that is built.

    When a step fails, the steps before it are on the timeline. Raises :class:`DaysFailed` when a gate holds a day back
    (the good days stay staged and are used by the next run), :class:`InvalidRequest` for raw tables and for days that
    have not ended, :class:`PublicationRefused` if another process has changed the timeline meanwhile, and for a dirty
    tree if the settings refuse it.
    """
    for each in asked:
        refuse_raw(each.step, timeline.name)
        lake.require_ended(each.step, each.days)
    lake.require_clean_tree()
    current = lake.with_current(each.step for each in asked)
    asked = [replace(each, step=step) for each, step in zip(asked, current, strict=True)]
    lake.publisher.recover({name for each in asked for name in touched_tables(each.step)})
    walk = Walk(lake, place_of(lake, timeline, asked), run, progress, holds_back=False)
    versions: dict[str, str] = {}
    try:
        for each in asked:
            with explain_lost_server(f"{each.step.name} was built on {timeline.name}"):
                versions[each.step.name] = _version_of(walk.take(each))
            report(walk.done[-1])
    except Exception:
        _write(lake, timeline, walk, versions)
        raise
    return TimelineRun(_write(lake, timeline, walk, versions), tuple(walk.done))


def refuse_raw(step: Step, timeline: str) -> None:
    """Raise :class:`InvalidRequest` for a raw step on the timeline of this name."""
    if step.source is not None:
        raise InvalidRequest(
            f"{step.name} is not built on the timeline {timeline}: raw is only ever appended to, and is shared.",
            hint=f"Ingest on main: backfill run {step.name} --days A..B. "
            f"Then take its rows to the timeline: backfill timeline forward {timeline}",
        )


def place_of(lake: Lake, timeline: NamedTimeline, asked: Sequence[StepRequest]) -> Place:
    """The timeline over its base, as far as the steps write, read or look at tables: main may have moved on since."""
    looked_at = {name for each in asked for table in each.step.tables for name in gates.metrics_needed(table)}
    tables = looked_at.union(*(touched_tables(each.step) for each in asked))
    base = View.at(lake.storage, timeline.base).records(tables)
    return Place(timeline.id, overlay_of(timeline), base)


def _version_of(done: StepBuilt) -> str:
    """The version that a plan is to go by which publishes these days."""
    asked = done.build.asked
    if asked.version != decide.AS_PUBLISHED:
        return asked.named.name
    return Counter(version.name for version in done.build.versions.values()).most_common(1)[0][0]


def _write(lake: Lake, timeline: NamedTimeline, walk: Walk, versions: Mapping[str, str]) -> NamedTimeline:
    """The next revision, if a day is other than it was."""
    changed = {
        table: {day: each for day, each in days.items() if each != timeline.held(table).get(day)}
        for table, days in walk.changed.items()
    }
    count = sum(map(len, changed.values()))
    if not count:
        return timeline
    tables = ", ".join(table for table, days in changed.items() if days)
    change = f"run: {format_count(count, 'day')} of {tables}"
    update = {"versions": {**timeline.versions, **versions}}
    return change_timeline(
        lake.storage, timeline.with_days(changed).model_copy(update=update), change, lake.publisher.now()
    )
