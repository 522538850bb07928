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
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import (
    HeldDay,
    NamedTimeline,
    TimelineBase,
    change_timeline,
    create_timeline,
    require_free_name,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import steps_of
from backfill_assets.publication.publisher import Publisher
from backfill_assets.published.moments import held_days
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.overlay import NOTHING_STAGED, DayBefore, Overlay
from backfill_assets.rebuild.replace import ReplaceBuild
from backfill_assets.rebuild.shadow import HeldBack, ShadowStep, shadow_step
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
class ForwardedStep:
    """What became of the days of one step."""

    step: str
    version: str
    kept: tuple[date, ...] = ()
    """As they were on the timeline already."""
    staged: tuple[date, ...] = ()
    from_main: tuple[date, ...] = ()
    """Main has them from just these inputs by this version."""
    held_back: tuple[HeldBack, ...] = ()


@dataclass(frozen=True)
class Forwarded:
    """The timeline as it is to be written, and what was done for it, in build order."""

    timeline: NamedTimeline
    steps: tuple[ForwardedStep, ...]
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
    base = Snapshot.newest(lake.storage)
    if arrivals:
        arrived, inputs = arrived_since(base, steps, timeline), Overlay()
    else:
        arrived, inputs = NOTHING_ARRIVED, overlay_of_moment(lake.storage, base, steps, timeline)
    way = _Way(lake, timeline, run, progress, overlay_of(timeline, inputs))
    done = [way.take(step, chosen[step.name]) for step in steps_of(steps, timeline.days)]
    held_back = tuple(f"{each.table} {each.day}: {each.why}" for one in done for each in one.held_back)
    versions = {each.step: each.version for each in done}
    made = timeline.with_days(way.changed).model_copy(update={"versions": versions, "held_back": held_back})
    if not arrivals:
        then = {"reads": timeline.moment_reads, "arrived": {}, "base": base_at_moment(lake.storage, timeline)}
        return Forwarded(made.model_copy(update=then), tuple(done), arrived)
    through = TimelineBase(sequence=base.sequence, versions=base.versions)
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


def overlay_of(timeline: NamedTimeline, inputs: Overlay = NOTHING_STAGED) -> Overlay:
    """The days of ``timeline`` in place of main's, and over those of ``inputs``."""
    overlay = inputs
    for table, held in timeline.days.items():
        overlay = overlay.putting_back(table, ((each.day, day_before(each)) for each in held))
    return overlay


def overlay_of_moment(storage: Storage, now: Snapshot, steps: Sequence[Step], timeline: NamedTimeline) -> Overlay:
    """Everything that the days of ``timeline`` are computed from as it was at its moment, in place of main's.

    A day that came since has no rows, and counts as never published. Raises :class:`PublicationRefused` where files of
    the moment are gone, with the earliest moment of each table that can be had.
    """
    then = held_at_moment(storage, steps, timeline)
    require_files(storage, days_read(steps, timeline, then), timeline.moment)
    since = held_days(now, then)
    overlay = Overlay()
    for table, held in then.items():
        days = {day: held.get(day, HeldDay(day=day)) for day in {*held, *since[table]}}
        overlay = overlay.putting_back(table, ((day, day_before(each)) for day, each in days.items()))
    return overlay


def day_before(held: HeldDay) -> DayBefore:
    return DayBefore(content=held.content, files=held.files, foreign=held.foreign)


@dataclass
class _Way:
    """Goes from step to step; each reads what the ones before it have left on the timeline."""

    lake: Lake
    timeline: NamedTimeline
    run: RunInfo
    progress: Progress
    overlay: Overlay

    def __post_init__(self) -> None:
        self.changed: dict[str, dict[date, HeldDay]] = {}
        self.out: dict[str, frozenset[date]] = {}

    def take(self, step: Step, version: str) -> ForwardedStep:
        days = sorted({day for name in step.table_names for day in self.timeline.held(name)})
        inputs = self.overlay.without(step.table_names)
        kept = self.kept(step, version, days, inputs)
        todo = tuple(day for day in days if day not in kept)
        wanted = ShadowStep(step, step.version(version), todo)
        done = shadow_step(self.lake, self.timeline.id, wanted, self.run, self.progress, inputs, self.out)
        built = {table: built_days(done.build, table, self.timeline.name) for table in done.build.tables}
        out = frozenset(held.day for held in done.held_back)
        for table, found in built.items():
            taken = {day: held for day, held in found.items() if day not in out}
            self.changed.setdefault(table, {}).update(taken)
            self.overlay = self.overlay.putting_back(table, ((day, day_before(held)) for day, held in taken.items()))
            self.out[table] = out
        staged, from_main = (tuple(day for day in days if day not in out) for days in (done.staged, done.unchanged))
        return ForwardedStep(step.name, version, tuple(sorted(kept)), staged, from_main, tuple(done.held_back))

    def kept(self, step: Step, version: str, days: Sequence[date], inputs: Overlay) -> set[date]:
        """The days that the timeline has from just what would be read now, and that no input holds back."""
        build = ReplaceBuild(self.lake, step, step.version(version), self.run, False, self.progress, overlay=inputs)
        pin = build.pin(days)
        wanted = decide.wanted(step, build.version, days, {name: read.days for name, read in pin.inputs.items()})
        blocked = decide.days_reading(step, build.version, days, self.out)
        return {day for day in days if day not in blocked and self.holds(step, day, wanted[day].input_fingerprint)}

    def holds(self, step: Step, day: date, fingerprint: str) -> bool:
        contents = [self.timeline.held(name).get(day) for name in step.table_names]
        return all(
            each is not None and each.content and each.content.input_fingerprint == fingerprint for each in contents
        )


def count_of(steps: Sequence[ForwardedStep]) -> Mapping[str, int]:
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


# ------------------------------------------------------------------ what a build brings to a timeline


def built_days(build: ReplaceBuild, table: str, timeline: str) -> dict[date, HeldDay]:
    """The days of ``table`` that the timeline of the name ``timeline`` holds after ``build``.

    Raises :class:`PublicationRefused` if main has published a day again since it was found unchanged.
    """
    staged = {
        each.day: HeldDay(day=each.day, content=each.content, files=each.files)
        for held in build.staged.values()
        for each in held
        if each.table == table
    }
    return staged | _days_of_main(build, table, timeline)


def _days_of_main(build: ReplaceBuild, table: str, timeline: str) -> dict[date, HeldDay]:
    if not build.reused:
        return {}
    storage = build.lake.storage
    main = MainTable.open(storage, table)
    active = read_log(storage, table, main.version).active if main else {}
    found = {}
    for day, pin in build.reused.items():
        key = TableDay(table, day)
        paths = pin.expected[key].files
        if any(path not in active for path in paths):
            raise PublicationRefused(
                f"{table} {day} was published again while it was taken over on the timeline {timeline}.",
                hint="What was staged is kept: run the command again.",
            )
        found[day] = HeldDay(day=day, content=pin.states[key].content, files=tuple(active[path] for path in paths))
    return found
