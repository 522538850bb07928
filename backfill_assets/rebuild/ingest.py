"""Appends landed rows of given days to their event days, each file once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

from backfill_assets import clock
from backfill_assets.days import TableDay, contiguous
from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.lakehouse.records import DayContent, DayState, Position, Prepared, TableChange
from backfill_assets.lakehouse.rows import take_in
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing import landing_files
from backfill_assets.landing.compressed import COMPRESSIONS
from backfill_assets.landing.landing_files import files_in, land
from backfill_assets.landing.zone import LandedFile, LandingZone, first_paths, no_file_of, raise_together
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Source, Step
from backfill_assets.model.deletion import REFRESH
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.landed_format import arrival_day_of
from backfill_assets.model.placement import recorded_placement
from backfill_assets.quality.measures import zero_metrics
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay, RunInfo
from backfill_assets.rebuild.raw_change import RawChange, RawWriter, StagedChange
from backfill_assets.rebuild.stage import content_of
from backfill_assets.spark.worker_queries import made_meanwhile
from backfill_assets.state.stream_positions import stream_topics
from backfill_assets.text import format_count, format_range, format_ranges

_EXPANSION, _OF_PLAIN = 40, 5
"""Bytes in memory per byte of a compressed file, and of a plain one."""


@dataclass
class ArrivalBuild(RawWriter):
    def run_days(self, days: Sequence[date]) -> BuildResult:
        """Ingest what arrived on ``days``; days without new files are reused.

        Raises :class:`SourceUnreadable` for all missing, damaged or changed files at once, before staging.
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
        if astray := self.lake.landing.strays(self.source, days):
            self.progress(
                f"Warning: {self.table.name}: {first_paths(astray)} is {no_file_of(self.source)} and is "
                "not read. Land it again as one, or hide it with a leading '_'"
            )

    def report_misplaced(self, days: Sequence[date]) -> None:
        """Only a refresh moves rows: an ingest appends."""
        if misplaced := self.misplaced(days):
            self.progress(
                f"{self.table.name}: rows of {format_ranges(misplaced)} may belong to other days by what is declared "
                f"now: backfill raw refresh {self.table.name} {format_range(contiguous(misplaced)[0])}"
            )

    def missing_deliveries(self, days: Sequence[date]) -> list[SourceUnreadable]:
        """Never for a source that is landed whole when it changes: no delivery means no change."""
        if self.source.replaced_whole:
            return []
        deliveries = self.lake.landing.deliveries(self.source, days)
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
        """Files that main has not ingested; raises ``problems`` and those of all files together."""
        known, new, found = self.recorded(), [], list(problems)
        for file in self.lake.landing.files(self.source, days):
            try:
                if self.lake.landing.is_new(self.source, file, known.get(file.position[0], 0)):
                    new.append(file)
            except SourceUnreadable as problem:
                found.append(problem)
        raise_together(self.table.name, found)
        return new

    # ----------------------------------------------------------------- report

    def result(
        self, days: Sequence[date], before: Mapping[TableDay, DayState], done: StagedChange | None
    ) -> BuildResult:
        """Names other days that gained rows too, so that their readers are reported."""
        name, ingested = self.table.name, done.days if done else {}
        states = self.lake.states(self.step)
        back = decide.rolled_back([TableDay(name, day) for day in ingested], before)
        versions = done.versions if done else {}
        built: list[BuiltDay] = []
        for day in days:
            key, staged = TableDay(name, day), ingested.get(day)
            found = BuiltDay.from_log(states[key], versions, {}, reused=staged is None, staged=staged)
            built.append(replace(found, rolled_back_by=back.get(key, "")))
        others = tuple(sorted(day for day, staged in ingested.items() if staged.content.rows and day not in days))
        publications = (done.publication,) if done else ()
        return BuildResult(tuple(built), publications, {name: others} if others else {})


def from_landed_files(writer: RawWriter, files: Sequence[LandedFile]) -> RawChange:
    return RawChange(
        tuple(Position(id=file.position[0], before=None, after=file.position[1]) for file in files),
        partial(_stage_files, writer, files),
        writer.fingerprint(f"{file.path}={file.content_hash}" for file in files),
    )


def _stage_files(writer: RawWriter, files: Sequence[LandedFile], timeline: Timeline) -> tuple[()]:
    lake, name = writer.lake, writer.table.name
    days = sorted({file.arrival_day for file in files})
    size = sum(file.size * (_EXPANSION if file.path.endswith(COMPRESSIONS) else _OF_PLAIN) for file in files)
    per_day = size // max(1, len(days))
    started, done = clock.seconds(), 0
    with made_meanwhile(partial(landing_files.prepare, writer.source, writer.table)):
        spark = lake.spark()
    for part in decide.chunks(days, per_day) or [[]]:
        arrived = [file for file in files if file.arrival_day in part]
        with waiting(writer.progress, f"{name}: Spark reads {format_count(len(arrived), 'landed file')}"):
            read = files_in(lake.landing, arrived)
            written = land(spark, writer.source, read, lake.token_key_file, (writer.table, timeline))
            take_in(written, raw_schema(writer.source), timeline, {}, other_days=True)
        for file in arrived:
            lake.landing.verify_unchanged(file)
        done += len(part)
        left = decide.eta(done, len(days), clock.seconds() - started)
        writer.progress(f"{name}: {done}/{len(days)} arrival days staged, ETA {left.total_seconds():.0f} s")
    return ()


# ------------------------------------------------------------------ ingested again, to prove it

Contents = Mapping[TableDay, DayContent]


def ingest_again(lake: Lake, made_by: Prepared, lost: str, progress: Progress) -> Contents | str:
    """What the landed files of ``made_by`` give today, or a sentence on why they cannot be ingested. ``lost`` names
    earlier rows that it searched and that are unreadable now.
    """
    (change,) = made_by.publication.tables
    try:
        step = lake.catalog.step(change.table)
    except InvalidRequest:
        return f"the table {change.table} is not declared any more"
    if never := _why_never(made_by, change):
        return never
    build = ArrivalBuild(lake, as_declared_then(step, change), RunInfo(""), progress)
    files = _landed_again(lake.landing, build.source, change.positions)
    if isinstance(files, str):
        return files
    if lost:
        return lost
    if build.source.personal_fields and not Path(lake.token_key_file).exists():
        return f"the token key {lake.token_key_file} is gone"
    return _taken_in(build, files, made_by)


def declared_anew(catalog: Catalog, made_by: Prepared) -> str:
    """Fields declared or dropped since ``made_by``, in a sentence, or empty: raw keeps undeclared ones apart, so the
    same lines give other rows.
    """
    (change,) = made_by.publication.tables
    source = catalog.step(change.table).source
    if source is None:
        return ""
    then = {field["name"] for field in json.loads(change.table_schema)["fields"]}
    differ = sorted(then ^ set(raw_schema(source).names))
    return f"its source has other fields now than it had then: {', '.join(differ)}" if differ else ""


def _why_never(made_by: Prepared, change: TableChange) -> str:
    """Returns an empty text if landed files may give its rows again."""
    if made_by.publication.provenance.reason.startswith(REFRESH):
        return "it read its source again, and appended what differed from the rows that raw held then"
    if topics := stream_topics(change.positions):
        return f"its rows are events of the topic {', '.join(topics)}, which is not read again: raw has them"
    return ""


def as_declared_then(step: Step, change: TableChange) -> Step:
    """``step`` with the placement of event days that ``change`` was ingested by."""
    recorded = {day.content.code_version for day in change.days if day.content}
    if step.source is None or not recorded:
        return step
    then = recorded_placement(recorded.pop())
    source = replace(
        step.source, earliest_day=then.earliest_day, days_ahead=then.days_ahead, event_zone=then.event_zone
    )
    return replace(step, source=source)


def _taken_in(build: ArrivalBuild, files: list[LandedFile], made_by: Prepared) -> Contents:
    table = build.table
    staged = build.staged(from_landed_files(build, files))
    try:
        searched = next((read for read in made_by.publication.inputs if read.table == table.name), None)
        measured = build.measured(staged, searched)
    finally:
        staged.close()
    days = {day.day for day in made_by.change(table.name).days} | set(measured)
    nothing = zero_metrics(table)
    return {TableDay(table.name, day): content_of(measured.get(day, nothing), "", "", {}) for day in sorted(days)}


def _landed_again(landing: LandingZone, source: Source, positions: tuple[Position, ...]) -> list[LandedFile] | str:
    """Returns the files, or a sentence that names the one that changed."""
    paths = [position.id.split(":", 2)[2] for position in positions]
    there = {path for paths in landing.paths(source).values() for path in paths}
    if gone := sorted(set(paths) - there):
        return f"the landed file {gone[0]} is gone" + (f", and {len(gone) - 1} more" if len(gone) > 1 else "")
    days = {day for path in paths if (day := arrival_day_of(source, path)) is not None}
    file_of = {file.position[0]: file for file in landing.files(source, days)} if days else {}
    for position in positions:
        if file_of[position.id].position[1] != position.after:
            return f"the landed file {file_of[position.id].path} is not what it was"
    return [file_of[position.id] for position in positions]
