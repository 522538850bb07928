"""Rebuilds whole days of a step by one version: reuse the unchanged, adopt the staged, and compute the rest."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.records import (
    TOTAL,
    DayChange,
    DayContent,
    DayLineage,
    InputRead,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.timelines import (
    CAMPAIGN,
    AdoptedFrom,
    StagedDay,
    Timeline,
    adoptable,
    open_timelines,
    timelines_of,
)
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import made_of, missing_inputs
from backfill_assets.publication.publisher import Conflict, Pin, Published
from backfill_assets.quality import gates, measures
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import InputFingerprint
from backfill_assets.rebuild.judged_now import judged_now
from backfill_assets.rebuild.lake import Lake, Progress, built_from_log, failed_day, provenance, waiting
from backfill_assets.rebuild.outcome import BuiltDay, DaysFailed, RunInfo, adopted_line
from backfill_assets.rebuild.overlay import NOTHING_STAGED, Overlay
from backfill_assets.rebuild.stage import JUDGING_THREADS, Chunk, StagedTableDay, recorded_upstream, write_chunk
from backfill_assets.text import pluralize

Adoptable = Mapping[date, tuple[Timeline, StagedDay]]
"""Staged days that can be used as they are, and the timelines that have their rows."""
_EXPANSION = 5
"""Rows in memory take about this many times their size in Parquet."""


@dataclass
class ReplaceBuild:
    """Days of one replacing step that are built by one version of its logic: staged, and ready to be published."""

    lake: Lake
    step: Step
    version: Version
    run: RunInfo
    force: bool
    progress: Progress
    staged: dict[date, list[StagedTableDay]] = field(default_factory=dict)
    reused: dict[date, Pin] = field(default_factory=dict)
    timelines: dict[str, Timeline] = field(default_factory=dict)
    overlay: Overlay = NOTHING_STAGED
    """What a campaign has staged of the inputs; without a campaign, everything is read from main."""
    campaign: str = ""
    open_days: frozenset[date] = frozenset()
    """Reference data of these days may be missing: it has not landed yet, and the day is built again when it has."""
    computed: set[date] = field(default_factory=set)
    """Days that this build has staged itself; others were adopted."""

    @property
    def tables(self) -> list[str]:
        return [table.name for table in self.step.tables]

    # ------------------------------------------------------------------ stage

    def stage(self, days: Sequence[date]) -> None:
        """Pin, then decide for each day: unchanged, staged before, or to be computed."""
        pin = self.pin(days)
        wanted = decide.wanted(self.step, self.version, days, {name: read.days for name, read in pin.inputs.items()})
        self.forget(days)
        for day in days:
            if not self.force and decide.unchanged(self.tables, day, wanted[day], pin.states, pin.expected):
                self.reused[day] = pin
        self.hold_back_without_inputs(days, wanted, pin)
        self.report_cut_periods([day for day in days if day not in self.reused], pin)
        if not self.force:
            self.adopt([day for day in days if day not in self.reused and day not in self.staged], wanted, pin)
        self.compute([day for day in days if day not in self.reused and day not in self.staged], wanted, pin)

    def pin(self, days: Sequence[date]) -> Pin:
        written = list(days)
        pin = self.lake.publisher.pin(
            writes=dict.fromkeys(self.tables, written),
            reads=decide.read_days(self.step, self.version, days),
            also={name for table in self.step.tables for name in gates.metrics_needed(table)},
        )
        return self.overlay.over(pin)

    def hold_back_without_inputs(self, days: Sequence[date], wanted: Mapping[date, InputFingerprint], pin: Pin) -> None:
        """Fail days whose inputs were never published, before anything is computed: they are not empty days."""
        published = decide.published_days(pin.states)
        for read in self.version.reads[1:]:
            published.setdefault(read.table, set()).update(self.open_days)
        for day, missing in missing_inputs(self.step, self.version, days, published).items():
            content = DayContent(rows=0, checksum="0", code_version=self.version.name, inputs=wanted[day].inputs)
            rules = (decide.inputs_published(missing),)
            self.reused.pop(day, None)
            self.staged[day] = [StagedTableDay(name, day, (), content, rules, pin, "") for name in self.tables]

    def report_cut_periods(self, days: Sequence[date], pin: Pin) -> None:
        """Report the periods that the range cuts: they are built from the days that there are."""
        logicals = {name: read.days for name, read in pin.inputs.items()}
        for day in days:
            period = decide.period_days(self.step, self.version, day, logicals)
            if period is not None and not period.complete:
                self.progress(f"{self.step.name} {period.period} is cut: {period}. It is flagged incomplete")

    def adopt(self, days: Sequence[date], wanted: Mapping[date, InputFingerprint], pin: Pin) -> None:
        """Take over what a failed or killed run staged from just these inputs, without copying it."""
        fingerprints = {day: wanted[day].input_fingerprint for day in days}
        own = {table: self.adoptable_of(table, fingerprints) for table in self.tables}
        named = {table: self.adoptable_of_named(table, fingerprints, own[table]) for table in self.tables}
        offered = {table: {**named[table], **own[table]} for table in self.tables}
        taken = [
            day
            for day in days
            if all(day in held and self.lake.may_adopt(held[day][1].environment) for held in offered.values())
        ]
        adopted = {table: {day: held[day] for day in taken} for table, held in offered.items()}
        timelines = {timeline.path: timeline for held in adopted.values() for timeline, _ in held.values()}
        self.use(timelines.values())
        schemas = {path: timeline.schema() for path, timeline in timelines.items()}
        for table, held_by in named.items():
            self.record_adopted(table, {day: held_by[day][0] for day in taken if day in held_by}, schemas, pin)
        staged = {
            table: {day: _adopt_day(held, each, day, pin, schemas[held.path]) for day, (held, each) in of_table.items()}
            for table, of_table in adopted.items()
        }
        if taken:
            judged = judged_now(self.lake, self.chunk(taken, wanted, pin), staged, adopted)
            self.staged.update({day: [judged[table][day] for table in self.tables] for day in taken})
            self.progress(adopted_line(self.step.name, len(taken)))

    def adoptable_of(self, table: str, fingerprints: Mapping[date, str]) -> Adoptable:
        """What this campaign has staged; or without one, what any other run has."""
        return adoptable(timelines_of(self.lake.storage, table, self.campaign), fingerprints)

    def adoptable_of_named(self, table: str, fingerprints: Mapping[date, str], own: Collection[date]) -> Adoptable:
        """What any named timeline has staged; campaigns and named timelines use it, other runs do not."""
        lacking = {day: fingerprint for day, fingerprint in fingerprints.items() if day not in own}
        if not self.campaign or not lacking:
            return {}
        named = [each for each in open_timelines(self.lake.storage, table) if each.is_named]
        return adoptable(named, lacking)

    def record_adopted(self, table: str, days: Mapping[date, Timeline], schemas: Mapping[str, str], pin: Pin) -> None:
        """List for a campaign what named timelines have staged for it, where its readers look."""
        if not days or not self.campaign.startswith(CAMPAIGN):
            return
        expected = {day: pin.expected[TableDay(table, day)].publication for day in days}
        found = {day: AdoptedFrom(timeline=held.name, replaces=expected[day]) for day, held in days.items()}
        own = self.lake.timelines(self.step, self.campaign)[table]
        own.adopt(schemas[next(iter(days.values())).path], found)

    def compute(self, days: Sequence[date], wanted: Mapping[date, InputFingerprint], pin: Pin) -> None:
        if not days:
            return
        with waiting(self.progress, f"{self.step.name}: Spark starts"):
            spark = self.lake.spark()
        timelines = self.lake.timelines(self.step, self.campaign)
        self.use(timelines.values())
        started, done = time.monotonic(), 0
        with ThreadPoolExecutor(JUDGING_THREADS, thread_name_prefix="judging") as judging:
            before: Future[list[StagedTableDay]] | None = None
            for part in decide.chunks(days, self.bytes_of_day(pin, days)):
                chunk = self.chunk(part, wanted, pin)
                with waiting(self.progress, f"{self.step.name}: Spark computes {part[0]} to {part[-1]}"):
                    written = write_chunk(spark, self.lake.storage, chunk, timelines, judging)
                done += self.take(before)
                self.report_staged(done, len(days), started)
                before = written
            with waiting(self.progress, f"{self.step.name}: the last days are measured"):
                wait([before] if before else [])
            self.report_staged(done + self.take(before), len(days), started)

    def chunk(self, days: Sequence[date], wanted: Mapping[date, InputFingerprint], pin: Pin) -> Chunk:
        return Chunk(
            self.lake.catalog,
            self.step,
            self.version,
            days,
            wanted,
            pin,
            upstream=lambda day: self.upstream(pin, day),
            overlay=self.overlay,
        )

    def take(self, judged: Future[list[StagedTableDay]] | None) -> int:
        """Take the days of a chunk once they are judged; gives how many."""
        chunk_days = judged.result() if judged else []
        for staged in chunk_days:
            self.staged.setdefault(staged.day, []).append(staged)
        taken = {staged.day for staged in chunk_days}
        self.computed.update(taken)
        return len(taken)

    def report_staged(self, done: int, of: int, started: float) -> None:
        if done:
            left = decide.eta(done, of, time.monotonic() - started)
            staged = f"{done}/{of} {pluralize(self.step.cadence.noun)} staged"
            self.progress(f"{self.step.name}: {staged}, ETA {left.total_seconds():.0f} s")

    def use(self, timelines: Iterable[Timeline]) -> None:
        self.timelines.update({timeline.path: timeline for timeline in timelines})

    def bytes_of_day(self, pin: Pin, days: Sequence[date]) -> int:
        total = 0
        for read in pin.inputs.values():
            if read.version is not None:
                by_day = read_log(self.lake.storage, read.table, read.version).of_days(read.days)
                total += sum(file.size for files in by_day.values() for file in files)
        return total * _EXPANSION // len(days)

    def upstream(self, pin: Pin, day: date) -> dict[str, DayContent]:
        """The tables that rules look at besides the step's own, as they were when the inputs were built from them."""
        period = self.step.cadence.period(day)
        direct = {name: _content_of_period(pin, name, period) for name in pin.inputs}
        metrics_of = {}
        for table in self.step.tables:
            for name in gates.metrics_needed(table):
                if name not in self.tables:
                    recorded = [r for c in direct.values() if (r := recorded_upstream(c, name)) is not None]
                    observed = recorded[0] if recorded else _content_of_period(pin, name, period)
                    metrics_of[name] = direct.get(name, observed)
        return metrics_of

    # ---------------------------------------------------------------- publish

    def refuse_failed(self) -> None:
        refuse_failed(self.staged)

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
            provenance=provenance(self.run, timeline),
        )

    def table_change(self, table: str, days: list[StagedTableDay]) -> TableChange:
        changes = tuple(
            DayChange(
                day=day.day,
                adds=day.files,
                content=day.content,
                expected=day.pin.expected[TableDay(table, day.day)],
                lineage=self.lineage(day),
                made_of=made_of(self.step, self.version, day.day),
            )
            for day in sorted(days, key=lambda day: day.day)
        )
        return TableChange(table=table, table_schema=days[0].table_schema, days=changes)

    def lineage(self, staged: StagedTableDay) -> DayLineage:
        """What a day was computed from, also what a campaign stages itself; and with what."""
        period = self.step.cadence.period(staged.day)
        reads = (
            self.overlay.day_reads(staged.pin.inputs[read.table], read.days(period)) for read in self.version.reads
        )
        return DayLineage(
            reads=tuple(input_read for each in reads for input_read in each), environment=staged.environment
        )

    def inputs_read(self, pin: Pin) -> Iterable[InputRead]:
        days = [day for day, held in self.staged.items() if held[0].pin is pin]
        for table, read in decide.read_days(self.step, self.version, days).items():
            days_read = {day: pin.inputs[table].days[day] for day in read}
            yield self.overlay.from_main(pin.inputs[table].model_copy(update={"days": days_read}))

    def moved_days(self, moved: Conflict) -> list[date]:
        days = {day for dates in moved.days.values() for day in dates}
        return sorted(days | decide.days_reading(self.step, self.version, list(self.staged), moved.inputs))

    def close_timelines(self, also: Iterable[date] = ()) -> None:
        """Close timelines from which no later run can adopt a day; others stay open for their other days.

        Those of named timelines stay open until these are deleted.
        """
        published = {*self.staged, *also}
        for timeline in (each for each in self.timelines.values() if not each.is_named):
            passed = {day for day, staged in timeline.days().items() if staged.verdict and staged.verdict.passed}
            if passed <= published:
                timeline.close()

    def forget(self, days: Iterable[date]) -> None:
        """Drop what was decided about ``days``: they are staged again, perhaps by another version."""
        for day in days:
            self.staged.pop(day, None)
            self.reused.pop(day, None)

    def reuse(self, day: date) -> None:
        """Leave ``day`` as it is published: what was staged of it is the same."""
        self.reused[day] = self.staged.pop(day)[0].pin
        if not self.staged:
            self.close_timelines(also=self.reused)

    def pin_of(self, day: date) -> Pin:
        """The state of main that ``day`` was staged, or found unchanged, against."""
        return self.staged[day][0].pin if day in self.staged else self.reused[day]

    def built(self, published: Published | None) -> list[BuiltDay]:
        """Every day that was staged or found unchanged, as the log knows it now."""
        states = self.lake.states(self.step)
        versions = published.versions if published else {}
        built: list[BuiltDay] = []
        back = self.rolled_back()
        for day in (*self.staged, *self.reused):
            held = {staged.table: staged for staged in self.staged.get(day, [])}
            inputs = {name: read.version for name, read in self.pin_of(day).inputs.items() if read.version is not None}
            for table in self.tables:
                state = states[TableDay(table, day)]
                day_built = built_from_log(state, versions, inputs, reused=not held, staged=held.get(table))
                built.append(replace(day_built, rolled_back_by=back.get(TableDay(table, day), "")))
        return built

    def rolled_back(self) -> dict[TableDay, str]:
        """The rollback that each staged day was published by when it was staged."""
        staged = {TableDay(day.table, day.day): day.pin for held in self.staged.values() for day in held}
        states = {key: pin.states[key] for key, pin in staged.items() if key in pin.states}
        return self.lake.rolled_back(staged, states)


def refuse_failed(staged: Mapping[date, Sequence[StagedTableDay]]) -> None:
    """Raise :class:`DaysFailed` if a gate holds one of the ``staged`` days back."""
    failed = [day for days in staged.values() for day in days if not day.passed]
    if failed:
        bad = {day.day for day in failed}
        raise DaysFailed([failed_day(day) for day in failed], staged=len(staged.keys() - bad))


def _adopt_day(timeline: Timeline, staged: StagedDay, day: date, pin: Pin, schema: str) -> StagedTableDay:
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


def _content_of_period(pin: Pin, table: str, period: DayRange) -> DayContent:
    """What the days of ``period`` hold together; days that were never published hold nothing."""
    states = (pin.states.get(TableDay(table, day)) for day in period)
    contents = [state.content for state in states if state is not None and state.content is not None]
    if len(contents) == 1:
        return contents[0]
    return DayContent(
        rows=sum(content.rows for content in contents),
        checksum=str(sum(int(content.checksum) for content in contents)),
        metrics=_metrics_together(contents),
    )


def _metrics_together(contents: Sequence[DayContent]) -> dict[str, int | str | None]:
    """A day without rows adds nothing to a total, also to one that was declared after the day was published."""
    totals = {name for content in contents for name in content.metrics if name.startswith(TOTAL)}
    nothing = dict.fromkeys(totals, 0)
    return measures.add_up(
        [content.metrics if content.rows else {**nothing, **content.metrics} for content in contents]
    )
