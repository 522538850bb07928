"""The only way into raw: one change of a raw table, in one publication.

The changes are found by :mod:`~backfill_assets.rebuild.ingest` (landed files), :mod:`~backfill_assets.rebuild.refresh`
(a second reading) and :mod:`backfill_assets.stream.topic` (offsets).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.judge.engine import columns_of, files_by_day
from backfill_assets.judge.keys import markers
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import (
    DayChange,
    DayLineage,
    DayRead,
    Environment,
    InputRead,
    Position,
    Publication,
    TableChange,
    content_in,
)
from backfill_assets.lakehouse.rows import nullable_schema, published_rows
from backfill_assets.lakehouse.timelines import StagedDay, Timeline, open_timelines
from backfill_assets.landing.token_key import require_token_key
from backfill_assets.model.declaration import EXAMPLE, DayFacts, Metrics, Source, Step, Table
from backfill_assets.model.drift import drifts
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.placement import ON_ARRIVAL_DAY
from backfill_assets.publish.holds import LONGEST_WAIT_SECONDS, holding
from backfill_assets.publish.promote import MOST_TRIES, Again, promote
from backfill_assets.publish.publisher import Conflict, Pin
from backfill_assets.quality import gates
from backfill_assets.quality.measures import add_up, zero_metrics
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.rebuild.outcome import RunInfo, adopted_line, refuse_failed
from backfill_assets.rebuild.stage import (
    StagedTableDay,
    as_facts,
    content_of,
    measured_files,
    note_verdicts,
    side_by_side,
    with_cost,
    with_verdict,
)
from backfill_assets.spark.partition_query import write_here
from backfill_assets.text import format_are

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARKERS_AT_ONCE = 100_000


@dataclass(frozen=True)
class RawChange:
    positions: tuple[Position, ...]
    stage: Callable[[Timeline], Sequence[InputRead]] | None = None
    """Runs Spark to write rows and deletions; returns the days of raw that it read, which may not move. None if only
    positions change.
    """
    fingerprint: str = ""
    """An earlier run's staged rows with the same fingerprint are reused; empty to forbid it."""
    empty: Sequence[date] = ()
    anew: frozenset[date] = frozenset()
    """Days whose rows are all placed again, because their placement was declared anew."""
    reason: str = ""
    read: str = "files"


@dataclass
class StagedChange:
    """Rows that are written. Supersessions, and so ``days``, are looked for at each try."""

    change: RawChange
    timeline: Timeline | None
    files: Sequence[AddedFile] = ()
    """Exactly these are published: another run may have reused the timeline."""
    made_of: Sequence[InputRead] = ()
    environment: Environment | None = None
    """Is None if not recorded. An earlier run may have staged the rows."""
    started: float = field(default_factory=clock.seconds)
    markers: Sequence[AddedFile] = ()
    """In no commit, because each try finds its own."""
    days: dict[date, StagedTableDay] = field(default_factory=dict)
    publication: str = ""
    versions: Mapping[str, int] = field(default_factory=dict)

    @property
    def row_days(self) -> set[date]:
        return {date.fromisoformat(file.day) for file in self.files}

    def close(self) -> None:
        if self.timeline:
            self.timeline.close()


@dataclass
class RawWriter:
    """Changes one raw table: positions and rows are committed together."""

    lake: Lake
    step: Step
    run: RunInfo
    progress: Progress
    name: str = ""
    """Names its publications; empty for the step's name."""
    of_topic: ClassVar[bool] = False
    """Rows are events of a topic, with a time of their own."""

    transaction: str = ""
    """Shared by its publications; empty if each has its own."""
    hold_seconds: float = LONGEST_WAIT_SECONDS
    """The longest wait for holds of others."""

    @property
    def table(self) -> Table:
        return self.step.tables[0]

    @property
    def source(self) -> Source:
        if self.step.external is not None:
            self.step.external.refuse(
                "nothing of it lands here", f"backfill run {self.step.name} --days A..B looks at it again."
            )
        if self.step.source is None:
            raise InvalidRequest(
                f"{self.step.name} is not read from a source.",
                hint="Name a raw table: raw_sales. backfill plan --scope whole goes from raw on.",
            )
        return self.step.source

    @property
    def schema(self) -> str:
        return nullable_schema(raw_schema(self.source))

    # ------------------------------------------------------------------ what raw has

    def recorded(self) -> Mapping[str, int]:
        main = MainTable.open(self.lake.storage, self.table.name)
        return main.transactions() if main else {}

    def misplaced(self, days: Sequence[date]) -> list[date]:
        """Days with rows that would be placed or flagged differently now."""
        states, placement = self.lake.states(self.step), self.source.placement
        contents = {day: content_in(states, TableDay(self.table.name, day)) for day in days}
        return [day for day, has in contents.items() if has and placement.concerns(day, has.code_version, has.metrics)]

    def pin_all(self) -> Pin:
        days = [day for name, day in self.lake.states(self.step) if name == self.table.name]
        return self.lake.publisher.pin(writes={}, reads={self.table.name: days})

    def rows(self, read: InputRead, days: Iterable[date]) -> DataFrame:
        """Includes deletions and the rows that they cancel."""
        return published_rows(self.lake.spark(), self.lake.storage, only(read, days), raw_schema(self.source))

    # ------------------------------------------------------------------ carry out

    def carry_out(self, look: Callable[[], RawChange | None], most: int = MOST_TRIES) -> StagedChange | None:
        """Publish what ``look`` finds; None if that is nothing.

        Rows are staged once, unless another run ingests the same; supersessions are looked for whenever the table
        gained rows. Raises :class:`PublicationRefused` after too many lost races, :class:`DaysFailed` for a failed
        gate.
        """
        append = _Append(self, look)
        published = promote(
            self.lake.publisher,
            append,
            self.progress,
            most=most,
            wait_seconds=self.hold_seconds,
            hold=append.hold,
        )
        staged = append.staged
        if published is None or staged is None:
            return None
        staged.close()
        staged.publication, staged.versions = published.publication, published.versions
        return staged

    def searched(self, staged: StagedChange) -> Publication:
        name, pin = self.table.name, self.pin(staged)
        with waiting(self.progress, f"{name}: the staged rows are measured"):
            measured = self.measured(staged, pin.inputs.get(name))
        self.judge(staged, pin, measured)
        return self.request(staged, pin)

    def pin(self, staged: StagedChange) -> Pin:
        """With a supersession window, days around the rows may not even gain rows."""
        around = self.source.days_around(staged.row_days)
        reads = {self.table.name: around} if around else {}
        return self.lake.publisher.pin(writes={}, reads=reads, exact=reads)

    # ------------------------------------------------------------------ stage

    def adopted(self, change: RawChange) -> StagedChange | None:
        """What an earlier run staged of the same change, if all of it passed."""
        if not change.fingerprint:
            return None
        for timeline in open_timelines(self.lake.storage, self.table.name):
            held = list(timeline.days().values())
            if held and all(self.fits(day, change.fingerprint) for day in held):
                self.progress(adopted_line(self.table.name, len(held)))
                return StagedChange(change, timeline, timeline.files(), environment=held[0].environment)
        return None

    def fits(self, day: StagedDay, wanted: str) -> bool:
        passed = day.verdict is not None and day.verdict.passed
        return passed and day.input_fingerprint == wanted and self.lake.may_adopt(day.environment)

    def fingerprint(self, read: Iterable[str]) -> str:
        """Includes the declared fields and the placement: rows of other fields could not be published."""
        made_of = fingerprints.physical([*read, *(f"field {name}" for name in self.source.columns)])
        return fingerprints.input_fingerprint(self.step.code_version, "", made_of)

    def staged(self, change: RawChange) -> StagedChange:
        started = clock.seconds()
        if change.stage is None:
            return StagedChange(change, None, started=started)
        self.require_token_key()
        timeline = self.lake.timelines(self.step)[self.table.name]
        made_of = change.stage(timeline)
        environment = environment_of(self.lake.spark(), self.lake.catalog.folder)
        return StagedChange(change, timeline, timeline.files(), made_of, environment, started)

    def require_token_key(self) -> None:
        if self.source.personal_fields:
            tables = {self.table.name, *self.lake.catalog.tables_of_tokens}
            require_token_key(self.lake.storage, Path(self.lake.token_key_file), tables)

    def measured(self, staged: StagedChange, around: InputRead | None) -> dict[date, Metrics]:
        timeline = staged.timeline
        if timeline is None or not staged.files:
            return {}
        spark = self.lake.spark()

        def superseding() -> dict[date, Metrics]:
            staged.markers = self.stage_supersessions(timeline, staged.files, around)
            return measured_files(spark, self.table, timeline, staged.markers)

        looking: dict[str, Callable[[], dict[date, Metrics]]] = {
            "rows": partial(measured_files, spark, self.table, timeline, staged.files),
            "markers": superseding,
        }
        parts = side_by_side(spark, looking).values()
        return {day: add_up([part[day] for part in parts if day in part]) for day in set().union(*parts)}

    def stage_supersessions(
        self, timeline: Timeline, rows: Sequence[AddedFile], around: InputRead | None
    ) -> list[AddedFile]:
        """Write the markers that ``rows`` make necessary, in turns to bound memory."""
        if around is None:
            return []
        storage, source = self.lake.storage, self.source
        there = (
            read_log(storage, around.table, around.version).of_days(around.days) if around.version is not None else {}
        )
        existing = files_by_day(around.table, chain.from_iterable(there.values()))
        with closing(markers(storage, source, self.table.contract, files_by_day(timeline.path, rows), existing)) as due:
            return self.write_markers(timeline, due)

    def write_markers(self, timeline: Timeline, due: Iterator[Mapping[str, Any]]) -> list[AddedFile]:
        """``due`` rows name only columns that have a value."""
        files: list[AddedFile] = []
        while some := list(islice(due, _MARKERS_AT_ONCE)):
            files += write_here(pa.Table.from_pylist(some, columns_of(self.table.contract)), self.table, timeline)
        return files

    # ------------------------------------------------------------------ judge

    def judge(self, staged: StagedChange, pin: Pin, measured: Mapping[date, Metrics]) -> None:
        days = sorted({*measured, *staged.change.empty})
        seconds = (clock.seconds() - staged.started) / max(1, len(days))
        files = files_by_day(staged.timeline.folder, [*staged.files, *staged.markers]) if staged.timeline else {}
        staged.days, schema = {}, self.schema
        for day in days:
            anew = day in staged.change.anew
            code_version = self.source.placement.of_all_rows if anew else self.step.code_version
            content = content_of(measured.get(day) or zero_metrics(self.table), code_version, "", {})
            rules = gates.judge(self.table, DayFacts(own=as_facts(content)))
            content, own = with_cost(with_verdict(content, rules), seconds), tuple(files.get(day, ()))
            staged.days[day] = StagedTableDay(
                self.table.name, day, own, content, rules, pin, schema, seconds, staged.environment
            )
        self.report_implausible_days(measured)
        # A stream would say it with each batch.
        for each in () if self.transaction else drifts(self.source, measured):
            self.progress(f"{self.table.name}: {each}")
        if staged.timeline:
            # Rows that depend on the state of raw may not be reused.
            made_of = dict.fromkeys(days, "" if staged.made_of else staged.change.fingerprint)
            note_verdicts(staged.timeline, list(staged.days.values()), made_of, staged.environment)
        refuse_failed({day: [each] for day, each in staged.days.items()})

    def report_implausible_days(self, measured: Mapping[date, Metrics]) -> None:
        """A row of an impossible day is placed on its arrival day."""
        counts = {day: int(str(each[ON_ARRIVAL_DAY])) for day, each in measured.items() if each.get(ON_ARRIVAL_DAY)}
        if counts:
            example = date.fromisoformat(str(measured[min(counts)][f"{ON_ARRIVAL_DAY}{EXAMPLE}"]))
            self.progress(
                f"{self.table.name}: {format_are(sum(counts.values()), 'row')} on the day of arrival and not on the "
                f"day named: {self.source.why_on_arrival_day(example, of_topic=self.of_topic)}"
            )

    # ------------------------------------------------------------------ publish

    def request(self, staged: StagedChange, pin: Pin) -> Publication:
        change = TableChange(
            table=self.table.name,
            mode="append",
            table_schema=self.schema,
            days=tuple(
                DayChange(day=day, adds=each.files, content=each.content, lineage=self.lineage(staged, each))
                for day, each in sorted(staged.days.items())
            ),
            positions=staged.change.positions,
        )
        return Publication(
            id=self.lake.new_id(self.name or self.step.name),
            kind="append",
            tables=(change,),
            inputs=(*staged.made_of, *pin.inputs.values()),
            provenance=self.run.provenance(
                staged.timeline.name if staged.timeline else "", reason=staged.change.reason
            ),
            transaction=self.transaction,
        )

    def lineage(self, staged: StagedChange, own: StagedTableDay) -> DayLineage:
        """Days that were searched or compared; landed files are in the positions."""
        read = next(chain(own.pin.inputs.values(), staged.made_of), None) if own.files else None
        if read is None:
            return DayLineage(environment=own.environment)
        days = sorted(self.source.days_around({own.day})) or [own.day]
        searched = DayRead(table=read.table, version=read.version, first=days[0], last=days[-1])
        return DayLineage(reads=(searched,), environment=own.environment)


@dataclass
class _Append:
    writer: RawWriter
    look: Callable[[], RawChange | None]
    staged: StagedChange | None = None
    looks_again: bool = True

    def stage(self, *, held: bool) -> Publication | None:
        writer = self.writer
        if self.looks_again or self.staged is None:
            if (change := self.look()) is None:
                return None
            writer.lake.publisher.log.begin()  # A lakehouse that cannot be written is refused before Spark starts.
            self.staged, self.looks_again = writer.adopted(change) or writer.staged(change), False
        return writer.searched(self.staged)

    def overtaken(self, by: Conflict) -> Again:
        name, staged = self.writer.table.name, self.staged
        if staged and (by.days or by.passed or any(read in staged.made_of for read in by.reads)):
            staged.close()
            self.looks_again = True
            why = f"another run took in the same {staged.change.read}" if by.passed else "what it was made of moved"
            return Again(
                f"{name}: {why}, looking again",
                PublicationRefused(
                    f"{name}: others are faster each time: {why}.",
                    hint="Stop them, or let them finish, then start this again: it goes on where raw ends.",
                ),
            )
        return Again(
            f"{name}: rows arrived meanwhile, looking for supersessions again",
            PublicationRefused(
                f"{name}: rows arrived {MOST_TRIES} times while their supersessions were looked for.",
                hint="Let the other writers of this table finish, then run this again: what was staged is reused.",
            ),
        )

    def hold(self) -> AbstractContextManager[object]:
        """Hold the days that are appended to, and those that are compared."""
        writer, staged = self.writer, self.staged
        days = {*writer.source.days_around(staged.row_days), *staged.days} if staged else ()
        return holding(writer.lake.storage, writer.lake.new_id(writer.step.name), {writer.table.name: days})


def only(read: InputRead, days: Iterable[date], *, exact: bool = False) -> InputRead:
    return read.model_copy(update={"days": {day: read.days[day] for day in sorted(days)}, "exact": exact})
