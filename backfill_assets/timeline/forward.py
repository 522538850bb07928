"""Going forward: the days of a timeline are computed again from its moment on, by the logic that is asked for.

Raw is read as it is now, so that rows which arrived since are taken once. A day whose inputs, version and content are
as they were is kept; one that main has just so is taken over by name; the others are staged in the timeline's folders.
Without a day to compute, no Spark is started.

Without arrivals, everything is read as it was at the moment: what changes then is the work of the logic alone. The
other days read through to the moment from then on, so that the timeline agrees with itself, and to main again when it
goes forward with arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    change_timeline,
    create_timeline,
    require_free_name,
)
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import steps_of
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import NOTHING_LAID, Overlay, Place
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import StepBuilt, Walk
from backfill_assets.state.view import View
from backfill_assets.timeline.arrivals import (
    NOTHING_ARRIVED,
    Arrived,
    arrived_since,
    base_at_moment,
    days_read,
    held_at_moment,
)
from backfill_assets.timeline.rewind import copied_timeline, require_files


@dataclass(frozen=True)
class Forwarded:
    """The timeline as it is to be written, and what was done for it, in build order."""

    timeline: NamedTimeline
    steps: tuple[StepBuilt, ...]
    arrived: Arrived = NOTHING_ARRIVED
    note: str = ""
    """Why nothing was done, if that is so."""


def forward(
    lake: Lake,
    steps: Sequence[Step],
    timeline: NamedTimeline,
    version: str,
    run: RunInfo,
    progress: Progress,
    *,
    arrivals: bool = True,
) -> Forwarded:
    """Compute the days of ``timeline`` again; ``version`` is for the tables that it was rewound for.

    Without one, each step goes by its current version. A day that its gates hold back stays what it was on the
    timeline, with all that reads it. Without ``arrivals``, everything is read as it was at the moment of the timeline.

    Raises :class:`InvalidRequest` for a version that none of these tables has and for a timeline without days,
    :class:`PublicationRefused` for a dirty tree if the settings refuse it, and for a moment whose files are gone.
    """
    if not timeline.days:
        raise InvalidRequest(
            f"The timeline {timeline.name} has no days of its own.",
            hint=f"backfill run TABLE --days A..B --on {timeline.name} builds some there; "
            "backfill timeline rewind TABLES --to MOMENT makes one that has them.",
        )
    lake.require_clean_tree()
    steps = lake.with_current(steps)
    chosen = versions_to_use(steps, timeline, version)
    lake.publisher.recover({name for step in steps for name in step.table_names})
    base = View.newest(lake.storage)
    arrived, inputs = NOTHING_ARRIVED, NOTHING_LAID
    if arrivals:
        arrived = arrived_since(base, steps, timeline)
    else:
        inputs = overlay_of_moment(lake.storage, base, steps, timeline)
    walk = Walk(lake, Place(timeline.id, overlay_of(timeline, inputs)), run, progress)
    done = [
        walk.take(StepRequest(step, sorted(timeline.days_of(step.table_names)), chosen[step.name]))
        for step in steps_of(steps, timeline.days)
    ]
    held_back = tuple(f"{each.table} {each.day}: {each.why}" for one in done for each in one.held_back)
    versions = {each.step: each.version for each in done}
    made = timeline.with_days(walk.changed).model_copy(update={"versions": versions, "held_back": held_back})
    if not arrivals:
        then = {"reads": timeline.moment_reads, "arrived": {}, "base": base_at_moment(lake.storage, timeline)}
        return Forwarded(made.model_copy(update=then), tuple(done), arrived)
    through = base.base
    return Forwarded(arrived.recorded_on(made).model_copy(update={"base": through}), tuple(done), arrived)


def versions_to_use(steps: Sequence[Step], timeline: NamedTimeline, version: str) -> dict[str, str]:
    """The version of each step that has days on ``timeline``. Pure."""
    concerned = steps_of(steps, timeline.days)
    named = [step for step in concerned if not set(timeline.targets or timeline.days).isdisjoint(step.table_names)]
    with_version = {step.name for step in named if version in {each.name for each in step.versions}}
    if version and not with_version:
        known = "; ".join(f"{step.name} has {', '.join(each.name for each in step.versions)}" for step in named)
        raise InvalidRequest(f"None of the rewound tables has a version {version!r}.", hint=f"{known}.")
    return {step.name: version if step.name in with_version else step.current for step in concerned}


def overlay_of(timeline: NamedTimeline, below: Overlay = NOTHING_LAID) -> Overlay:
    """The days of ``timeline`` in place of main's, and over those of ``below``."""
    return below.with_records({table: timeline.held(table) for table in timeline.days})


def overlay_of_moment(storage: Storage, now: View, steps: Sequence[Step], timeline: NamedTimeline) -> Overlay:
    """Everything that the days of ``timeline`` are computed from as it was at its moment, in place of main's.

    A day that came since has no rows, and counts as never published. Raises :class:`PublicationRefused` where files of
    the moment are gone, with the earliest moment of each table that can be had.
    """
    then = held_at_moment(storage, steps, timeline)
    require_files(storage, days_read(steps, timeline, then), timeline.moment)
    since = now.records(then)
    return Overlay(
        {
            table: {day: held.get(day, DayRecord(day=day)) for day in {*held, *since[table]}}
            for table, held in then.items()
        }
    )


def count_of(steps: Sequence[StepBuilt]) -> Mapping[str, int]:
    """How many days of steps were kept, taken over, staged and held back, together."""
    return {
        "kept": sum(len(each.kept) for each in steps),
        "from main": sum(len(each.from_main) for each in steps),
        "staged": sum(len(each.staged) for each in steps),
        "held back": sum(len({held.day for held in each.held_back}) for each in steps),
    }


# ------------------------------------------------------------------ on the timeline itself, or on another one

GoForward = Callable[[NamedTimeline], Forwarded]
"""Computes the days of a timeline, which is not written by that."""


def attempt_forward(
    publisher: Publisher, timeline: NamedTimeline, other: str | None, by: str, change: str, go: GoForward
) -> Forwarded:
    """Go forward from ``timeline``, on itself or as ``other``, and write what became of it.

    Raises :class:`InvalidRequest` if ``other`` is taken, before anything is computed; and :class:`PublicationRefused`
    if another process has changed the timeline meanwhile.
    """
    if other is None:
        done = go(timeline)
        return replace(done, timeline=change_timeline(publisher.storage, done.timeline, change, publisher.now()))
    require_free_name(publisher.storage, other, publisher.now())
    done = go(copied_timeline(timeline, other, by, publisher.now()))
    made = done.timeline.model_copy(update={"change": change, "changed_at": publisher.now()})
    return replace(done, timeline=create_timeline(publisher.storage, made))
