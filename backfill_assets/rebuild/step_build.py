"""Builds days of one step on a place: kept, reused, extended or computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.external.files import bytes_there
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import (
    DayChange,
    DayContent,
    DayLineage,
    DayRecord,
    InputRead,
    Publication,
    TableChange,
    day_record,
)
from backfill_assets.lakehouse.timelines import AdoptedFrom, StagedDay, Timeline
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import made_of
from backfill_assets.publish.closed_days import BookEntry
from backfill_assets.publish.publisher import Conflict, Pin
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import Decision
from backfill_assets.rebuild.grow import grow_chunk
from backfill_assets.rebuild.growing import Growing
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.rebuild.only_rows import OnlyRows
from backfill_assets.rebuild.outcome import FLAGGED, RunInfo, adopted_line
from backfill_assets.rebuild.place import MAIN, Place
from backfill_assets.rebuild.stage import JUDGING_THREADS, Chunk, StagedTableDay, filled_in, prepare_chunk, write_chunk
from backfill_assets.rebuild.step_look import StepDecision, StepLooking, StepRequest, shown
from backfill_assets.rebuild.verdicts import judged_now
from backfill_assets.spark.worker_queries import made_meanwhile
from backfill_assets.state.edited_logic import EditedLogic, contents_of, edited_logic, keep_logic_of, refuse_edited
from backfill_assets.state.rolled_back import Undo
from backfill_assets.text import pluralize

_EXPANSION = 5
"""Bytes in memory per byte of Parquet, about."""


@dataclass
class StepBuild:
    lake: Lake
    asked: StepRequest
    run: RunInfo
    progress: Progress
    place: Place = MAIN
    growing: Growing | None = None
    versions: dict[date, Version] = field(default_factory=dict)
    staged: dict[date, list[StagedTableDay]] = field(default_factory=dict)
    kept: dict[date, Pin] = field(default_factory=dict)
    """The place has them from these inputs already, or a rollback holds them."""
    held: dict[date, Undo] = field(default_factory=dict)
    """Of those that are kept: a person has rolled them back, and this is a repair."""
    closed: dict[date, BookEntry] = field(default_factory=dict)
    """Of those that are kept, as they are or unbuilt: somebody has closed them."""
    from_main: dict[date, Pin] = field(default_factory=dict)
    """Main has them and the place does not: files are reused by name."""
    timelines: dict[str, Timeline] = field(default_factory=dict)
    computed: set[date] = field(default_factory=set)
    grown: set[date] = field(default_factory=set)
    whole: dict[date, str] = field(default_factory=dict)
    """Why days could not be extended; empty if the version never allows it."""
    proven: set[date] = field(default_factory=set)
    compares: bool = False
    """Days are only compared: edited versions may stage them."""
    after_chunk: Callable[[StepBuild], None] | None = None
    """Called between chunks. An error ends the build, but staged days stay in their timelines."""

    @property
    def step(self) -> Step:
        return self.asked.step

    @property
    def version(self) -> Version:
        return self.asked.named

    def version_of(self, day: date) -> Version:
        return self.versions.get(day, self.version)

    @property
    def tables(self) -> tuple[str, ...]:
        return self.step.table_names

    def look(
        self, days: Sequence[date], *, forced: Collection[date] = (), blocked: Collection[date] = ()
    ) -> StepDecision:
        lake = self.lake
        looking = StepLooking(
            lake.publisher, self.place, self.asked, self.growing, lambda: lake.with_current(lake.catalog.steps)
        )
        return looking.look(days, forced=forced, blocked=blocked)

    # ------------------------------------------------------------------ stage

    def stage(self, days: Sequence[date], *, forced: Collection[date] | None = None) -> None:
        """Do what each day needs; ``forced`` days are computed in any case.

        Raises :class:`LogicEdited` for a version edited in place.
        """
        computed_anyway = self.forced(days) if forced is None else forced
        found = self.look(days, forced=computed_anyway)
        self.refuse_edited({version.name for version in found.versions.values()})
        self.keep_logic(found)
        self.forget(days)
        self.versions |= found.versions
        self.kept |= dict.fromkeys(found.days(Decision.KEEP), found.pin)
        self.held |= found.held
        self.closed |= found.closed
        self.from_main |= dict.fromkeys(found.days(Decision.TAKE), found.pin)
        self.hold_back_without_inputs(found)
        self.report_cut_periods([day for day in days if day not in self.kept and day not in self.from_main], found)
        self.whole |= {**found.whole, **self.grow(found)}
        todo = sorted({*found.days(Decision.COMPUTE), *found.days(Decision.GROW)} - self.grown)
        self.take_staged([day for day in todo if day not in computed_anyway], found)
        self.compute([day for day in todo if day not in self.staged], found)

    def refuse_edited(self, versions: Collection[str]) -> None:
        """A stream checks this once for all its batches, not here."""
        if not self.compares and self.growing is None:
            refuse_edited([each for each in self.edited() if each.version in versions])

    def keep_logic(self, found: StepDecision) -> None:
        known = self.growing.memory.kept_logic if self.growing else set[tuple[str, str]]()
        todo = {day: found.versions[day] for day in found.days(Decision.COMPUTE, Decision.GROW)}
        for version, _ in decide.by_version(todo):
            if (self.step.name, version.name) not in known:
                keep_logic_of(self.lake.storage, self.step, version)
                known.add((self.step.name, version.name))

    def edited(self) -> Sequence[EditedLogic]:
        laid = {
            name: {**(self.place.base or {}).get(name, {}), **self.place.overlay.days.get(name, {})}
            for name in self.tables
        }
        own = {
            TableDay(name, day): each.content
            for name, days in laid.items()
            for day, each in days.items()
            if each.content
        }
        return edited_logic(self.lake.storage, [self.step], {**contents_of(self.lake.states(self.step)), **own})

    def is_of_this_logic(self, day: date, staged: StagedDay) -> bool:
        content = staged.verdict.content if staged.verdict else None
        return not (content and content.logic) or not edited_logic(
            self.lake.storage, [self.step], {TableDay(self.step.name, day): content}
        )

    def forced(self, days: Iterable[date]) -> set[date]:
        return {day for day in days if self.asked.force and day not in self.asked.along}

    def hold_back_without_inputs(self, found: StepDecision) -> None:
        for day, missing in found.missing.items():
            made = found.wanted[day].inputs
            content = DayContent(rows=0, checksum="0", code_version=found.versions[day].name, inputs=made)
            rules = (decide.inputs_published(missing),)
            self.staged[day] = [StagedTableDay(name, day, (), content, rules, found.pin, "") for name in self.tables]

    def report_cut_periods(self, days: Sequence[date], found: StepDecision) -> None:
        logicals = {name: read.days for name, read in found.pin.inputs.items()}
        for day in days:
            period = decide.period_days(self.step, found.versions[day], day, logicals)
            if period is not None and not period.complete:
                self.progress(f"{self.step.name} {period.period} is cut: {period}. {FLAGGED}")

    def take_staged(self, days: Sequence[date], found: StepDecision) -> None:
        """Reuse, without a copy, what another run staged from the same inputs."""
        if not days:
            return
        storage, pin = self.lake.storage, found.pin
        fingerprints = {day: found.wanted[day].input_fingerprint for day in days}
        own = {table: self.place.staged(storage, table, fingerprints) for table in self.tables}
        lacking = {table: _without(fingerprints, own[table]) for table in self.tables}
        named = {table: self.place.staged_elsewhere(storage, table, lacking[table]) for table in self.tables}
        offered = {table: {**named[table], **own[table]} for table in self.tables}
        taken = [
            day
            for day in days
            if all(
                day in held
                and self.lake.may_adopt(held[day][1].environment)
                and self.is_of_this_logic(day, held[day][1])
                for held in offered.values()
            )
        ]
        if not taken:
            return
        held_by = {table: {day: offers[day] for day in taken} for table, offers in offered.items()}
        timelines = {held.path: held for offers in held_by.values() for held, _ in offers.values()}
        self.use(timelines.values())
        schemas = {path: timeline.schema() for path, timeline in timelines.items()}
        for table, offers in named.items():
            self.record_taken(table, {day: offers[day][0] for day in taken if day in offers}, schemas, pin)
        staged = {
            table: {day: _taken_day(held, each, day, pin, schemas[held.path]) for day, (held, each) in offers.items()}
            for table, offers in held_by.items()
        }
        for chunk in self.chunks(taken, found):
            judged = judged_now(self.lake, chunk, staged, held_by)
            self.staged |= {day: [judged[table][day] for table in self.tables] for day in chunk.days}
        self.progress(adopted_line(self.step.name, len(taken)))

    def record_taken(self, table: str, days: Mapping[date, Timeline], schemas: Mapping[str, str], pin: Pin) -> None:
        """List reused days of named timelines in the campaign's own timeline, where its readers look."""
        if not days or not self.place.is_campaign:
            return
        expected = {day: pin.expected[TableDay(table, day)].publication for day in days}
        found = {day: AdoptedFrom(timeline=held.name, replaces=expected[day]) for day, held in days.items()}
        own = self.lake.timelines(self.step, self.place.owner)[table]
        own.adopt(schemas[next(iter(days.values())).path], found)

    def grow(self, found: StepDecision) -> dict[date, str]:
        whole: dict[date, str] = {}
        if self.growing is None:
            return whole
        for chunk in self.chunks(found.days(Decision.GROW), found):
            timelines = self.lake.timelines(self.step, self.place.owner)
            self.use(timelines.values())
            done = grow_chunk(self.growing, chunk, found.gains, timelines)
            self.staged |= done.staged
            self.grown.update(done.staged)
            whole |= done.whole
        return whole

    def compute(self, days: Sequence[date], found: StepDecision) -> None:
        for chunk in self.chunks(days, found):
            self.compute_in_parts(chunk)

    def compute_in_parts(self, whole: Chunk) -> None:
        with waiting(self.progress, f"{self.step.name}: Spark starts"), made_meanwhile(partial(prepare_chunk, whole)):
            spark = self.lake.spark()
        timelines = self.lake.timelines(self.step, self.place.owner)
        self.use(timelines.values())
        started, done = clock.seconds(), 0
        with ThreadPoolExecutor(JUDGING_THREADS, thread_name_prefix="judging") as judging:
            before: Future[list[StagedTableDay]] | None = None
            newest_first, size = self.asked.newest_first, self.bytes_of_day(whole)
            for part in decide.chunks(whole.days, size, newest_first=newest_first):
                chunk = replace(whole, days=part)
                with waiting(self.progress, f"{self.step.name}: Spark computes {part[0]} to {part[-1]}"):
                    written = write_chunk(spark, self.lake.storage, chunk, timelines, judging)
                done += self.take(before)
                self.report_staged(done, len(whole.days), started)
                if before and self.after_chunk:
                    self.after_chunk(self)
                before = written
            with waiting(self.progress, f"{self.step.name}: the last days are measured"):
                wait([before] if before else [])
            self.report_staged(done + self.take(before), len(whole.days), started)

    def chunks(self, days: Iterable[date], found: StepDecision) -> list[Chunk]:
        parts = decide.by_version({day: found.versions[day] for day in days})
        if self.asked.newest_first:
            parts.sort(key=lambda part: part[1][-1], reverse=True)
        only, storage = self.asked.only, self.lake.storage
        return [
            Chunk(
                self.lake.catalog,
                self.step,
                version,
                part,
                found.wanted,
                found.pin,
                overlay=found.overlay,
                only=OnlyRows.of(storage, self.step, only, part, found.pin) if only else None,
                token_key_file=self.lake.token_key_file,
            )
            for version, part in parts
        ]

    def take(self, judged: Future[list[StagedTableDay]] | None) -> int:
        chunk_days = judged.result() if judged else []
        for staged in chunk_days:
            self.staged.setdefault(staged.day, []).append(staged)
        taken = {staged.day for staged in chunk_days}
        self.computed.update(taken)
        return len(taken)

    def report_staged(self, done: int, of: int, started: float) -> None:
        if done:
            left = decide.eta(done, of, clock.seconds() - started)
            staged = f"{done}/{of} {pluralize(self.step.cadence.noun)} staged"
            self.progress(f"{self.step.name}: {staged}, ETA {left.total_seconds():.0f} s")

    def use(self, timelines: Iterable[Timeline]) -> None:
        self.timelines.update({timeline.path: timeline for timeline in timelines})

    def bytes_of_day(self, chunk: Chunk) -> int:
        total = 0
        for table, read in chunk.read_days.items():
            if self.lake.catalog.step(table).external:
                total += bytes_there(chunk.pin.states, table, read)
            elif (at := chunk.pin.inputs[table].version) is not None:
                by_day = read_log(self.lake.storage, table, at).of_days(read)
                total += sum(file.size for files in by_day.values() for file in files)
        return total * _EXPANSION // len(chunk.days)

    # ---------------------------------------------------------------- publish

    def request(self) -> Publication:
        days = [day for held in self.staged.values() for day in held]
        tables = tuple(self.table_change(name, [day for day in days if day.table == name]) for name in self.tables)
        pins = list({id(held[0].pin): held[0].pin for held in self.staged.values()}.values())
        inputs = tuple(read for pin in pins for read in self.inputs_read(pin))
        timeline = max(timeline.name for timeline in self.timelines.values())
        return Publication(
            id=self.lake.new_id(self.step.name),
            kind="replace",
            tables=tables,
            inputs=inputs,
            provenance=self.run.provenance(timeline),
        )

    def table_change(self, table: str, days: list[StagedTableDay]) -> TableChange:
        changes = tuple(
            DayChange(
                day=day.day,
                adds=day.files,
                content=day.content,
                expected=day.pin.expected[TableDay(table, day.day)],
                lineage=self.lineage(day),
                made_of=self.made_of(day),
                only_where=str(self.asked.only or ""),
            )
            for day in sorted(days, key=lambda day: day.day)
        )
        # A later version may have one column more, null in rows of the others.
        widest = max((day.table_schema for day in days), key=len)
        return TableChange(table=table, table_schema=widest, days=changes)

    def made_of(self, staged: StagedTableDay) -> dict[str, DayRange]:
        return made_of(self.step, self.version_of(staged.day), staged.day, filled_in(self.step, staged.pin))

    def lineage(self, staged: StagedTableDay) -> DayLineage:
        """Includes reads of days that the same campaign staged."""
        reads = self.made_of(staged)
        parts = (self.place.overlay.day_reads(staged.pin.inputs[table], days) for table, days in reads.items())
        return DayLineage(reads=tuple(each for part in parts for each in part), environment=staged.environment)

    def inputs_read(self, pin: Pin) -> Iterable[InputRead]:
        """Inputs from main for days staged against ``pin``, as PREPARE compares them."""
        versions = {day: self.version_of(day) for day, held in self.staged.items() if held[0].pin is pin}
        read = decide.all_read_days(self.step, decide.by_version(versions), filled_in(self.step, pin))
        for table, of_table in read.items():
            days_read = {day: pin.inputs[table].days[day] for day in sorted(of_table)}
            yield self.place.overlay.from_main(pin.inputs[table].model_copy(update={"days": days_read}))

    def moved_days(self, moved: Conflict) -> list[date]:
        days = {day for dates in moved.days.values() for day in dates}
        for version, staged in decide.by_version({day: self.version_of(day) for day in self.staged}):
            days |= decide.days_reading(self.step, version, staged, moved.inputs)
        return sorted(days)

    # ---------------------------------------------------------------- what it gives

    def records(self) -> dict[str, dict[date, DayRecord]]:
        """Days that differ from what the place showed.

        Raises :class:`PublicationRefused` if main has replaced a reused day since.
        """
        held = [each for of_day in self.staged.values() for each in of_day]
        return {
            table: {each.day: day_record(each.day, each.files, each.content) for each in held if each.table == table}
            | self.records_of_main(table)
            for table in self.tables
        }

    def records_of_main(self, table: str) -> dict[date, DayRecord]:
        main = MainTable.open(self.lake.storage, table) if self.from_main else None
        active = read_log(self.lake.storage, table, main.version).active if main else {}
        found = {}
        for day, pin in self.from_main.items():
            key = TableDay(table, day)
            paths = pin.expected[key].files
            if any(path not in active for path in paths):
                raise PublicationRefused(
                    f"{table} {day} was published again while it was taken over.",
                    hint="What was staged is kept: run the command again.",
                )
            found[day] = DayRecord(
                day=day, content=pin.states[key].content, files=tuple(active[path] for path in paths)
            )
        return found

    def close_timelines(self) -> None:
        """Close timelines with nothing left to reuse; named ones stay open."""
        published = {*self.staged, *self.proven}
        for timeline in (each for each in self.timelines.values() if not each.is_named):
            passed = {day for day, staged in timeline.days().items() if staged.verdict and staged.verdict.passed}
            if passed <= published:
                timeline.close()

    def forget(self, days: Iterable[date]) -> None:
        for day in days:
            for decided in (self.staged, self.kept, self.held, self.closed, self.from_main, self.versions):
                decided.pop(day, None)
            self.grown.discard(day)

    def keep(self, day: date) -> None:
        self.kept[day] = self.staged.pop(day)[0].pin
        self.proven.add(day)
        if not self.staged:
            self.close_timelines()

    def content(self, key: TableDay) -> DayContent | None:
        if key.day in self.staged:
            return next(each.content for each in self.staged[key.day] if each.table == key.table)
        if key.day in self.from_main:
            return self.from_main[key.day].content(key)
        return shown(self.place, key, self.kept[key.day]) if key.day in self.kept else None

    def input_versions(self, day: date) -> dict[str, int]:
        pin = self.staged[day][0].pin if day in self.staged else self.kept[day]
        reads = ((read.table, pin.inputs[read.table].version) for read in self.version_of(day).reads)
        return {table: version for table, version in reads if version is not None}


def _without(fingerprints: Mapping[date, str], days: Collection[date]) -> dict[date, str]:
    return {day: fingerprint for day, fingerprint in fingerprints.items() if day not in days}


def _taken_day(timeline: Timeline, staged: StagedDay, day: date, pin: Pin, schema: str) -> StagedTableDay:
    if staged.verdict is None or staged.verdict.content is None:
        raise PublicationRefused(f"{timeline.table} {day} in the timeline {timeline.name} was never judged.")
    return StagedTableDay(
        table=timeline.table,
        day=day,
        files=staged.files,
        content=staged.verdict.content,
        rules=staged.verdict.rules,
        pin=pin,
        table_schema=schema,
        environment=staged.environment,
    )
