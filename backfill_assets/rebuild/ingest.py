"""Ingests what arrived on given days: appends landed rows to the event days they belong to, each file once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from backfill_assets.datasets import registry
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused, SourceUnreadable
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import (
    DayChange,
    DayLineage,
    DayRead,
    DayState,
    Environment,
    InputRead,
    Position,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.rows import published_rows, rows_of_files, stage
from backfill_assets.lakehouse.timelines import StagedDay, Timeline, open_timelines
from backfill_assets.landing.raw_rows import raw_rows, raw_schema
from backfill_assets.landing.supersessions import supersessions
from backfill_assets.landing.token_key import require_token_key
from backfill_assets.landing.zone import SUFFIX, LandedFile, changed_file, first_paths, raise_together
from backfill_assets.model.declaration import EXAMPLE, DayFacts, Metrics, Source, Step, Table
from backfill_assets.model.placement import ON_ARRIVAL_DAY
from backfill_assets.publication.holds import holding
from backfill_assets.publication.publisher import Conflict, Pin, Published
from backfill_assets.quality import gates
from backfill_assets.quality.measures import add_up, zero_metrics
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.lake import Lake, Progress, built_from_log, failed_day, provenance
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay, DaysFailed, RunInfo
from backfill_assets.rebuild.relocate import Relocation
from backfill_assets.rebuild.stage import (
    StagedTableDay,
    as_facts,
    content_of,
    measured_files,
    record_verdicts,
    side_by_side,
    with_cost,
    with_verdict,
)
from backfill_assets.rebuild.waiting import waiting

_MOST_ATTEMPTS = 20
_ATTEMPTS_BEFORE_A_HOLD = 3
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
    environment: Environment | None = None
    """What staged the rows, which may have been an earlier run; None if that was not recorded."""
    relocated: dict[date, StagedTableDay] = field(default_factory=dict)
    """The days that lost or gained rows."""
    taken_in: dict[date, StagedTableDay] = field(default_factory=dict)
    """The days that landed rows were appended to."""
    published: list[Published] = field(default_factory=list)
    looked_at: frozenset[str] = frozenset()
    """The staged files that were measured, as main would name them."""
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

        Raises :class:`SourceUnreadable` for all days without a delivery and all damaged or changed files at once,
        before anything is staged. Days whose rows lie elsewhere by what is declared now are put right first.
        """
        before = self.lake.states(self.step)
        misplaced = self.misplaced(days)
        self.report_strays(days)
        with waiting(self.progress, f"{self.table.name}: landed files are checked to be whole"):
            files = self.new_files(days, self.missing_deliveries([day for day in days if day not in misplaced]))
        if misplaced:
            relocation = Relocation(self.lake, self.step, self.source, self.run, self.progress)
            published, self.relocated = relocation.run_days(misplaced)
            self.published.append(published)
        for _ in range(_MOST_ATTEMPTS):
            known = self.lake.states(self.step)
            unknown = [day for day in days if TableDay(self.table.name, day) not in known]
            if not files and not unknown:
                return self.result(days, before)
            outcome = self.take_in(files, unknown)
            if isinstance(outcome, Published):
                self.published.append(outcome)
                self.taken_in = self.staged
                return self.result(days, before)
            self.progress(f"{self.table.name}: another run took in the same files, looking again")
            files = self.new_files(days)
        raise PublicationRefused(
            f"{self.table.name}: other runs kept taking in the same files.",
            hint="Let them finish, then run this again.",
        )

    def misplaced(self, days: Sequence[date]) -> list[date]:
        """Days with rows that would be on other days, or flagged otherwise, if they were taken in now."""
        states = self.lake.states(self.step)
        misplaced = []
        for day in days:
            state = states.get(TableDay(self.table.name, day))
            if (
                state
                and state.content
                and self.source.placement.concerns(day, state.content.code_version, state.content.metrics)
            ):
                misplaced.append(day)
        return misplaced

    # ---------------------------------------------------------------- landing

    def report_strays(self, days: Sequence[date]) -> None:
        """Report what was landed and is not read."""
        if astray := self.lake.landing.strays(self.source.name, days):
            self.progress(
                f"Warning: {self.table.name}: {first_paths(astray)} is no {SUFFIX} file in the folder of a day and is "
                "not read. Land it again as one, or hide it with a leading '_'"
            )

    def missing_deliveries(self, days: Sequence[date]) -> list[SourceUnreadable]:
        deliveries = self.lake.landing.deliveries(self.source.name, days)
        absent = [day for day in days if deliveries[day] != "landed"]
        if not absent:
            return []
        more = f" and {len(absent) - 1} more day(s) up to {absent[-1]}" if len(absent) > 1 else ""
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

    def take_in(self, files: list[LandedFile], empty: Sequence[date]) -> Published | Conflict:
        """Stage the rows once; look for supersessions again whenever the table gained rows meanwhile.

        After several times under a hold, so that other ingests let this one pass. Raises :class:`PublicationRefused`
        when rows of writers that know no holds keep arriving.
        """
        self.started = time.monotonic()
        timeline = self.adoptable(files) or self.stage_rows(files)
        with ExitStack() as held:
            for attempt in range(_MOST_ATTEMPTS):
                pin = self.pin(timeline)
                with waiting(self.progress, f"{self.table.name}: Spark measures the staged rows"):
                    measured = self.measured(timeline, pin)
                self.judge(timeline, pin, files, measured, empty)
                if attempt < _ATTEMPTS_BEFORE_A_HOLD:
                    self.lake.wait_for_holds({self.table.name: list(self.staged)}, self.progress)
                outcome = self.lake.publisher.publish(self.request(timeline, pin, files))
                if isinstance(outcome, Published) or outcome.days:
                    timeline.close()
                    return outcome
                self.progress(f"{self.table.name}: rows arrived meanwhile, looking for supersessions again")
                if attempt + 1 >= _ATTEMPTS_BEFORE_A_HOLD:
                    self.hold(held, timeline)
        raise PublicationRefused(
            f"{self.table.name}: rows arrived {_MOST_ATTEMPTS} times while their supersessions were looked for.",
            hint="Let the other writers of this table finish, then run this again: what was staged is reused.",
        )

    def hold(self, held: ExitStack, timeline: Timeline) -> None:
        """Ask other ingests to leave the days alone that are searched, for the length of another attempt."""
        held.close()
        days = {*self.window_days(timeline.days_with_files()), *self.staged}
        held.enter_context(holding(self.lake.storage, timeline.name, {self.table.name: days}, self.lake.publisher.now))

    def adoptable(self, files: Sequence[LandedFile]) -> Timeline | None:
        """A timeline into which an earlier run staged the rows of just these files, all of them sound."""
        wanted = self.fingerprint(files)
        for timeline in open_timelines(self.lake.storage, self.table.name):
            held = list(timeline.days().values())
            if held and all(self.fits(day, wanted) for day in held):
                self.environment = held[0].environment
                self.progress(f"{self.table.name}: {len(held)} staged day(s) of an earlier run are used as they are")
                return timeline
        return None

    def fits(self, staged: StagedDay, wanted: str) -> bool:
        passed = staged.verdict is not None and staged.verdict.passed
        return passed and staged.input_fingerprint == wanted and self.lake.may_adopt(staged.environment)

    def stage_rows(self, files: list[LandedFile]) -> Timeline:
        if self.source.personal_fields:
            require_token_key(self.lake.storage, Path(self.lake.token_key_file), {self.table.name, *tables_of_tokens()})
        timeline = self.lake.timelines(self.step)[self.table.name]
        days = sorted({file.arrival_day for file in files})
        per_day = sum(file.size for file in files) * _EXPANSION // max(1, len(days))
        started, done = time.monotonic(), 0
        for part in decide.chunks(days, per_day) or [[]]:
            arrived = [file for file in files if file.arrival_day in part]
            paths = [str(self.lake.landing.locate(file)) for file in arrived]
            with waiting(self.progress, f"{self.table.name}: Spark reads {len(paths)} landed file(s)"):
                rows = raw_rows(self.lake.spark(), self.source, paths, self.lake.token_key_file)
                stage(rows, timeline, {}, other_days=True)
            for file in arrived:
                self.lake.landing.verify_unchanged(file)
            done += len(part)
            left = decide.eta(done, len(days), time.monotonic() - started)
            self.progress(f"{self.table.name}: {done}/{len(days)} arrival days staged, ETA {left.seconds} s")
        self.environment = environment_of(self.lake.spark())
        return timeline

    def pin(self, timeline: Timeline) -> Pin:
        """With a supersession window the table is an input of itself, and may not even gain rows until publishing."""
        around = self.window_days(timeline.days_with_files())
        reads = {self.table.name: around} if around else {}
        return self.lake.publisher.pin(writes={}, reads=reads, exact=reads, also={self.table.name})

    def window_days(self, days: set[date]) -> list[date]:
        width = self.source.supersession_window_days
        if not width:
            return []
        around = {day + timedelta(days=n) for day in days for n in range(-width, width + 1)}
        return sorted(around)

    def measured(self, timeline: Timeline, pin: Pin) -> dict[date, Metrics]:
        """By day: the rows are measured while their supersessions are looked for, which are measured when found.

        Just these files are published. Another run can have adopted the same timeline and write its markers into it.
        """
        spark, rows = self.lake.spark(), timeline.files()
        added: list[AddedFile] = []

        def markers() -> dict[date, Metrics]:
            added.extend(self.stage_supersessions(timeline, rows, pin))
            return measured_files(spark, self.table, timeline, added)

        looking: dict[str, Callable[[], dict[date, Metrics]]] = {
            "rows": partial(measured_files, spark, self.table, timeline, rows),
            "markers": markers,
        }
        parts = side_by_side(spark, looking).values()
        self.looked_at = frozenset(file.below(timeline.folder).path for file in (*rows, *added))
        return {day: add_up([part[day] for part in parts if day in part]) for day in set().union(*parts)}

    def stage_supersessions(self, timeline: Timeline, rows: Sequence[AddedFile], pin: Pin) -> list[AddedFile]:
        """Write the markers that ``rows`` make necessary, and return their files."""
        read = pin.inputs.get(self.table.name)
        if read is None:
            return []
        spark, schema = self.lake.spark(), raw_schema(self.source)
        existing = published_rows(spark, self.lake.storage, read, schema)
        markers = supersessions(self.source, rows_of_files(spark, timeline, rows), existing)
        return stage(markers, timeline, {}, other_days=True)

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
        judged = [self.judged_day(day, measured.get(day, nothing), pin, schema, seconds) for day in days]
        self.report_implausible_days(measured)
        made_of = dict.fromkeys(days, self.fingerprint(files))
        self.staged = {
            day.day: replace(day, files=tuple(file for file in day.files if file.path in self.looked_at))
            for day in record_verdicts(timeline, judged, made_of, self.environment)
        }
        failed = [failed_day(day) for day in self.staged.values() if not day.passed]
        if failed:
            raise DaysFailed(failed, staged=len(days) - len(failed))

    def judged_day(self, day: date, measured: Metrics, pin: Pin, schema: str, seconds: float) -> StagedTableDay:
        content = content_of(measured, self.step.code_version, "", {})
        rules = gates.judge(self.table, DayFacts(own=as_facts(content)))
        judged = with_cost(with_verdict(content, rules), seconds)
        return StagedTableDay(self.table.name, day, (), judged, rules, pin, schema, seconds)

    def report_implausible_days(self, measured: Mapping[date, Metrics]) -> None:
        """Say which rows are on the day they arrived, because the day that they name is not possible."""
        counts = {day: int(str(each[ON_ARRIVAL_DAY])) for day, each in measured.items() if each.get(ON_ARRIVAL_DAY)}
        if counts:
            example = date.fromisoformat(str(measured[min(counts)][f"{ON_ARRIVAL_DAY}{EXAMPLE}"]))
            self.progress(
                f"{self.table.name}: {sum(counts.values())} row(s) are on the day they arrived and not on the day they "
                f"name: {self.source.why_on_arrival_day(example)}"
            )

    # ---------------------------------------------------------------- publish

    def request(self, timeline: Timeline, pin: Pin, files: Sequence[LandedFile]) -> Publication:
        days = tuple(
            DayChange(day=day, adds=staged.files, content=staged.content, lineage=self.lineage(staged, pin))
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

    def lineage(self, staged: StagedTableDay, pin: Pin) -> DayLineage:
        """The days that were searched for superseded rows; the landed files are in the positions."""
        read = pin.inputs.get(self.table.name) if staged.files else None
        if read is None:
            return DayLineage(environment=staged.environment)
        days = self.window_days({staged.day})
        searched = DayRead(table=read.table, version=read.version, first=days[0], last=days[-1])
        return DayLineage(reads=(searched,), environment=staged.environment)

    def elsewhere(self, days: Sequence[date]) -> dict[str, tuple[date, ...]]:
        """Days outside the request that gained or lost rows: their readers are named in the report."""
        gained = {day for day, staged in self.taken_in.items() if staged.content.rows}
        others = tuple(sorted((gained | self.relocated.keys()) - set(days)))
        return {self.table.name: others} if others else {}

    def result(self, days: Sequence[date], before: Mapping[TableDay, DayState]) -> BuildResult:
        states: dict[TableDay, DayState] = self.lake.states(self.step)
        built_days = self.taken_in | self.relocated
        back = self.lake.rolled_back([TableDay(self.table.name, day) for day in built_days], before)
        versions = {table: version for each in self.published for table, version in each.versions.items()}
        built: list[BuiltDay] = []
        for day in days:
            staged = self.taken_in.get(day) or self.relocated.get(day)
            state = states[TableDay(self.table.name, day)]
            day_built = built_from_log(state, versions, {}, reused=staged is None, staged=staged)
            built.append(replace(day_built, rolled_back_by=back.get(TableDay(self.table.name, day), "")))
        return BuildResult(tuple(built), tuple(each.publication for each in self.published), self.elsewhere(days))

    def fingerprint(self, files: Sequence[LandedFile]) -> str:
        """What staged raw rows were made of: the files, by path and content, and how their days are judged."""
        landed = fingerprints.physical(f"{file.path}={file.content_hash}" for file in files)
        return fingerprints.input_fingerprint(self.step.code_version, "", landed)


def tables_of_tokens() -> list[str]:
    """The raw tables of the sources that have personal fields."""
    return [step.name for step in registry.steps() if step.source and step.source.personal_fields]
