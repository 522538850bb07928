"""Builds days on a timeline as a run builds them on main: gates decide, and nothing is published.

What a step reads is what the timeline shows: its own days, and all others as of its base. A run takes all of its days
of a step or none, and writes one revision at its end: a process that is killed leaves the timeline as it was, and what
it has staged is used by the next one. Without a day to compute, no Spark is started.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import HeldDay, NamedTimeline, change_timeline
from backfill_assets.model.declaration import Step, Version
from backfill_assets.published.moments import HeldDays, held_days
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.quality import gates
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.builder import touched_tables
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.overlay import NOTHING_STAGED, Overlay
from backfill_assets.rebuild.replace import ReplaceBuild, refuse_failed
from backfill_assets.spark.session import explain_lost_server
from backfill_assets.text import format_count
from backfill_assets.timeline.forward import built_days, day_before
from backfill_assets.timeline.view import inputs_shown, state_of


@dataclass(frozen=True)
class StepRequest:
    """The days of one step to build. ``along`` are those of them that go by the version they have, and are not forced.

    ``version`` may be :data:`decide.AS_PUBLISHED`: then every day does.
    """

    step: Step
    days: Sequence[date]
    version: str = ""
    along: Collection[date] = ()


@dataclass(frozen=True)
class StepBuilt:
    """What became of the days of one step, and what its tables hold on them now."""

    step: str
    unchanged: tuple[date, ...]
    """As the timeline shows them already, from these inputs by this version."""
    from_main: tuple[date, ...]
    """Main has them from just these inputs by this version: its files are used by name."""
    staged: tuple[date, ...]
    held: HeldDays
    seconds: float

    def __str__(self) -> str:
        counts = f"{len(self.staged):,} staged, {len(self.from_main):,} from main, {len(self.unchanged):,} unchanged"
        return f"{self.step}: {counts}, in {self.seconds:.1f} s"

    @property
    def rows(self) -> int:
        return sum(each.content.rows for each in self.held[self.step].values() if each.content)


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
    force: bool = False,
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
    work = _TimelineWork(lake, timeline, run, progress, force, _shown(lake, timeline, asked))
    try:
        for each in asked:
            with explain_lost_server(f"{each.step.name} was built on {timeline.name}"):
                work.build(each)
            report(work.done[-1])
    except Exception:
        work.write()
        raise
    return TimelineRun(work.write(), tuple(work.done))


def refuse_raw(step: Step, timeline: str) -> None:
    """Raise :class:`InvalidRequest` for a raw step on the timeline of this name."""
    if step.source is not None:
        raise InvalidRequest(
            f"{step.name} is not built on the timeline {timeline}: raw is only ever appended to, and is shared.",
            hint=f"Ingest on main: backfill run {step.name} --days A..B. "
            f"Then take its rows to the timeline: backfill timeline forward {timeline}",
        )


def _shown(lake: Lake, timeline: NamedTimeline, asked: Sequence[StepRequest]) -> dict[str, dict[date, HeldDay]]:
    """What the timeline shows of every table that the steps write or read, or that their gates look at."""
    tables = {name for each in asked for name in (*touched_tables(each.step), *_looked_at(each.step))}
    base = held_days(Snapshot(lake.storage, timeline.base.sequence, timeline.base.versions), tables)
    return {table: {**base[table], **timeline.held(table)} for table in tables}


def _looked_at(step: Step) -> set[str]:
    return {name for table in step.tables for name in gates.metrics_needed(table)}


@dataclass
class _TimelineWork:
    """Goes from step to step; each reads what the ones before it have left on the timeline."""

    lake: Lake
    timeline: NamedTimeline
    run: RunInfo
    progress: Progress
    force: bool
    shown: dict[str, dict[date, HeldDay]]
    done: list[StepBuilt] = field(default_factory=list)
    changed: dict[str, dict[date, HeldDay]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def build(self, asked: StepRequest) -> None:
        began, step = time.monotonic(), asked.step
        unchanged: list[date] = []
        builds = []
        for (name, forced), days in self.by_version(asked).items():
            version = step.version(name)
            kept = set() if forced else self.kept(step, version, days)
            unchanged += kept
            todo = [day for day in days if day not in kept]
            if todo:
                builds.append(self.stage(step, version, todo, forced=forced))
        refuse_failed({day: held for build in builds for day, held in build.staged.items()})
        for build in builds:
            for table in build.tables:
                found = built_days(build, table, self.timeline.name)
                self.changed.setdefault(table, {}).update(found)
                self.shown[table].update(found)
        self.versions[step.name] = self.version_of(asked)
        self.done.append(
            StepBuilt(
                step.name,
                unchanged=tuple(sorted(unchanged)),
                from_main=tuple(sorted(day for build in builds for day in build.reused)),
                staged=tuple(sorted(day for build in builds for day in build.staged)),
                held={name: {day: self.shown[name][day] for day in asked.days} for name in step.table_names},
                seconds=round(time.monotonic() - began, 1),
            )
        )

    def by_version(self, asked: StepRequest) -> dict[tuple[str, bool], list[date]]:
        """The days by the version that builds them, and whether they are forced."""
        own = asked.step.version(None if asked.version == decide.AS_PUBLISHED else asked.version or None).name
        names = dict.fromkeys(asked.days, own) | self.versions_shown(asked)
        found: dict[tuple[str, bool], list[date]] = {}
        for day in asked.days:
            found.setdefault((names[day], self.force and day not in asked.along), []).append(day)
        return found

    def versions_shown(self, asked: StepRequest) -> dict[date, str]:
        """The versions that the timeline has days by, of those that go by it."""
        days = [day for day in asked.days if asked.version == decide.AS_PUBLISHED or day in asked.along]
        states = {
            TableDay(name, day): state_of(name, self.held(name, day), self.timeline.base.sequence)
            for name in asked.step.table_names
            for day in days
        }
        return decide.versions_as_published(asked.step, days, states)

    def version_of(self, asked: StepRequest) -> str:
        """The version that a plan is to go by which publishes these days."""
        if asked.version != decide.AS_PUBLISHED:
            return asked.version or asked.step.current
        return Counter(self.versions_shown(asked).values()).most_common(1)[0][0]

    def kept(self, step: Step, version: Version, days: Sequence[date]) -> set[date]:
        """The days that the timeline shows from just what would be read now; decided without asking main."""
        wanted = inputs_shown(step, version, days, self.shown)
        return {day for day in days if self.shows(step, day, wanted[day].input_fingerprint)}

    def shows(self, step: Step, day: date, fingerprint: str) -> bool:
        contents = [self.held(name, day).content for name in step.table_names]
        return all(content is not None and content.input_fingerprint == fingerprint for content in contents)

    def held(self, table: str, day: date) -> HeldDay:
        return self.shown[table].get(day) or HeldDay(day=day)

    def stage(self, step: Step, version: Version, days: Sequence[date], *, forced: bool) -> ReplaceBuild:
        inputs = self.inputs(step, version, days)
        build = ReplaceBuild(
            self.lake, step, version, self.run, forced, self.progress, overlay=inputs, campaign=self.timeline.id
        )
        build.stage(days)
        return build

    def inputs(self, step: Step, version: Version, days: Sequence[date]) -> Overlay:
        """Everything that is read or looked at, as the timeline shows it: main may have moved on since its base."""
        reads = decide.read_days(step, version, days)
        periods = {day for start in days for day in step.cadence.period(start)}
        overlay = NOTHING_STAGED
        for table in ({*reads, *_looked_at(step)}).difference(step.table_names):
            wanted = periods.union(reads.get(table, ()))
            overlay = overlay.putting_back(table, ((day, day_before(self.held(table, day))) for day in wanted))
        return overlay

    def write(self) -> NamedTimeline:
        """The next revision, if a day is other than it was."""
        changed = {
            table: {day: held for day, held in days.items() if held != self.timeline.held(table).get(day)}
            for table, days in self.changed.items()
        }
        count = sum(map(len, changed.values()))
        if not count:
            return self.timeline
        tables = ", ".join(table for table, days in changed.items() if days)
        change = f"run: {format_count(count, 'day')} of {tables}"
        versions = {**self.timeline.versions, **self.versions}
        next_one = self.timeline.with_days(changed).model_copy(update={"versions": versions})
        return change_timeline(self.lake.storage, next_one, change, self.lake.publisher.now())
