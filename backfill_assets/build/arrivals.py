"""Takes in what arrived on given days: appends landed rows to the event days they belong to, each file once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from backfill_assets.build import decide
from backfill_assets.build.lake import Lake, Progress, built_from_log, failed_day, provenance
from backfill_assets.build.outcome import BuildResult, BuiltDay, DaysFailed, RunInfo
from backfill_assets.build.stage import (
    StagedTableDay,
    as_facts,
    content_of,
    measured_files,
    recorded,
    side_by_side,
    with_cost,
    with_verdict,
)
from backfill_assets.datasets.dataset import DayFacts, Metrics, Source, Step, Table
from backfill_assets.errors import InvalidRequest, PublicationRefused, SourceUnreadable
from backfill_assets.lakehouse.ingest import raw_rows, raw_schema
from backfill_assets.lakehouse.landing import LandedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.publication import DayChange, DayState, InputRead, Position, Publication, TableChange
from backfill_assets.lakehouse.publish import Moved, Pin, Published
from backfill_assets.lakehouse.rows import published_rows, stage, staged_rows
from backfill_assets.lakehouse.supersessions import supersessions
from backfill_assets.lakehouse.timelines import Timeline, open_timelines
from backfill_assets.lakehouse.tokens import ensure_token_key
from backfill_assets.quality import gates
from backfill_assets.quality.measures import added_up, zero_metrics

INGEST = "v1"
"""The version of the ingestion; rows of history keep the one they were taken in by."""
_MOST_ATTEMPTS = 20
_EXPANSION = 40
"""Rows in memory take about this many times the size of their gzipped lines."""


@dataclass
class ArrivalBuild:
    """One ingest of one source. What was read and the rows it gave are committed together."""

    lake: Lake
    step: Step
    run: RunInfo
    progress: Progress
    staged: dict[date, StagedTableDay] = field(default_factory=dict)
    started: float = 0.0
    """When the rows that are being taken in began to be staged."""

    @property
    def table(self) -> Table:
        return self.step.tables[0]

    @property
    def source(self) -> Source:
        if self.step.source is None:
            raise InvalidRequest(f"{self.step.name} has no source to take rows in from.")
        return self.step.source

    def run_days(self, days: Sequence[date]) -> BuildResult:
        """Take in what arrived on ``days``; a day on which nothing new arrived is reused.

        Raises :class:`SourceUnreadable` for a day without a delivery and for damaged or changed files, before
        anything is staged.
        """
        self.refuse_undelivered(days)
        for _ in range(_MOST_ATTEMPTS):
            files = self.new_files(days)
            known = self.lake.states(self.step)
            unknown = [day for day in days if (self.table.name, str(day)) not in known]
            if not files and not unknown:
                return self.result(days, None, {})
            outcome = self.take_in(files, unknown)
            if isinstance(outcome, Published):
                return self.result(days, outcome, self.elsewhere(days))
            self.progress(f"{self.table.name}: another run took in the same files, looking again")
        raise PublicationRefused(
            f"{self.table.name}: other runs kept taking in the same files.",
            hint="Let them finish, then run this again.",
        )

    # ---------------------------------------------------------------- landing

    def refuse_undelivered(self, days: Sequence[date]) -> None:
        found = self.lake.landing.deliveries(self.source.name, days)
        absent = [day for day in days if found[day] != "landed"]
        if absent:
            more = f" and {len(absent) - 1} more day(s) up to {absent[-1]}" if len(absent) > 1 else ""
            raise SourceUnreadable(
                f"Nothing has landed for {self.source.name} on {absent[0]}{more} in {self.lake.landing.root}.",
                hint="Wait for the delivery, or land an empty file if the day really has no rows.",
            )

    def new_files(self, days: Sequence[date]) -> list[LandedFile]:
        """Files that main has not taken in yet, each checked to be whole; a changed one is refused by name."""
        main = MainTable.open(self.lake.storage, self.table.name)
        new = []
        for file in self.lake.landing.files(self.source.name, days):
            position, content = file.position
            taken_in = (main.transaction(position) if main else None) or 0
            if taken_in not in (0, content):
                raise SourceUnreadable(
                    f"{file.path} changed after it was read.",
                    hint="Landed files are final: put it back as it was, and land corrections as a new file.",
                )
            if not taken_in:
                self.lake.landing.verify_readable(file)
                new.append(file)
        return new

    # ------------------------------------------------------------------ stage

    def take_in(self, files: list[LandedFile], empty: Sequence[date]) -> Published | Moved:
        """Stage the rows once; look for supersessions again whenever the table gained rows meanwhile."""
        self.started = time.monotonic()
        timeline = self.adoptable(files) or self.stage_rows(files)
        while True:
            pin = self.pin(timeline)
            self.judge(timeline, pin, files, self.measured(timeline, pin), empty)
            self.lake.wait_for_holds({self.table.name: [str(day) for day in self.staged]}, self.progress)
            outcome = self.lake.publisher.publish(self.request(timeline, pin, files))
            if isinstance(outcome, Published) or outcome.days:
                timeline.close()
                return outcome
            self.progress(f"{self.table.name}: rows arrived meanwhile, looking for supersessions again")

    def adoptable(self, files: Sequence[LandedFile]) -> Timeline | None:
        """A timeline into which an earlier run staged the rows of just these files, all of them sound."""
        wanted = _fingerprint(files)
        for timeline in open_timelines(self.lake.storage, self.table.name):
            held = list(timeline.days().values())
            if held and all(day.input_fingerprint == wanted and day.verdict and day.verdict.passed for day in held):
                self.progress(f"{self.table.name}: {len(held)} staged day(s) of an earlier run are used as they are")
                return timeline
        return None

    def stage_rows(self, files: list[LandedFile]) -> Timeline:
        ensure_token_key(Path(self.lake.token_key_file))
        timeline = self.lake.timelines(self.step)[self.table.name]
        days = sorted({file.arrival_day for file in files})
        per_day = sum(file.size for file in files) * _EXPANSION // max(1, len(days))
        started, done = time.monotonic(), 0
        for part in decide.chunks(days, per_day) or [[]]:
            arrived = [file for file in files if file.arrival_day in part]
            paths = [str(self.lake.landing.locate(file)) for file in arrived]
            rows = raw_rows(self.lake.spark(), self.source, paths, self.lake.token_key_file)
            stage(rows, timeline, {}, other_days=True)
            for file in arrived:
                self.lake.landing.verify_unchanged(file)
            done += len(part)
            left = decide.eta(done, len(days), time.monotonic() - started)
            self.progress(f"{self.table.name}: {done}/{len(days)} arrival days staged, ETA {left.seconds} s")
        return timeline

    def pin(self, timeline: Timeline) -> Pin:
        """With a supersession window the table is an input of itself, and may not even gain rows until publishing."""
        around = self.window_days(timeline.days_with_files())
        reads = {self.table.name: around} if around else {}
        return self.lake.publisher.pin(writes={}, reads=reads, exact=reads, also={self.table.name})

    def window_days(self, days: set[str]) -> list[str]:
        width = self.source.supersession_window_days
        if not width:
            return []
        around = {date.fromisoformat(day) + timedelta(days=n) for day in days for n in range(-width, width + 1)}
        return [str(day) for day in sorted(around)]

    def measured(self, timeline: Timeline, pin: Pin) -> dict[date, Metrics]:
        """By day: the rows are measured while their supersessions are looked for, which are measured when found."""
        spark = self.lake.spark()
        rows = timeline.files()
        known = set(rows)

        def markers() -> dict[date, Metrics]:
            self.stage_supersessions(timeline, pin)
            added = [file for file in timeline.files() if file not in known]
            return measured_files(spark, self.table, timeline, added)

        looking: dict[str, Callable[[], dict[date, Metrics]]] = {
            "rows": partial(measured_files, spark, self.table, timeline, rows),
            "markers": markers,
        }
        parts = side_by_side(spark, looking).values()
        return {day: added_up([part[day] for part in parts if day in part]) for day in set().union(*parts)}

    def stage_supersessions(self, timeline: Timeline, pin: Pin) -> None:
        read = pin.inputs.get(self.table.name)
        if read is None:
            return
        spark, schema = self.lake.spark(), raw_schema(self.source)
        existing = published_rows(spark, self.lake.storage, read, schema)
        markers = supersessions(self.source, staged_rows(spark, timeline), existing)
        stage(markers, timeline, {}, other_days=True)

    def judge(
        self,
        timeline: Timeline,
        pin: Pin,
        files: Sequence[LandedFile],
        measured: Mapping[date, Metrics],
        empty: Sequence[date],
    ) -> None:
        """Gates on what is to be appended, day by day; raises :class:`DaysFailed` if one does not pass."""
        days = sorted({*measured, *empty})
        nothing = zero_metrics(self.table)
        seconds = (time.monotonic() - self.started) / max(1, len(days))
        schema = timeline.schema()
        found = [self.judged_day(day, measured.get(day, nothing), pin, schema, seconds) for day in days]
        made_of = dict.fromkeys(days, _fingerprint(files))
        self.staged = {day.day: day for day in recorded(timeline, found, made_of)}
        failed = [failed_day(day) for day in self.staged.values() if not day.passed]
        if failed:
            raise DaysFailed(failed, staged=len(days) - len(failed))

    def judged_day(self, day: date, measured: Metrics, pin: Pin, schema: str, seconds: float) -> StagedTableDay:
        content = content_of(measured, INGEST, "", {})
        rules = gates.judge(self.table, DayFacts(own=as_facts(content)))
        judged = with_cost(with_verdict(content, rules), seconds)
        return StagedTableDay(self.table.name, day, (), judged, rules, pin, schema, seconds)

    # ---------------------------------------------------------------- publish

    def request(self, timeline: Timeline, pin: Pin, files: Sequence[LandedFile]) -> Publication:
        days = tuple(
            DayChange(day=str(day), adds=staged.files, content=staged.content)
            for day, staged in sorted(self.staged.items())
        )
        positions = tuple(Position(id=file.position[0], before=None, after=file.position[1]) for file in files)
        change = TableChange(
            table=self.table.name,
            mode="append",
            table_schema=timeline.schema(),
            days=days,
            positions=positions,
        )
        inputs: tuple[InputRead, ...] = tuple(pin.inputs.values())
        return Publication(
            id=self.lake.new_id(self.step.name),
            kind="append",
            tables=(change,),
            inputs=inputs,
            provenance=provenance(self.run, timeline.name),
        )

    def elsewhere(self, days: Sequence[date]) -> dict[str, tuple[date, ...]]:
        """Days outside the request that got rows: whoever reads them has to be told."""
        found = tuple(
            day for day, staged in sorted(self.staged.items()) if day not in set(days) and staged.content.rows
        )
        return {self.table.name: found} if found else {}

    def result(
        self, days: Sequence[date], published: Published | None, elsewhere: dict[str, tuple[date, ...]]
    ) -> BuildResult:
        states: dict[tuple[str, str], DayState] = self.lake.states(self.step)
        versions = published.versions if published else {}
        built: list[BuiltDay] = []
        for day in days:
            staged = self.staged.get(day) if published else None
            state = states[self.table.name, str(day)]
            built.append(built_from_log(state, versions, {}, reused=staged is None, staged=staged))
        return BuildResult(tuple(built), (published.publication,) if published else (), elsewhere)


def _fingerprint(files: Sequence[LandedFile]) -> str:
    """What staged raw rows were made of: the files, by path and content."""
    from backfill_assets.lakehouse import fingerprints

    return fingerprints.input_fingerprint(
        INGEST, "", fingerprints.physical(f"{f.path}={f.content_hash}" for f in files)
    )
