"""Ingests what arrived on given days: appends landed rows to the event days they belong to, each file once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

from backfill_assets.days import TableDay, contiguous
from backfill_assets.errors import SourceUnreadable
from backfill_assets.lakehouse.records import DayState, Position
from backfill_assets.lakehouse.rows import stage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.raw_rows import raw_rows
from backfill_assets.landing.zone import SUFFIX, LandedFile, first_paths, raise_together
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import built_from_log, waiting
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
from backfill_assets.rebuild.raw_change import RawChange, RawWriter, StagedChange
from backfill_assets.text import format_count, format_range, format_ranges

_EXPANSION = 40
"""Rows in memory take about this many times the size of their gzipped lines."""


@dataclass
class ArrivalBuild(RawWriter):
    """One ingest of the landed files of one source."""

    def run_days(self, days: Sequence[date]) -> BuildResult:
        """Take in what arrived on ``days``; a day on which nothing new arrived is reused.

        Raises :class:`SourceUnreadable` for all days without a delivery and all damaged or changed files at once,
        before anything is staged.
        """
        before = self.lake.states(self.step)
        self.report_strays(days)
        self.report_misplaced(days)
        missing = self.missing_deliveries(days)

        def look() -> RawChange | None:
            with waiting(self.progress, f"{self.table.name}: landed files are checked to be whole"):
                files = self.new_files(days, missing)
            known = self.lake.states(self.step)
            unknown = [day for day in days if TableDay(self.table.name, day) not in known]
            return replace(from_landed_files(self, files), empty=unknown) if files or unknown else None

        return self.result(days, before, self.carry_out(look))

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
        known, new, found = self.recorded(), [], list(problems)
        for file in self.lake.landing.files(self.source.name, days):
            try:
                if self.lake.landing.is_new(file, known.get(file.position[0], 0)):
                    new.append(file)
            except SourceUnreadable as problem:
                found.append(problem)
        raise_together(self.table.name, found)
        return new

    # ----------------------------------------------------------------- report

    def result(
        self, days: Sequence[date], before: Mapping[TableDay, DayState], done: StagedChange | None
    ) -> BuildResult:
        """Days outside the request that gained rows are named, too: their readers are in the report."""
        name, ingested = self.table.name, done.days if done else {}
        states = self.lake.states(self.step)
        back = self.lake.rolled_back([TableDay(name, day) for day in ingested], before)
        versions = done.versions if done else {}
        built: list[BuiltDay] = []
        for day in days:
            key, staged = TableDay(name, day), ingested.get(day)
            found = built_from_log(states[key], versions, {}, reused=staged is None, staged=staged)
            built.append(replace(found, rolled_back_by=back.get(key, "")))
        others = tuple(sorted(day for day, staged in ingested.items() if staged.content.rows and day not in days))
        publications = (done.publication,) if done else ()
        return BuildResult(tuple(built), publications, {name: others} if others else {})


def from_landed_files(writer: RawWriter, files: Sequence[LandedFile]) -> RawChange:
    """The rows of ``files``. A position is a file's path with its content."""
    return RawChange(
        tuple(Position(id=file.position[0], before=None, after=file.position[1]) for file in files),
        partial(_stage_files, writer, files),
        writer.fingerprint(f"{file.path}={file.content_hash}" for file in files),
    )


def _stage_files(writer: RawWriter, files: Sequence[LandedFile], timeline: Timeline) -> tuple[()]:
    lake, name = writer.lake, writer.table.name
    days = sorted({file.arrival_day for file in files})
    per_day = sum(file.size for file in files) * _EXPANSION // max(1, len(days))
    started, done = time.monotonic(), 0
    for part in decide.chunks(days, per_day) or [[]]:
        arrived = [file for file in files if file.arrival_day in part]
        paths = [str(lake.landing.locate(file.path)) for file in arrived]
        with waiting(writer.progress, f"{name}: Spark reads {format_count(len(paths), 'landed file')}"):
            rows = raw_rows(lake.spark(), writer.source, paths, lake.token_key_file)
            stage(rows, timeline, {}, table=writer.table, other_days=True)
        for file in arrived:
            lake.landing.verify_unchanged(file)
        done += len(part)
        left = decide.eta(done, len(days), time.monotonic() - started)
        writer.progress(f"{name}: {done}/{len(days)} arrival days staged, ETA {left.total_seconds():.0f} s")
    return ()
