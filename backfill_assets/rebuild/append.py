"""Appends received rows to a raw table: staged, searched for what they supersede, judged, and published once."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.judge.engine import DayFiles
from backfill_assets.judge.keys import markers
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import (
    DayChange,
    DayLineage,
    DayRead,
    Environment,
    InputRead,
    Position,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.rows import stage
from backfill_assets.lakehouse.timelines import StagedDay, Timeline, open_timelines
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.landing.token_key import require_token_key
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import EXAMPLE, DayFacts, Metrics, Source, Step, Table
from backfill_assets.model.placement import ON_ARRIVAL_DAY
from backfill_assets.publication.holds import LONGEST_WAIT_SECONDS, holding
from backfill_assets.publication.publisher import Conflict, Pin, Published
from backfill_assets.quality import gates
from backfill_assets.quality.measures import add_up, zero_metrics
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.lake import Lake, Progress, failed_day, provenance, waiting
from backfill_assets.rebuild.outcome import DaysFailed, RunInfo, adopted_line
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
from backfill_assets.text import format_are

_MOST_ATTEMPTS = 20
_ATTEMPTS_BEFORE_A_HOLD = 3
_MARKERS_AT_ONCE = 100_000
_FILE = "source_file"
"""Null in markers."""


@dataclass(frozen=True)
class Arrivals:
    """Rows of a source that are not in raw yet, and the positions that say so."""

    fingerprint: str
    """What the rows were made of: staged days of an earlier run are used if theirs is the same."""
    positions: tuple[Position, ...]
    """Committed together with the rows."""
    stage: Callable[[Timeline], InputRead | None]
    """Write the rows into a timeline. Runs Spark. Returns the days of raw of which it cancels rows, as it read them."""
    may_be_staged: bool = True
    """Whether to look for them in the open timelines, which is one look at each."""


@dataclass
class AppendBuild:
    """Appends to one raw table. What was read from the source and the rows it gave are committed together."""

    lake: Lake
    step: Step
    run: RunInfo
    progress: Progress
    name: str = ""
    """What its publications and timelines are named after; empty for the step."""
    transaction: str = ""
    """The transaction that its publications share; empty if each has its own."""
    hold_seconds: float = LONGEST_WAIT_SECONDS
    """It waits no longer than this for others that hold its days."""
    staged: dict[date, StagedTableDay] = field(default_factory=dict)
    environment: Environment | None = None
    """What staged the rows, which may have been an earlier run; None if that was not recorded."""
    looked_at: frozenset[str] = frozenset()
    """The staged files that were measured, as main would name them."""
    started: float = 0.0
    """When the rows that are being appended began to be staged."""
    cancels_of: InputRead | None = None
    """The days of the table of which staged rows cancel some: until publishing they have to be as they were read."""

    @property
    def table(self) -> Table:
        return self.step.tables[0]

    @property
    def source(self) -> Source:
        if self.step.source is None:
            raise InvalidRequest(
                f"{self.step.name} is not read from a source.",
                hint="Name a raw table: raw_sales. backfill plan --scope whole goes from raw on.",
            )
        return self.step.source

    def misplaced(self, days: Sequence[date]) -> list[date]:
        """Days with rows that would be on other days, or flagged otherwise, if they were taken in now."""
        states, placement = self.lake.states(self.step), self.source.placement
        contents = {day: state.content for day in days if (state := states.get(TableDay(self.table.name, day)))}
        return [day for day, has in contents.items() if has and placement.concerns(day, has.code_version, has.metrics)]

    def append(self, arrivals: Arrivals, empty: Sequence[date] = ()) -> Published | Conflict:
        """Stage the rows once; look for supersessions again whenever the table gained rows meanwhile.

        After several times under a hold, so that other ingests let this one pass. ``empty`` days without rows are
        published with them. Raises :class:`PublicationRefused` when rows of writers that know no holds keep arriving,
        and :class:`DaysFailed` when a gate holds a day back.
        """
        self.started = time.monotonic()
        timeline = self.adoptable(arrivals) or self.stage_rows(arrivals)
        with ExitStack() as held:
            for attempt in range(_MOST_ATTEMPTS):
                pin = self.pin(timeline)
                if moved := self.moved_below_deletions(pin):
                    timeline.close()
                    return Conflict(inputs={self.table.name: moved}, passed=("rows that are deleted",))
                with waiting(self.progress, f"{self.table.name}: the staged rows are measured"):
                    measured = self.measured(timeline, pin)
                self.judge(timeline, pin, arrivals, measured, empty)
                if attempt < _ATTEMPTS_BEFORE_A_HOLD:
                    days = {self.table.name: list(self.staged)}
                    self.lake.wait_for_holds(days, self.progress, self.hold_seconds)
                outcome = self.lake.publisher.publish(self.request(timeline, pin, arrivals))
                if isinstance(outcome, Published) or outcome.days or outcome.passed:
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

    def adoptable(self, arrivals: Arrivals) -> Timeline | None:
        """A timeline into which an earlier run staged the rows of just these arrivals, all of them sound."""
        wanted = arrivals.fingerprint
        if not arrivals.may_be_staged:
            return None
        for timeline in open_timelines(self.lake.storage, self.table.name):
            held = list(timeline.days().values())
            if held and all(self.fits(day, wanted) for day in held) and self.has_declared_columns(timeline):
                self.environment = held[0].environment
                self.progress(adopted_line(self.table.name, len(held)))
                return timeline
        return None

    def fits(self, staged: StagedDay, wanted: str) -> bool:
        passed = staged.verdict is not None and staged.verdict.passed
        return passed and staged.input_fingerprint == wanted and self.lake.may_adopt(staged.environment)

    def has_declared_columns(self, timeline: Timeline) -> bool:
        """Whether no field was declared or dropped since: other rows could be neither measured nor published."""
        staged = {field["name"] for field in json.loads(timeline.schema())["fields"]}
        return staged == set(raw_schema(self.source).names)

    def stage_rows(self, arrivals: Arrivals) -> Timeline:
        if self.source.personal_fields:
            tables = {self.table.name, *tables_of_tokens(self.lake.catalog)}
            require_token_key(self.lake.storage, Path(self.lake.token_key_file), tables)
        timeline = self.lake.timelines(self.step)[self.table.name]
        self.cancels_of = arrivals.stage(timeline)
        self.environment = environment_of(self.lake.spark(), self.lake.catalog.folder)
        return timeline

    def pin(self, timeline: Timeline) -> Pin:
        """With a supersession window the table is an input of itself, and may not even gain rows until publishing."""
        cancelled = self.cancels_of.days if self.cancels_of else ()
        around = sorted({*self.window_days(timeline.days_with_files()), *cancelled})
        reads = {self.table.name: around} if around else {}
        return self.lake.publisher.pin(writes={}, reads=reads, exact=reads, also={self.table.name})

    def moved_below_deletions(self, pin: Pin) -> frozenset[date]:
        """The days of which staged rows cancel some, and that have changed since they were looked up."""
        if self.cancels_of is None:
            return frozenset()
        now = pin.inputs[self.table.name].days
        return frozenset(day for day, logical in self.cancels_of.days.items() if now.get(day) != logical)

    def window_days(self, days: set[date]) -> list[date]:
        width = self.source.supersession_window_days
        if not width:
            return []
        around = {day + timedelta(days=n) for day in days for n in range(-width, width + 1)}
        return sorted(around)

    def measured(self, timeline: Timeline, pin: Pin) -> dict[date, Metrics]:
        """By day: the rows are measured while their supersessions are looked for, which are measured when found.

        Just these files are published. Another run can have adopted the same timeline and write its markers into it.
        Nor are the markers of an earlier attempt: since it looked, others may have published the same ones, or the
        versions that they stand for may have been withdrawn.
        """
        spark = self.lake.spark()
        rows = [file for file in timeline.files() if not holds_markers(timeline, file)]
        added: list[AddedFile] = []

        def superseding() -> dict[date, Metrics]:
            added.extend(self.stage_supersessions(timeline, rows, pin))
            return measured_files(spark, self.table, timeline, added)

        looking: dict[str, Callable[[], dict[date, Metrics]]] = {
            "rows": partial(measured_files, spark, self.table, timeline, rows),
            "markers": superseding,
        }
        parts = side_by_side(spark, looking).values()
        self.looked_at = frozenset(file.below(timeline.folder).path for file in (*rows, *added))
        return {day: add_up([part[day] for part in parts if day in part]) for day in set().union(*parts)}

    def stage_supersessions(self, timeline: Timeline, rows: Sequence[AddedFile], pin: Pin) -> list[AddedFile]:
        """Write the markers that ``rows`` make necessary, and return their files. Very many are written in turns."""
        read = pin.inputs.get(self.table.name)
        if read is None:
            return []
        storage, source = self.lake.storage, self.source
        files: list[AddedFile] = []
        with closing(markers(storage, source, self.table.contract, *self.searched(timeline, rows, read))) as found:
            while some := list(islice(found, _MARKERS_AT_ONCE)):
                files += self.stage_markers(timeline, some)
        return files

    def searched(self, timeline: Timeline, rows: Sequence[AddedFile], read: InputRead) -> tuple[DayFiles, DayFiles]:
        """The files of the rows that arrived, and those of the days around them."""
        arrived = defaultdict[date, list[AddedFile]](list)
        for file in rows:
            arrived[date.fromisoformat(file.day)].append(file.below(timeline.path))
        if read.version is None:
            return arrived, {}
        there = read_log(self.lake.storage, read.table, read.version).of_days(read.days)
        return arrived, {day: [file.below(read.table) for file in files] for day, files in there.items()}

    def stage_markers(self, timeline: Timeline, rows: Sequence[Mapping[str, Any]]) -> list[AddedFile]:
        schema = raw_schema(self.source)
        values = [tuple(row.get(name) for name in schema.names) for row in rows]
        # One task writes one file a day.
        written = self.lake.spark().createDataFrame(values, schema).coalesce(1)
        return stage(written, timeline, {}, table=self.table, other_days=True)

    def judge(
        self,
        timeline: Timeline,
        pin: Pin,
        arrivals: Arrivals,
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
        # Staged deletions hold for what raw was when they were looked up: no later run may adopt them.
        made_of = dict.fromkeys(days, "" if self.cancels_of else arrivals.fingerprint)
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
                f"{self.table.name}: {format_are(sum(counts.values()), 'row')} on the day of arrival and not on the "
                f"day named: {self.source.why_on_arrival_day(example)}"
            )

    # ---------------------------------------------------------------- publish

    def request(self, timeline: Timeline, pin: Pin, arrivals: Arrivals) -> Publication:
        days = tuple(
            DayChange(day=day, adds=staged.files, content=staged.content, lineage=self.lineage(staged, pin))
            for day, staged in sorted(self.staged.items())
        )
        change = TableChange(
            table=self.table.name,
            mode="append",
            table_schema=timeline.schema(),
            days=days,
            positions=arrivals.positions,
        )
        inputs: tuple[InputRead, ...] = tuple(pin.inputs.values())
        return Publication(
            id=self.lake.new_id(self.name or self.step.name),
            kind="append",
            tables=(change,),
            inputs=inputs,
            provenance=provenance(self.run, timeline.name),
            transaction=self.transaction,
        )

    def lineage(self, staged: StagedTableDay, pin: Pin) -> DayLineage:
        """The days that were searched for superseded rows; the landed files are in the positions."""
        read = pin.inputs.get(self.table.name) if staged.files else None
        if read is None:
            return DayLineage(environment=staged.environment)
        days = self.window_days({staged.day})
        searched = DayRead(table=read.table, version=read.version, first=days[0], last=days[-1])
        return DayLineage(reads=(searched,), environment=staged.environment)


def holds_markers(timeline: Timeline, file: AddedFile) -> bool:
    """Whether ``file`` has markers and their deletions, which come from no file of a source; none has rows and markers.

    A file with a very long text has no statistics, so its first row is looked at.
    """
    statistics = json.loads(file.stats)
    nulls = statistics.get("nullCount", {}).get(_FILE)
    if nulls is not None:
        return bool(nulls == statistics["numRecords"])
    first = next(timeline.storage.parquet_batches(f"{timeline.path}/{file.path}", 1, (_FILE,)), None)
    return first is not None and not first.column(_FILE)[0].is_valid


def tables_of_tokens(catalog: Catalog) -> list[str]:
    """The raw tables of the sources that have personal fields."""
    return [step.name for step in catalog.steps if step.source and step.source.personal_fields]
