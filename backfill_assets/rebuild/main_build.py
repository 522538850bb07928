"""Builds days of a step, each by its own version, and publishes them on main together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent, DayState, Publication, content_in
from backfill_assets.model.declaration import Step
from backfill_assets.model.refinement import Refinement
from backfill_assets.publish.holds import HOLD_SECONDS, LONGEST_WAIT_SECONDS, holding
from backfill_assets.publish.promote import Again, main_moved, promote
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets.rebuild import decide, grown_content
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import STAGED_AGAIN, BuildResult, BuiltDay, RunInfo, refuse_failed
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.text import format_count

_TRIES_BEFORE_A_HOLD = 2


@dataclass
class MainBuild:
    lake: Lake
    asked: StepRequest
    run: RunInfo
    progress: Progress
    verify: bool = False
    """Recompute extended days whole too; equal ones are not published again."""
    verified: dict[TableDay, str] = field(default_factory=dict)
    try_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.todo, self.began = self.asked.days, clock.seconds()

    @cached_property
    def build(self) -> StepBuild:
        return StepBuild(self.lake, self.asked, self.run, self.progress)

    @property
    def step(self) -> Step:
        return self.asked.step

    def publish(self) -> BuildResult:
        """Build the days and publish them together; raises :class:`DaysFailed` for a failed gate. A stream may extend
        days faster than they are staged: after two tries there is a hold.
        """
        published = promote(
            self.lake.publisher,
            self,
            self.progress,
            wait_seconds=LONGEST_WAIT_SECONDS,
            hold=self.hold,
            before_a_hold=_TRIES_BEFORE_A_HOLD,
        )
        return self.result(published)

    def stage(self, *, held: bool) -> Publication | None:
        build, self.began = self.build, clock.seconds()
        build.stage(self.todo, forced=build.forced(self.todo) | self.extended(self.todo))
        refuse_failed(build.staged)
        self.compare_extended()
        return build.request() if build.staged else None

    def overtaken(self, by: Conflict) -> Again:
        self.todo, self.try_seconds = self.build.moved_days(by), clock.seconds() - self.began
        moved = format_count(len(self.todo), "day")
        refused = main_moved(self.step.name, f"staging {moved}", "run this one again")
        return Again(f"{self.step.name}: {moved} {STAGED_AGAIN}", refused)

    def hold(self) -> AbstractContextManager[object]:
        """Keep others off the days and their inputs. Raw is not held: rows gained after the pin do not invalidate the
        build.
        """
        days = self.asked.days
        others = [(version, days) for version in self.step.versions if not isinstance(version.transform, Refinement)]
        touched = {**decide.all_read_days(self.step, others), **dict.fromkeys(self.step.table_names, days)}
        name, seconds = self.lake.new_id(self.step.name), HOLD_SECONDS + 2 * self.try_seconds
        return holding(self.lake.storage, name, touched, seconds)

    # ------------------------------------------------------------------ verify

    def extended(self, days: Iterable[date]) -> set[date]:
        if not self.verify:
            return set()
        states = self.lake.states(self.step).items()
        return {key.day for key, state in states if grown_content.extensions_of(state.content)}.intersection(days)

    def compare_extended(self) -> None:
        """Days that equal their whole rebuild are not published; others are reported."""
        for day, staged in list(self.build.staged.items()) if self.verify else ():
            contents = {each.table: content_in(each.pin.states, TableDay(each.table, day)) for each in staged}
            if not any(grown_content.same_origin(contents[each.table], each.content) for each in staged):
                continue
            found = {each.table: _difference(contents[each.table], each.content) for each in staged}
            self.report_verified(day, found)
            if not any(found.values()):
                self.build.keep(day)

    def report_verified(self, day: date, differences: Mapping[str, str]) -> None:
        for table, difference in differences.items():
            self.verified[TableDay(table, day)] = difference or grown_content.EQUAL
            verdict = f"differs from a whole rebuild: {difference}" if difference else f"is {grown_content.EQUAL}"
            self.progress(f"{table} {day} was extended, and {verdict}")

    # ------------------------------------------------------------------ what it gives

    def result(self, published: Published | None) -> BuildResult:
        if published:
            self.build.close_timelines()
        publications = (published.publication,) if published else ()
        return BuildResult(tuple(sorted(self.built(published), key=lambda each: each.day)), publications)

    def built(self, published: Published | None) -> list[BuiltDay]:
        build, states, back = self.build, self.lake.states(self.step), self.rolled_back()
        versions = published.versions if published else {}
        built: list[BuiltDay] = []
        for day in (*build.staged, *build.kept):
            held = {staged.table: staged for staged in build.staged.get(day, [])}
            inputs = build.input_versions(day)
            for key in (TableDay(table, day) for table in build.tables):
                state = states.get(key) or DayState(*key, "", -1, "", None)  # closed, and never built
                found = BuiltDay.from_log(state, versions, inputs, reused=not held, staged=held.get(key.table))
                told = replace(found, rolled_back_by=back.get(key, ""), verified=self.verified.get(key, ""))
                built.append(replace(told, held_by=build.held.get(day), closed_by=build.closed.get(day)))
        return built

    def rolled_back(self) -> dict[TableDay, str]:
        staged = {TableDay(day.table, day.day): day.pin for held in self.build.staged.values() for day in held}
        states = {key: pin.states[key] for key, pin in staged.items() if key in pin.states}
        return decide.rolled_back(staged, states)


def _difference(published: DayContent | None, rebuilt: DayContent) -> str:
    return grown_content.difference(published, rebuilt) if published else "it was never published"
