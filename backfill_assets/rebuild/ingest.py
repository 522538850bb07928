"""Ingests what arrived on given days: appends landed rows to the event days they belong to, each file once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from backfill_assets.days import TableDay, contiguous
from backfill_assets.errors import PublicationRefused, SourceUnreadable
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayState, Position
from backfill_assets.lakehouse.rows import stage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.raw_rows import raw_rows
from backfill_assets.landing.zone import SUFFIX, LandedFile, changed_file, first_paths, raise_together
from backfill_assets.publication.publisher import Published
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.append import AppendBuild, Arrivals
from backfill_assets.rebuild.lake import built_from_log, waiting
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
from backfill_assets.rebuild.stage import StagedTableDay
from backfill_assets.text import format_count, format_range, format_ranges

_MOST_ATTEMPTS = 20
_EXPANSION = 40
"""Rows in memory take about this many times the size of their gzipped lines."""


@dataclass
class ArrivalBuild(AppendBuild):
    """One ingest of the landed files of one source."""

    ingested: dict[date, StagedTableDay] = field(default_factory=dict)
    """The days that landed rows were appended to."""
    published: Published | None = None

    def run_days(self, days: Sequence[date]) -> BuildResult:
        """Take in what arrived on ``days``; a day on which nothing new arrived is reused.

        Raises :class:`SourceUnreadable` for all days without a delivery and all damaged or changed files at once,
        before anything is staged.
        """
        before = self.lake.states(self.step)
        self.report_strays(days)
        self.report_misplaced(days)
        with waiting(self.progress, f"{self.table.name}: landed files are checked to be whole"):
            files = self.new_files(days, self.missing_deliveries(days))
        for _ in range(_MOST_ATTEMPTS):
            known = self.lake.states(self.step)
            unknown = [day for day in days if TableDay(self.table.name, day) not in known]
            if not files and not unknown:
                return self.result(days, before)
            outcome = self.append(self.arrivals(files), unknown)
            if isinstance(outcome, Published):
                self.published, self.ingested = outcome, self.staged
                return self.result(days, before)
            self.progress(f"{self.table.name}: another run took in the same files, looking again")
            files = self.new_files(days)
        raise PublicationRefused(
            f"{self.table.name}: other runs kept taking in the same files.",
            hint="Let them finish, then run this again.",
        )

    # ---------------------------------------------------------------- landing

    def report_strays(self, days: Sequence[date]) -> None:
        """Report what was landed and is not read."""
        if astray := self.lake.landing.strays(self.source.name, days):
            self.progress(
                f"Warning: {self.table.name}: {first_paths(astray)} is no {SUFFIX} file in the folder of a day and is "
                "not read. Land it again as one, or hide it with a leading '_'"
            )

    def report_misplaced(self, days: Sequence[date]) -> None:
        """Report the days that a refresh puts right: raw is appended to, and its rows stay where they are."""
        if misplaced := self.misplaced(days):
            self.progress(
                f"{self.table.name}: rows of {format_ranges(misplaced)} may belong to other days by what is declared "
                f"now: backfill raw refresh {self.table.name} {format_range(contiguous(misplaced)[0])}"
            )

    def missing_deliveries(self, days: Sequence[date]) -> list[SourceUnreadable]:
        deliveries = self.lake.landing.deliveries(self.source.name, days)
        absent = [day for day in days if deliveries[day] != "landed"]
        if not absent:
            return []
        more = f" and {format_count(len(absent) - 1, 'more day')} up to {absent[-1]}" if len(absent) > 1 else ""
        return [
            SourceUnreadable(
                f"Nothing has landed for {self.source.name} on {absent[0]}{more} in {self.lake.landing.root}.",
                hint="Wait for the delivery, or land an empty file if the day really has no rows.",
            )
        ]

    def new_files(self, days: Sequence[date], problems: Sequence[SourceUnreadable] = ()) -> list[LandedFile]:
        """Files that main has not taken in yet, each checked to be whole.

        Raises ``problems`` and those of all files at once: who puts the first right wants to know of the others.
        """
        main = MainTable.open(self.lake.storage, self.table.name)
        known = main.transactions() if main else {}
        new, all_problems = [], list(problems)
        for file in self.lake.landing.files(self.source.name, days):
            position, content = file.position
            taken_in = known.get(position, 0)
            try:
                if taken_in not in (0, content):
                    raise changed_file(file)
                if not taken_in:
                    self.lake.landing.verify_readable(file)
                    new.append(file)
            except SourceUnreadable as problem:
                all_problems.append(problem)
        raise_together(self.table.name, all_problems)
        return new

    # ------------------------------------------------------------------ stage

    def arrivals(self, files: Sequence[LandedFile]) -> Arrivals:
        """The rows of ``files``. A position is a file's path with its content."""
        positions = tuple(Position(id=file.position[0], before=None, after=file.position[1]) for file in files)
        return Arrivals(self.fingerprint(files), positions, partial(self.stage_files, files))

    def stage_files(self, files: Sequence[LandedFile], timeline: Timeline) -> None:
        days = sorted({file.arrival_day for file in files})
        per_day = sum(file.size for file in files) * _EXPANSION // max(1, len(days))
        started, done = time.monotonic(), 0
        for part in decide.chunks(days, per_day) or [[]]:
            arrived = [file for file in files if file.arrival_day in part]
            paths = [str(self.lake.landing.locate(file)) for file in arrived]
            with waiting(self.progress, f"{self.table.name}: Spark reads {format_count(len(paths), 'landed file')}"):
                rows = raw_rows(self.lake.spark(), self.source, paths, self.lake.token_key_file)
                stage(rows, timeline, {}, table=self.step.tables[0], other_days=True)
            for file in arrived:
                self.lake.landing.verify_unchanged(file)
            done += len(part)
            left = decide.eta(done, len(days), time.monotonic() - started)
            self.progress(
                f"{self.table.name}: {done}/{len(days)} arrival days staged, ETA {left.total_seconds():.0f} s"
            )

    def fingerprint(self, files: Sequence[LandedFile]) -> str:
        """What staged raw rows were made of: the files, by path and content, and how their days are judged."""
        landed = fingerprints.physical(f"{file.path}={file.content_hash}" for file in files)
        return fingerprints.input_fingerprint(self.step.code_version, "", landed)

    # ----------------------------------------------------------------- report

    def elsewhere(self, days: Sequence[date]) -> dict[str, tuple[date, ...]]:
        """Days outside the request that gained rows: their readers are named in the report."""
        gained = {day for day, staged in self.ingested.items() if staged.content.rows}
        others = tuple(sorted(gained - set(days)))
        return {self.table.name: others} if others else {}

    def result(self, days: Sequence[date], before: Mapping[TableDay, DayState]) -> BuildResult:
        states: dict[TableDay, DayState] = self.lake.states(self.step)
        back = self.lake.rolled_back([TableDay(self.table.name, day) for day in self.ingested], before)
        versions = self.published.versions if self.published else {}
        publications = (self.published.publication,) if self.published else ()
        built: list[BuiltDay] = []
        for day in days:
            staged = self.ingested.get(day)
            state = states[TableDay(self.table.name, day)]
            day_built = built_from_log(state, versions, {}, reused=staged is None, staged=staged)
            built.append(replace(day_built, rolled_back_by=back.get(TableDay(self.table.name, day), "")))
        return BuildResult(tuple(built), publications, self.elsewhere(days))
