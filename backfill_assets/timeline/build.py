"""Builds days on a timeline by the gates that a run has: those that are asked for, or all that it has, from now on.

A run reads what the timeline shows: its own days, and all others as of its base. It takes all of its days of a step or
none, and writes one revision at its end: a process that is killed leaves the timeline as it was, and what it has staged
is used by the next one.

Going forward computes the timeline's own days again. Raw is read as it is now, so that rows which arrived since its
moment are taken once. Without arrivals, everything is read as it was at the moment: what changes then is the work of
the logic alone. The other days read through to the moment from then on, so that the timeline agrees with itself, and to
main again when it goes forward with arrivals.

A day whose inputs, version and content are as they were is kept; one that main has just so is taken over by name; the
others are staged in the timeline's folders. Without a day to compute, no Spark is started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, UnknownVersion
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    TimelineBase,
    change_timeline,
    create_timeline,
    require_free_name,
)
from backfill_assets.lakehouse.records import DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import read_by_any, steps_of
from backfill_assets.quality import gates
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.builder import touched_tables
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import Overlay, Place
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import StepBuilt, Walk
from backfill_assets.spark.session import explain_lost_server
from backfill_assets.state.view import View, view_closed_by
from backfill_assets.text import format_count
from backfill_assets.timeline.arrivals import (
    NOTHING_ARRIVED,
    Arrived,
    arrived_since,
    base_of,
    missing_files,
    needed_tables,
)
from backfill_assets.timeline.rewind import copied_timeline, require_files
from backfill_assets.timeline.view import filled_in_records


@dataclass(frozen=True)
class TimelineBuilt:
    """The timeline as it is now, or is to be written, and what was done for it, in build order."""

    timeline: NamedTimeline
    steps: tuple[StepBuilt, ...] = ()
    arrived: Arrived = NOTHING_ARRIVED
    note: str = ""
    """Why nothing was done, if that is so."""


# ------------------------------------------------------------------ days that are asked for


def run_on(
    lake: Lake,
    timeline: NamedTimeline,
    asked: Sequence[StepRequest],
    run: RunInfo,
    progress: Progress,
    *,
    report: Callable[[StepBuilt], None] = lambda _: None,
) -> TimelineBuilt:
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
    walk = Walk(lake, _over_its_base(lake, timeline, asked), run, progress, holds_back=False)
    versions: dict[str, str] = {}
    try:
        for each in asked:
            with explain_lost_server(f"{each.step.name} was built on {timeline.name}"):
                versions[each.step.name] = _version_of(walk.take(each))
            report(walk.done[-1])
    except Exception:
        _write(lake, timeline, walk, versions)
        raise
    return TimelineBuilt(_write(lake, timeline, walk, versions), tuple(walk.done))


def refuse_raw(step: Step, timeline: str) -> None:
    """Raise :class:`InvalidRequest` for a raw step, or a table of others, on the timeline of this name."""
    if step.external is not None:
        step.external.refuse(
            f"it is not built on the timeline {timeline}",
            f"backfill run {step.name} --days A..B looks at it, and then what is made of it can be built there.",
        )
    if step.source is not None:
        raise InvalidRequest(
            f"{step.name} is not built on the timeline {timeline}: raw is only ever appended to, and is shared.",
            hint=f"Ingest on main: backfill run {step.name} --days A..B. "
            f"Then take its rows to the timeline: backfill timeline forward {timeline}",
        )


def _over_its_base(lake: Lake, timeline: NamedTimeline, asked: Sequence[StepRequest]) -> Place:
    """The timeline over its base, as far as the steps write, read or look at tables: main may have moved on since."""
    tables = {name for each in asked for name in (*touched_tables(each.step), *gates.looked_at_beside(each.step))}
    base = View.at(lake.storage, timeline.base).records(tables)
    return Place(timeline.id, Overlay(timeline.records), base)


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
    return change_timeline(lake.storage, timeline.with_days(changed).model_copy(update=update), change, clock.now())


# ------------------------------------------------------------------ all days that it has


def forward(
    lake: Lake,
    timeline: NamedTimeline,
    version: str,
    run: RunInfo,
    progress: Progress,
    *,
    arrivals: bool = True,
    other: str | None = None,
    by: str = "",
) -> TimelineBuilt:
    """Compute the days of ``timeline`` again, on itself or as the timeline ``other``, and write what became of it.

    Raises :class:`InvalidRequest` if ``other`` is taken, before anything is computed; :class:`PublicationRefused` if
    another process has changed the timeline meanwhile; and what :func:`computed_again` raises.
    """
    storage = lake.storage
    if other is not None:
        require_free_name(storage, other, clock.now())
        timeline = copied_timeline(timeline, other, by, clock.now())
    by_version = f" by {version}" if version else ""
    change = f"forward from {timeline.moment or 'its base'}{by_version}" + ("" if arrivals else " without arrivals")
    done = computed_again(lake, timeline, version, run, progress, arrivals=arrivals)
    if other is None:
        return replace(done, timeline=change_timeline(storage, done.timeline, change, clock.now()))
    made = done.timeline.model_copy(update={"change": change, "changed_at": clock.now()})
    return replace(done, timeline=create_timeline(storage, made))


def computed_again(
    lake: Lake, timeline: NamedTimeline, version: str, run: RunInfo, progress: Progress, *, arrivals: bool = True
) -> TimelineBuilt:
    """Compute the days of ``timeline`` again, which is not written; ``version`` is for the tables it was rewound for.

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
    steps = lake.with_current(lake.catalog.steps)
    chosen = versions_to_use(steps, timeline, version)
    lake.publisher.recover({name for step in steps for name in step.table_names})
    main = View.newest(lake.storage)
    arrived = arrived_since(main, steps, timeline) if arrivals else NOTHING_ARRIVED
    base = None if arrivals else records_at_moment(lake.storage, steps, timeline)
    walk = Walk(lake, Place(timeline.id, Overlay(timeline.records), base), run, progress)
    for step in steps_of(steps, timeline.days):
        walk.take(StepRequest(step, sorted(timeline.days_of(step.table_names)), chosen[step.name]))
    made = timeline.with_days(walk.changed).model_copy(
        update={
            "versions": {each.step: each.version for each in walk.done},
            "held_back": tuple(f"{each.table} {each.day}: {each.why}" for one in walk.done for each in one.held_back),
            "base": main.base,
        }
    )
    if arrivals:
        made = arrived.recorded_on(made)
    else:
        then = {"reads": timeline.moment_reads, "arrived": {}, "base": base_at_moment(lake.storage, timeline)}
        made = made.model_copy(update=then)
    return TimelineBuilt(made, tuple(walk.done), arrived)


def versions_to_use(steps: Sequence[Step], timeline: NamedTimeline, version: str) -> dict[str, str]:
    """The version of each step that has days on ``timeline``. Pure."""
    concerned = steps_of(steps, timeline.days)
    named = [step for step in concerned if not set(timeline.targets or timeline.days).isdisjoint(step.table_names)]
    with_version = {step.name for step in named if version in {each.name for each in step.versions}}
    if version and not with_version:
        known = "; ".join(f"{step.name} has {', '.join(each.name for each in step.versions)}" for step in named)
        raise UnknownVersion(f"None of the rewound tables has a version {version!r}.", hint=f"{known}.")
    return {step.name: version if step.name in with_version else step.current for step in concerned}


# ------------------------------------------------------------------ as of its moment


def records_at_moment(storage: Storage, steps: Sequence[Step], timeline: NamedTimeline) -> DayRecords:
    """What the tables held at the moment of ``timeline`` that its days are computed from, and its own tables.

    Raises :class:`InvalidRequest` for a timeline that does not keep which state that was, :class:`PublicationRefused`
    where files of what its days read are gone, with the earliest moment of each table that can be had.
    """
    if timeline.moment_base is None:
        raise InvalidRequest(
            f"The timeline {timeline.name} does not keep what its days were computed from.",
            hint="It was not rewound, or by earlier code. backfill timeline rewind TABLES makes one that does.",
        )
    held = View.at(storage, timeline.moment_base).records(needed_tables(steps, timeline.days))
    require_files(storage, _days_read(steps, timeline, held), timeline.moment)
    return held


def _days_read(steps: Sequence[Step], timeline: NamedTimeline, held: DayRecords) -> DayRecords:
    """Those of the ``held`` days that the days of ``timeline`` are computed from, by any version. Pure."""
    concerned = steps_of(steps, timeline.days)
    filled = filled_in_records(concerned, held)
    read = read_by_any(((step, timeline.days_of(step.table_names)) for step in concerned), filled)
    return {
        table: {day: each for day, each in held.get(table, {}).items() if day in days} for table, days in read.items()
    }


def base_at_moment(storage: Storage, timeline: NamedTimeline) -> TimelineBase:
    """Everything as it was at the moment of ``timeline``, for its other days to read through to.

    It keeps what its days are computed from. Of other tables files may be gone: such a table is left out.
    """
    if timeline.moment_base is None:
        raise AssertionError(f"{timeline.name} has no moment.")
    then = timeline.moment_base
    every = view_closed_by(storage, then.sequence)
    others = every.records(every.versions.keys() - then.versions.keys())
    whole = [name for name, held in others.items() if not missing_files(storage, name, held.values())]
    return TimelineBase(sequence=then.sequence, versions={**base_of(every, whole).versions, **then.versions})
