"""Builds days of a step and publishes all of them together, each by its version of the logic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import Publication, TableChange
from backfill_assets.model.declaration import Step, Version
from backfill_assets.publication.publisher import Conflict, Published
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import BuildResult, RunInfo
from backfill_assets.rebuild.replace import ReplaceBuild, refuse_failed
from backfill_assets.rebuild.stage import StagedTableDay

_MOST_ATTEMPTS = 5


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

    def run_days(self, days: Sequence[date]) -> BuildResult:
        """Build ``days`` and publish them together; raises :class:`DaysFailed` when a gate holds one back."""
        todo: Sequence[date] = days
        for _ in range(_MOST_ATTEMPTS):
            moved = self.stage(todo)
            if not moved:
                refuse_failed(self.staged)
                if not self.staged:
                    return self.result(None)
                self.wait_for_holds()
                outcome = self.lake.publisher.publish(self.request())
                if isinstance(outcome, Published):
                    return self.result(outcome)
                moved = self.moved_days(outcome)
            todo = moved
            self.progress(f"{self.step.name}: {len(todo)} day(s) moved while they were staged, staging them again")
        raise PublicationRefused(
            f"{self.step.name}: main moved {_MOST_ATTEMPTS} times while {len(todo)} day(s) were staged.",
            hint="Another run is rewriting the same days; let it finish, then run this one again.",
        )

    # ------------------------------------------------------------------ stage

    def stage(self, days: Sequence[date]) -> list[date]:
        """Stage ``days`` version by version; returns those that another version has published meanwhile."""
        for build in self.builds.values():
            build.forget(days)
        moved: list[date] = []
        versions = self.versions_of(days)
        for name, forced in sorted({(versions[day], day in self.forced) for day in days}):
            build = self.build_by(name, forced=forced)
            part = [day for day in days if (versions[day], day in self.forced) == (name, forced)]
            build.stage(part)
            moved += (day for day in part if self.is_of_another_version(build, day))
        return sorted(moved)

    def versions_of(self, days: Sequence[date]) -> dict[date, str]:
        chosen = dict.fromkeys(days, self.version.name)
        own = [day for day in days if day in self.as_published]
        return chosen | (decide.versions_as_published(self.step, own, self.lake.states(self.step)) if own else {})

    def is_of_another_version(self, build: ReplaceBuild, day: date) -> bool:
        """Was ``day`` published by another version between the choice of ``build`` and its pin?"""
        if day not in self.as_published:
            return False
        found = decide.published_version(self.step, day, build.pin_of(day).states)
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
        tables = tuple(_of_table(table.name, requests) for table in self.step.tables)
        inputs = tuple(read for request in requests for read in request.inputs)
        return first.model_copy(update={"tables": tables, "inputs": inputs})

    def moved_days(self, moved: Conflict) -> list[date]:
        return sorted({day for build in self.builds.values() for day in build.moved_days(moved)})

    def result(self, published: Published | None) -> BuildResult:
        if published:
            for build in self.builds.values():
                build.close_timelines()
        built = [day for build in self.builds.values() for day in build.built(published)]
        publications = (published.publication,) if published else ()
        return BuildResult(tuple(sorted(built, key=lambda each: each.day)), publications)


def _of_table(table: str, requests: Iterable[Publication]) -> TableChange:
    changes = [change for request in requests for change in request.tables if change.table == table]
    days = sorted((day for change in changes for day in change.days), key=lambda day: day.day)
    # A version that came later may have a column more: in the rows of the others it is null.
    widest = max((change.table_schema for change in changes), key=len)
    return changes[0].model_copy(update={"table_schema": widest, "days": tuple(days)})
