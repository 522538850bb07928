"""Builds requested days on a timeline (``run_on``), or all that it has again (``forward``), through the usual gates.

A run takes all its days of a step or none, and writes one revision at its end; after a kill, staged days are reused.

Going forward takes rows that arrived since the moment, once. Without arrivals only the logic differs, and the
timeline's other days show that moment too.
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
    timeline: NamedTimeline
    steps: tuple[StepBuilt, ...] = ()
    arrived: Arrived = NOTHING_ARRIVED
    note: str = ""


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
    """Build days step by step, and write the timeline's next revision if one changed. Steps before a failed one are
    written.

    Raises :class:`DaysFailed` for a failed gate (good days stay staged), :class:`InvalidRequest` for raw tables and
    days that have not ended, :class:`PublicationRefused` if another process changed the timeline, or for a dirty tree.
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
    """Raises :class:`InvalidRequest` for a raw or external table."""
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
    tables = {name for each in asked for name in (*touched_tables(each.step), *gates.looked_at_beside(each.step))}
    base = View.at(lake.storage, timeline.base).records(tables)
    return Place(timeline.id, Overlay(timeline.records), base)


def _version_of(done: StepBuilt) -> str:
    asked = done.build.asked
    if asked.version != decide.AS_PUBLISHED:
        return asked.named.name
    return Counter(version.name for version in done.build.versions.values()).most_common(1)[0][0]


def _write(lake: Lake, timeline: NamedTimeline, walk: Walk, versions: Mapping[str, str]) -> NamedTimeline:
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
    """Compute the days of ``timeline`` again and write them, to itself or to a new timeline ``other``.

    Raises :class:`InvalidRequest` if ``other`` is taken, :class:`PublicationRefused` if another process changed the
    timeline, and like :func:`computed_again`.
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
    """Compute the days of ``timeline`` again, without writing it.

    ``version`` is for the tables it was rewound for; others use current versions. A day that gates hold back keeps its
    content, with all that read it. Without ``arrivals``, inputs are those of the moment.

    Raises :class:`InvalidRequest` for a version that none of these tables has or a timeline without days,
    :class:`PublicationRefused` for a dirty tree or a moment whose files are gone.
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
    concerned = steps_of(steps, timeline.days)
    named = [step for step in concerned if not set(timeline.targets or timeline.days).isdisjoint(step.table_names)]
    with_version = {step.name for step in named if version in {each.name for each in step.versions}}
    if version and not with_version:
        known = "; ".join(f"{step.name} has {', '.join(each.name for each in step.versions)}" for step in named)
        raise UnknownVersion(f"None of the rewound tables has a version {version!r}.", hint=f"{known}.")
    return {step.name: version if step.name in with_version else step.current for step in concerned}


# ------------------------------------------------------------------ as of its moment


def records_at_moment(storage: Storage, steps: Sequence[Step], timeline: NamedTimeline) -> DayRecords:
    """Inputs and tables of ``timeline`` as of its moment.

    Raises :class:`InvalidRequest` if it does not record one, :class:`PublicationRefused` with possible moments if
    files are gone.
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
    concerned = steps_of(steps, timeline.days)
    filled = filled_in_records(concerned, held)
    read = read_by_any(((step, timeline.days_of(step.table_names)) for step in concerned), filled)
    return {
        table: {day: each for day, each in held.get(table, {}).items() if day in days} for table, days in read.items()
    }


def base_at_moment(storage: Storage, timeline: NamedTimeline) -> TimelineBase:
    if timeline.moment_base is None:
        raise AssertionError(f"{timeline.name} has no moment.")
    then = timeline.moment_base
    every = view_closed_by(storage, then.sequence)
    others = every.records(every.versions.keys() - then.versions.keys())
    whole = [name for name, held in others.items() if not missing_files(storage, name, held.values())]
    return TimelineBase(sequence=then.sequence, versions={**base_of(every, whole).versions, **then.versions})
