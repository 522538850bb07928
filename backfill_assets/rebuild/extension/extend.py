"""Extends days that gained raw rows: only what the new rows change is computed, and all tables are published together.

A day whose content cannot be computed so, to the last metric, is built whole in the same publication. A day that its
gates hold back stays as it is, and the others are published without it: a stream does not stop for one bad day.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta

from backfill_assets.days import Cadence, TableDay
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Publication
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.refinement import Refinement
from backfill_assets.publish.holds import held_days, wait_for_holds
from backfill_assets.publish.publisher import Conflict, Pin, Published
from backfill_assets.quality import gates
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.extension.earlier_states import InputMemory
from backfill_assets.rebuild.extension.step_growth import extend_followers, extend_refined
from backfill_assets.rebuild.extension.table_growth import Extended, Growth
from backfill_assets.rebuild.lake import Lake, Progress, provenance
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import NOTHING_LAID, Overlay, Place
from backfill_assets.rebuild.stage import StagedTableDay
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest, by_version, of_main
from backfill_assets.rebuild.walk import HeldBack
from backfill_assets.state.readers import published_version
from backfill_assets.text import format_count

HOLD_SECONDS = 5.0
_MOST_ATTEMPTS = 3
_SHORTEST_PAUSE, _PAUSE_TIMES = timedelta(seconds=60), 20
"""A day that is held back when it is built whole waits this long, or so many times what building it took."""
_UNCHANGED, _EXTENDED, _BUILT = "unchanged", "extended", "built"
_KEPT_CHANGING = "other publications kept changing it"


@dataclass(frozen=True)
class GrownDay:
    """What became of one day of one step. ``how`` is ``extended``, ``built`` whole or ``unchanged``."""

    table: str
    day: date
    how: str
    reason: str = ""
    """Why the day was built whole."""
    added: int = 0
    """Rows that were computed, of all tables of the step."""
    removed: int = 0
    """Rows that they replace."""
    rewritten: int = 0
    """Files that were written again without those."""


@dataclass(frozen=True)
class ExtendResult:
    """What one call has published. ``publication`` is empty if there was nothing to publish."""

    publication: str
    days: tuple[GrownDay, ...]
    held_back: tuple[HeldBack, ...] = ()
    left: Mapping[date, str] = field(default_factory=dict)
    """Days that are left for the next call, and why."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Delta version by table, of the commits that were made."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each part took."""

    def by(self, how: str) -> tuple[GrownDay, ...]:
        return tuple(day for day in self.days if day.how == how)


def extend(
    lake: Lake,
    steps: Sequence[Step],
    days: Collection[date],
    run: RunInfo,
    progress: Progress,
    *,
    memory: InputMemory | None = None,
    name: str = "",
    open_days: Collection[date] = (),
    transaction: str = "",
    hold_seconds: float = HOLD_SECONDS,
) -> ExtendResult:
    """Bring ``days``, which gained raw rows, through those of ``steps`` that follow, in one publication.

    ``steps`` are in build order: the one that refines raw rows, and any others; those that do not declare how they
    follow are left out. A day may be today. ``memory`` is kept by a stream between calls. ``name`` is part of the
    publication's id. Reference data of ``open_days`` may be missing: a day is built again when it has landed.
    ``transaction`` is the one that the publications of a stream share. Days
    under a hold of others are waited for ``hold_seconds`` in all, then left for the next call. Raises
    :class:`PublicationRefused` for a dirty tree if the settings refuse it.
    """
    lake.require_clean_tree()
    call = _Call(
        lake,
        [step for step in steps if is_followed(step)],
        run,
        progress,
        memory or InputMemory(),
        frozenset(open_days),
        transaction,
    )
    return call.run_days(sorted(set(days)), name or f"extend-{call.steps[0].name}", hold_seconds)


def is_followed(step: Step) -> bool:
    """Whether days of ``step`` grow with a stream: it refines raw rows, or declares how it follows."""
    return step.source is None and step.cadence is Cadence.DAILY and _follows(step.version()) != ""


def followed_steps(steps: Iterable[Step], raw: str) -> list[Step]:
    """Those of ``steps`` (in build order) that follow the table ``raw``, directly or through others."""
    grown, found = {raw}, list[Step]()
    for step in steps:
        if is_followed(step) and step.version().reads[0].table in grown:
            grown.update(step.table_names)
            found.append(step)
    return found


def _follows(version: Version) -> str:
    return "keys" if isinstance(version.transform, Refinement) else version.follows


@dataclass
class _Call:
    """One call: what it has staged of each step, each day by the version that it was published with."""

    lake: Lake
    steps: Sequence[Step]
    run: RunInfo
    progress: Progress
    memory: InputMemory
    open_days: frozenset[date] = frozenset()
    transaction: str = ""
    builds: dict[str, StepBuild] = field(default_factory=dict)
    grown: dict[TableDay, GrownDay] = field(default_factory=dict)
    held_back: dict[TableDay, tuple[HeldBack, ...]] = field(default_factory=dict)
    left: dict[date, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def tables(self) -> list[str]:
        return [name for step in self.steps for name in step.table_names]

    def run_days(self, days: Sequence[date], name: str, hold_seconds: float) -> ExtendResult:
        with self.timed("recover"):
            self.lake.publisher.recover(set(self.tables))
        todo = days
        try:
            for attempt in range(_MOST_ATTEMPTS + 1):
                if attempt == _MOST_ATTEMPTS:
                    self.leave(todo, _KEPT_CHANGING)
                else:
                    self.stage(todo)
                self.leave_held_days(hold_seconds)
                if not any(build.staged for build in self.builds.values()):
                    return self.result(None)
                with self.timed("publish"):
                    outcome = self.lake.publisher.publish(self.request(name))
                if isinstance(outcome, Published):
                    return self.result(outcome)
                todo = self.moved_days(outcome)
                self.progress(f"{format_count(len(todo), 'day')} moved meanwhile, extending again")
            # The last try published nothing either: no day of it may be taken for one that was extended.
            self.leave({day for build in self.builds.values() for day in build.staged}, _KEPT_CHANGING)
            return self.result(None)
        finally:
            for build in self.builds.values():
                build.close_timelines()

    # ------------------------------------------------------------------ stage

    def stage(self, days: Sequence[date]) -> None:
        """Stage ``days`` of every step; what was staged of them before is dropped."""
        for build in self.builds.values():
            build.forget(days)
        self.held_back = {key: held for key, held in self.held_back.items() if key.day not in days}
        with self.timed("pin"):
            pin = self.pin(days)
            growth = self.growth(days, pin)
        for step in self.steps:
            with self.timed(step.name):
                self.stage_step(step, [day for day in days if day not in self.left], pin, growth)

    def pin(self, days: Sequence[date]) -> Pin:
        """One pin for all steps, so that they see one state."""
        reads: dict[str, set[date]] = {}
        for step in self.steps:
            for version in step.versions:
                for table, found in decide.read_days(step, version, days).items():
                    reads.setdefault(table, set()).update(found)
        needed = {name for step in self.steps for table in step.tables for name in gates.metrics_needed(table)}
        return self.lake.publisher.pin(dict.fromkeys(self.tables, days), reads, also=needed)

    def growth(self, days: Sequence[date], pin: Pin) -> Growth:
        files = {name: self.files(name, days, pin) for name in self.tables}
        return Growth(self.lake, pin, files, self.steps, self.memory)

    def files(self, table: str, days: Sequence[date], pin: Pin) -> dict[date, tuple[AddedFile, ...]]:
        """The files of days that are just as they were pinned; others were moved in between, and are built whole."""
        main = MainTable.open(self.lake.storage, table)
        found = main.state().of_days(days) if main else dict.fromkeys(days, ())
        expected = {day: pin.expected[TableDay(table, day)].files for day in days}
        return {day: files for day, files in found.items() if tuple(file.path for file in files) == expected[day]}

    def stage_step(self, step: Step, days: Sequence[date], pin: Pin, growth: Growth) -> None:
        blocked = self.blocked_days(step, days)
        # What is computed from these stays as it is, too.
        self.held_back |= {TableDay(step.name, day): () for day in blocked}
        paused = self.paused_days(step, [day for day in days if day not in blocked])
        blocked |= paused.keys()
        self.held_back |= {
            TableDay(step.name, day): (HeldBack(step.name, day, because_of=why),) for day, why in paused.items()
        }
        build = self.build_of(step)
        build.place = Place(overlay=self.overlay())
        seen = build.place.overlay.over(pin)
        versions = self.versions(step, [day for day in days if day not in blocked], pin)
        build.versions |= versions
        for version, part in sorted(by_version(versions), key=lambda each: each[1]):
            done = self.extend_days(build, version, part, seen, growth)
            if done.reasons:
                build.stage(sorted(done.reasons))
            build.staged |= {day: list(extended.staged) for day, extended in done.extended.items()}
            self.sort_out(build, part, done.reasons)

    def versions(self, step: Step, days: Sequence[date], pin: Pin) -> dict[date, Version]:
        """The version that each of ``days`` was published with; a day whose version is gone is left as it is."""
        names = {day: published_version(step, day, pin.states) or step.current for day in days}
        declared = {version.name: version for version in step.versions}
        for day in (day for day, name in names.items() if name not in declared):
            self.leave([day], f"{step.name} was published with {names[day]}, which is not declared any more")
        return {day: declared[name] for day, name in names.items() if name in declared}

    def extend_days(
        self, build: StepBuild, version: Version, days: Sequence[date], pin: Pin, growth: Growth
    ) -> Extended:
        """Extend those of ``days`` that can be. Those that are published just as they would be are not looked at."""
        wanted = decide.wanted(build.step, version, days, {name: read.days for name, read in pin.inputs.items()})
        changed = []
        for day in days:
            if decide.made_from(wanted[day].input_fingerprint, [of_main(key, pin) for key in build.asked.keys(day)]):
                build.kept[day] = pin
            else:
                changed.append(day)
        match _follows(version):
            case "keys":
                done = extend_refined(growth, build, version, changed, pin, wanted)
            case "rows":
                done = extend_followers(growth, build, version, changed, pin, wanted)
            case _:
                return Extended(reasons=dict.fromkeys(changed, ""))
        for day, extended in done.extended.items():
            figures = (extended.added, extended.removed, extended.rewritten)
            self.grown[TableDay(build.step.name, day)] = GrownDay(build.step.name, day, _EXTENDED, "", *figures)
        return done

    def sort_out(self, build: StepBuild, days: Iterable[date], reasons: Mapping[date, str]) -> None:
        """Record what became of ``days``, and take out those that their gates hold back."""
        for day in days:
            key, staged = TableDay(build.step.name, day), build.staged.get(day, [])
            if not all(each.passed for each in staged):
                self.held_back[key] = tuple(_held_back(staged))
                if day in reasons:
                    pause = max(_SHORTEST_PAUSE, _PAUSE_TIMES * timedelta(seconds=staged[0].seconds))
                    self.memory.pause(key, self.lake.publisher.now() + pause)
                build.staged.pop(day)
                self.grown.pop(key, None)
            elif day in build.kept:
                self.grown[key] = GrownDay(key.table, day, _UNCHANGED)
            elif day in reasons:
                rows = sum(each.content.rows for each in staged)
                self.grown[key] = GrownDay(key.table, day, _BUILT, reasons[day], added=rows)

    def paused_days(self, step: Step, days: Iterable[date]) -> dict[date, str]:
        """Days that were built whole a moment ago and held back: a stream does not build them with every batch."""
        now = self.lake.publisher.now()
        until = {day: self.memory.paused_until(TableDay(step.name, day), now) for day in days}
        return {
            day: f"it was built whole and held back; tried again after {moment:%H:%M:%S} UTC"
            for day, moment in until.items()
            if moment is not None
        }

    def blocked_days(self, step: Step, days: Sequence[date]) -> set[date]:
        """Days that are computed from days that are held back: they stay as they are."""
        out: dict[str, frozenset[date]] = {}
        for each in self.steps:
            held = frozenset(key.day for key in self.held_back if key.table == each.name)
            out |= dict.fromkeys(each.table_names, held)
        return {day for version in step.versions for day in decide.days_reading(step, version, days, out)}

    def build_of(self, step: Step) -> StepBuild:
        if step.name not in self.builds:
            asked = StepRequest(step, (), decide.AS_PUBLISHED)
            self.builds[step.name] = StepBuild(self.lake, asked, self.run, self.progress, open_days=self.open_days)
        return self.builds[step.name]

    def overlay(self) -> Overlay:
        """Everything that is staged so far, as the later steps read it."""
        overlay = NOTHING_LAID
        for build in self.builds.values():
            overlay = overlay.with_records(build.records())
        return overlay

    # ---------------------------------------------------------------- publish

    def leave_held_days(self, seconds: float) -> None:
        """Wait a moment for campaigns that are cutting over staged days, then leave the days that they still hold."""
        storage, now = self.lake.storage, self.lake.publisher.now
        days = {name: list(build.staged) for build in self.builds.values() for name in build.tables}
        with self.timed("holds"):
            wait_for_holds(storage, "", days, now=now, sleep=self.lake.sleep, progress=self.progress, longest=seconds)
        self.leave(held_days(storage, days, now()), "a campaign is cutting it over")

    def leave(self, days: Iterable[date], why: str) -> None:
        """Leave ``days``, and what was staged from them, for the next call."""
        for day in days:
            self.left[day] = why
            for build in self.builds.values():
                build.forget([day])

    def request(self, name: str) -> Publication:
        place = Place(overlay=self.overlay())
        builds = [build for build in self.builds.values() if build.staged]
        for build in builds:
            build.place = place
        requests = [build.request() for build in builds]
        return Publication(
            id=self.lake.new_id(name),
            kind="replace",
            tables=tuple(change for request in requests for change in request.tables),
            inputs=tuple(read for request in requests for read in request.inputs if read.days),
            provenance=provenance(self.run, requests[0].provenance.timeline),
            transaction=self.transaction,
        )

    def moved_days(self, moved: Conflict) -> list[date]:
        """The moved days of all steps: what is computed from a moved day is of that same day."""
        staged = {day for build in self.builds.values() for day in build.staged}
        found = {day for build in self.builds.values() for day in build.moved_days(moved)}
        return sorted(found & staged)

    def result(self, published: Published | None) -> ExtendResult:
        held = tuple(each for found in self.held_back.values() for each in found)
        days = tuple(each for key, each in sorted(self.grown.items()) if key.day not in self.left)
        result = ExtendResult(
            published.publication if published else "",
            days,
            held,
            dict(self.left),
            published.versions if published else {},
            dict(self.seconds),
        )
        self.progress(summary(result))
        return result

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.monotonic() - started


def summary(result: ExtendResult) -> str:
    """One line for a log: how many days were extended, built whole, held back and left."""
    counts = {how: len({each.day for each in result.by(how)}) for how in (_EXTENDED, _BUILT, _UNCHANGED)}
    parts = [f"{format_count(count, 'day')} {how}" for how, count in counts.items() if count]
    parts += [f"{each.table} {each.day} is held back: {each.why}" for each in result.held_back]
    parts += [f"{day} is left for the next time: {why}" for day, why in result.left.items()]
    return "; ".join(parts) or "nothing to extend"


def _held_back(staged: Iterable[StagedTableDay]) -> Iterator[HeldBack]:
    for each in staged:
        if rules := tuple(rule for rule in each.rules if rule.holds_back):
            yield HeldBack(each.table, each.day, rules)


__all__ = ["ExtendResult", "GrownDay", "InputMemory", "extend", "followed_steps", "is_followed"]
