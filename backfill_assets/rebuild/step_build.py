"""Builds days of a step and publishes all of them together, each by its version of the logic."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import DayContent, Publication, TableChange
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.refinement import Refinement
from backfill_assets.publication.holds import HOLD_SECONDS, holding
from backfill_assets.publication.publisher import Conflict, Published
from backfill_assets.published.readers import published_version
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.extension import extension_plan
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import STAGED_AGAIN, BuildResult, RunInfo
from backfill_assets.rebuild.replace import ReplaceBuild, refuse_failed
from backfill_assets.rebuild.stage import StagedTableDay
from backfill_assets.text import format_count

_MOST_ATTEMPTS = 5
_ATTEMPTS_BEFORE_A_HOLD = 2


@dataclass
class StepBuild:
    """One build of one replacing step. Days that main moved under are staged again, and only those.

    ``version`` builds the days that are not in ``as_published``. Each of those is built with the version that it was
    published with. ``forced`` days are computed although nothing has changed for them.
    """

    lake: Lake
    step: Step
    version: Version
    run: RunInfo
    progress: Progress
    as_published: Collection[date] = frozenset()
    forced: Collection[date] = frozenset()
    builds: dict[tuple[str, bool], ReplaceBuild] = field(default_factory=dict)
    """By version, and whether it is forced."""
    verify: bool = False
    """Build extended days whole as well; those that are equal to what is published are not published again."""
    verified: dict[TableDay, str] = field(default_factory=dict)
    """What was found of the days that were verified."""

    def run_days(self, days: Sequence[date]) -> BuildResult:
        """Build ``days`` and publish them together; raises :class:`DaysFailed` when a gate holds one back.

        A stream may extend the days more often than they can be staged. After several times they are staged under a
        hold, so that it leaves them alone meanwhile.
        """
        todo: Sequence[date] = days
        with ExitStack() as held:
            for attempt in range(_MOST_ATTEMPTS):
                began = time.monotonic()
                moved = self.stage(todo)
                if not moved:
                    refuse_failed(self.staged)
                    self.compare_extended()
                    if not self.staged:
                        return self.result(None)
                    if attempt < _ATTEMPTS_BEFORE_A_HOLD:
                        self.wait_for_holds()
                    outcome = self.lake.publisher.publish(self.request())
                    if isinstance(outcome, Published):
                        return self.result(outcome)
                    moved = self.moved_days(outcome)
                todo = moved
                self.progress(f"{self.step.name}: {format_count(len(todo), 'day')} {STAGED_AGAIN}")
                if attempt + 1 >= _ATTEMPTS_BEFORE_A_HOLD:
                    self.hold(held, days, time.monotonic() - began)
        raise PublicationRefused(
            f"{self.step.name}: main moved {_MOST_ATTEMPTS} times while staging {format_count(len(todo), 'day')}.",
            hint="Another run is rewriting the same days; let it finish, then run this one again.",
        )

    def hold(self, held: ExitStack, days: Sequence[date], attempt_seconds: float) -> None:
        """Ask others to leave ``days``, and what they are computed from, alone for the length of another attempt.

        Raw may gain rows meanwhile: they are beyond what the days are built from.
        """
        held.close()
        touched = {table.name: set(days) for table in self.step.tables}
        for version in self.step.versions:
            if not isinstance(version.transform, Refinement):
                for name, read in decide.read_days(self.step, version, days).items():
                    touched.setdefault(name, set()).update(read)
        name, seconds = self.lake.new_id(self.step.name), HOLD_SECONDS + 2 * attempt_seconds
        held.enter_context(holding(self.lake.storage, name, touched, self.lake.publisher.now, seconds))

    # ------------------------------------------------------------------ stage

    def stage(self, days: Sequence[date]) -> list[date]:
        """Stage ``days`` version by version; returns those that another version has published meanwhile."""
        for build in self.builds.values():
            build.forget(days)
        moved: list[date] = []
        versions = self.versions_of(days)
        whole = self.whole_days(days)
        for name, forced in sorted({(versions[day], day in whole) for day in days}):
            build = self.build_by(name, forced=forced)
            part = [day for day in days if (versions[day], day in whole) == (name, forced)]
            build.stage(part)
            moved += (day for day in part if self.is_of_another_version(build, day))
        return sorted(moved)

    def whole_days(self, days: Sequence[date]) -> set[date]:
        """The days to compute although nothing has changed for them."""
        if not self.verify:
            return set(self.forced)
        extended = {
            key.day for key, state in self.lake.states(self.step).items() if extension_plan.extensions_of(state.content)
        }
        return {*self.forced, *extended.intersection(days)}

    def compare_extended(self) -> None:
        """Compare extended days with their whole rebuild. Equal ones are not published; others are reported."""
        if not self.verify:
            return
        for build in self.builds.values():
            for day, staged in list(build.staged.items()):
                published = {each.table: each.pin.states.get(TableDay(each.table, day)) for each in staged}
                contents = {name: state.content if state else None for name, state in published.items()}
                if not any(extension_plan.same_origin(contents[each.table], each.content) for each in staged):
                    continue
                found = {each.table: _difference(contents[each.table], each.content) for each in staged}
                self.report_verified(day, found)
                if not any(found.values()):
                    build.reuse(day)

    def report_verified(self, day: date, differences: Mapping[str, str]) -> None:
        for table, difference in differences.items():
            self.verified[TableDay(table, day)] = difference or extension_plan.EQUAL
            verdict = f"differs from a whole rebuild: {difference}" if difference else f"is {extension_plan.EQUAL}"
            self.progress(f"{table} {day} was extended, and {verdict}")

    def versions_of(self, days: Sequence[date]) -> dict[date, str]:
        chosen = dict.fromkeys(days, self.version.name)
        own = [day for day in days if day in self.as_published]
        return chosen | (decide.versions_as_published(self.step, own, self.lake.states(self.step)) if own else {})

    def is_of_another_version(self, build: ReplaceBuild, day: date) -> bool:
        """Was ``day`` published by another version between the choice of ``build`` and its pin?"""
        if day not in self.as_published:
            return False
        found = published_version(self.step, day, build.pin_of(day).states)
        return found not in (None, build.version.name)

    def build_by(self, version: str, *, forced: bool) -> ReplaceBuild:
        if (version, forced) not in self.builds:
            chosen = self.version if version == self.version.name else self.step.version(version)
            self.builds[version, forced] = ReplaceBuild(self.lake, self.step, chosen, self.run, forced, self.progress)
        return self.builds[version, forced]

    @property
    def staged(self) -> dict[date, list[StagedTableDay]]:
        return {day: held for build in self.builds.values() for day, held in build.staged.items()}

    # ---------------------------------------------------------------- publish

    def wait_for_holds(self) -> None:
        days = list(self.staged)
        self.lake.wait_for_holds({table.name: days for table in self.step.tables}, self.progress)

    def request(self) -> Publication:
        """One publication of what every version has staged."""
        first, *others = [build.request() for build in self.builds.values() if build.staged]
        if not others:
            return first
        requests = (first, *others)
        tables = tuple(merge_changes(table.name, requests) for table in self.step.tables)
        inputs = tuple(read for request in requests for read in request.inputs)
        return first.model_copy(update={"tables": tables, "inputs": inputs})

    def moved_days(self, moved: Conflict) -> list[date]:
        return sorted({day for build in self.builds.values() for day in build.moved_days(moved)})

    def result(self, published: Published | None) -> BuildResult:
        if published:
            for build in self.builds.values():
                build.close_timelines()
        built = [
            replace(day, verified=self.verified.get(TableDay(day.table, day.day), ""))
            for build in self.builds.values()
            for day in build.built(published)
        ]
        publications = (published.publication,) if published else ()
        return BuildResult(tuple(sorted(built, key=lambda each: each.day)), publications)


def _difference(published: DayContent | None, rebuilt: DayContent) -> str:
    return extension_plan.difference(published, rebuilt) if published else "it was never published"


def merge_changes(table: str, requests: Iterable[Publication]) -> TableChange:
    """The days of ``table`` in several requests, as one change."""
    changes = [change for request in requests for change in request.tables if change.table == table]
    days = sorted((day for change in changes for day in change.days), key=lambda day: day.day)
    # A version that came later may have a column more: in the rows of the others it is null.
    widest = max((change.table_schema for change in changes), key=len)
    return changes[0].model_copy(update={"table_schema": widest, "days": tuple(days)})
