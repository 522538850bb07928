"""Moves raw rows to other days after the possible event days of their source are declared anew.

Raw has every row exactly once, before and after: the rows of a day are written anew, each on the day that it belongs to
now, and all days that lose or gain rows are published together. Landed files are not read, and count as they did.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_assets.days import TableDay, contiguous
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import (
    DayChange,
    DayContent,
    DayLineage,
    DayRead,
    Expected,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.rows import published_rows, stage, staged_rows
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.deletions import with_arrivals
from backfill_assets.landing.raw_rows import event_day, raw_schema
from backfill_assets.landing.supersessions import supersessions
from backfill_assets.model.canonical import key_text
from backfill_assets.model.declaration import DayFacts, Source, Step, Table
from backfill_assets.publication.pin import files_at, logicals
from backfill_assets.publication.publisher import Conflict, Pin, Published
from backfill_assets.quality import gates
from backfill_assets.quality.measures import zero_metrics
from backfill_assets.rebuild.environment import environment_of
from backfill_assets.rebuild.lake import Lake, Progress, failed_day, provenance
from backfill_assets.rebuild.outcome import DaysFailed, RunInfo
from backfill_assets.rebuild.stage import (
    StagedTableDay,
    as_facts,
    content_of,
    measured_files,
    record_verdicts,
    with_verdict,
)
from backfill_assets.rebuild.waiting import waiting
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MOST_ATTEMPTS = 5
_ACCOUNTED = ("received", "content_hash_sum")


@dataclass(frozen=True)
class Relocation:
    """The days of a raw table whose rows are looked at again, and who asked for it."""

    lake: Lake
    step: Step
    source: Source
    run: RunInfo
    progress: Progress

    @property
    def table(self) -> Table:
        return self.step.tables[0]

    def run_days(self, days: Sequence[date]) -> tuple[Published, dict[date, StagedTableDay]]:
        """Publish ``days`` with the rows that belong there, and the days that gain from them."""
        for _ in range(_MOST_ATTEMPTS):
            attempt = _Attempt(self, set(days), self.pin())
            outcome = attempt.publish()
            if isinstance(outcome, Published):
                return outcome, attempt.staged
            self.progress(f"{self.table.name}: its days changed meanwhile, looking again")
        raise PublicationRefused(
            f"{self.table.name}: its days kept changing while their rows were put on other days.",
            hint="Let the other runs finish, then run this again.",
        )

    def pin(self) -> Pin:
        """Of the whole table: which days gain rows is known when they have been read."""
        name = self.table.name
        states = self.lake.publisher.pin(writes={}, reads={}, also={name}).states
        days = [day for table, day in states if table == name]
        return self.lake.publisher.pin(writes={name: days}, reads={name: days}, exact={name}, also={name})


@dataclass
class _Attempt:
    """One look at the table as it is pinned."""

    relocation: Relocation
    asked: Collection[date]
    pin: Pin
    staged: dict[date, StagedTableDay] = field(default_factory=dict)

    @property
    def lake(self) -> Lake:
        return self.relocation.lake

    @property
    def source(self) -> Source:
        return self.relocation.source

    @property
    def table(self) -> Table:
        return self.relocation.table

    @cached_property
    def timeline(self) -> Timeline:
        return self.lake.timelines(self.relocation.step)[self.table.name]

    def publish(self) -> Published | Conflict:
        started = time.monotonic()
        with waiting(self.relocation.progress, f"{self.table.name}: Spark puts rows on other days"):
            rewritten = self.stage()
        gaining = sorted(self.timeline.days_with_files() - rewritten)
        self.refuse_foreign({*rewritten, *gaining})
        contents = self.contents(rewritten, gaining)
        self.require_equal_sums(contents)
        self.judge(contents, (time.monotonic() - started) / max(1, len(contents)))
        self.lake.wait_for_holds({self.table.name: sorted(contents)}, self.relocation.progress)
        outcome = self.lake.publisher.publish(self.request(contents, rewritten))
        self.timeline.close()
        if isinstance(outcome, Published):
            self.relocation.progress(
                f"{self.table.name}: the rows of {format_count(len(self.asked), 'day')} are where they belong "
                f"({self.source.placement.code_version}); {format_count(len(gaining), 'other day')} gained from them"
            )
        return outcome

    # ------------------------------------------------------------------ stage

    def stage(self) -> set[date]:
        """Write the rows of the days that were asked for, each on its day; returns the days that are written whole."""
        was = with_arrivals(self.rows(self.asked))
        before = was.withColumns({f"{name} before": F.col(name) for name in ("day", "day_is_arrival")})
        placed = before.withColumns(
            {name: F.when(_was_received(), now).otherwise(F.col(name)) for name, now in event_day(self.source).items()}
        ).withColumn("arrival_day", F.when(_is_received(), F.col("arrival_day")))
        gone = placed.where(_is_received() & F.col("day_is_arrival") & ~F.col("day_is_arrival before"))
        obsolete, losing = self.obsolete_markers(gone)
        self.write(_without(placed, obsolete, self.source))
        if losing:
            self.write(_without(self.rows(losing), obsolete, self.source))
        rewritten = {*self.asked, *losing}
        self.stage_supersessions(rewritten)
        return rewritten

    def obsolete_markers(self, gone: DataFrame) -> tuple[DataFrame | None, set[date]]:
        """The newer versions that have moved to another day, and the other days that have markers of them."""
        if not self.source.supersession_window_days:
            return None, set()
        moved = gone.withColumn("superseded_by_day", F.col("day before"))
        keys = _marker_keys(self.source)
        obsolete = _with_key_texts(moved, self.source).select(*keys)
        around = self.rows(self.window(self.asked) - set(self.asked))
        marked = _with_key_texts(around.where(~_is_received()), self.source).join(obsolete, keys, "left_semi")
        return obsolete, {row["day"] for row in marked.select("day").distinct().collect()}

    def stage_supersessions(self, rewritten: Collection[date]) -> None:
        staged = self.timeline.days_with_files()
        around = self.window(staged) - set(rewritten)
        if not self.source.supersession_window_days or not staged:
            return
        arrived = staged_rows(self.lake.spark(), self.timeline)
        self.write(supersessions(self.source, arrived, self.rows(around)))

    def window(self, days: Iterable[date]) -> set[date]:
        """The published days on which a version can lie that is newer or older than one on ``days``."""
        return self.near(days) & self.pin.inputs[self.table.name].days.keys()

    def near(self, days: Iterable[date]) -> set[date]:
        """All days in the window around ``days``, published or not."""
        width = self.source.supersession_window_days
        return {day + timedelta(days=n) for day in days for n in range(-width, width + 1)}

    def rows(self, days: Iterable[date]) -> DataFrame:
        read = self.pin.inputs[self.table.name]
        some = read.model_copy(update={"days": {day: read.days[day] for day in sorted(days)}})
        return published_rows(self.lake.spark(), self.lake.storage, some, raw_schema(self.source))

    def write(self, rows: DataFrame) -> None:
        names = raw_schema(self.source).names
        stage(rows.select(*names).repartition("day"), self.timeline, {}, other_days=True)

    # ------------------------------------------------------------------ judge

    def contents(self, rewritten: Collection[date], gaining: Iterable[date]) -> dict[date, DayContent]:
        """What each day will hold: as it is staged, or as it was with the staged rows added."""
        measured = measured_files(self.lake.spark(), self.table, self.timeline, self.timeline.files())
        nothing, now = zero_metrics(self.table), self.source.placement.code_version
        content_of_day: dict[date, DayContent] = {}
        for day in sorted({*rewritten, *gaining}):
            staged = content_of(measured.get(day, nothing), now, "", {})
            before = self.content_before(day)
            if day not in rewritten:
                staged = before.plus(staged) if before else staged
            elif day not in self.asked and before:
                staged = replace(staged, code_version=before.code_version)
            content_of_day[day] = staged
        return content_of_day

    def content_before(self, day: date) -> DayContent | None:
        state = self.pin.states.get(TableDay(self.table.name, day))
        return state.content if state else None

    def refuse_foreign(self, days: Iterable[date]) -> None:
        """Refuse days with a foreign write: its rows would be published as ours, or lost."""
        main = MainTable.open(self.lake.storage, self.table.name)
        active = main.state().by_day() if main else {}
        for day in sorted(days):
            state, files = self.pin.states.get(TableDay(self.table.name, day)), active.get(day, frozenset())
            published = state.physical if state and state.content else fingerprints.EMPTY_DAY
            if published != fingerprints.physical(files):
                raise PublicationRefused(
                    f"{self.table.name} {day} is not what was published: no row is put there or taken from there.",
                    hint="See Foreign writes in docs/operations.md, then run this again.",
                )

    def require_equal_sums(self, contents: Mapping[date, DayContent]) -> None:
        """Raise unless the days together have the rows that they had, by count and by the sum of content hashes."""
        before = [content for day in contents if (content := self.content_before(day))]
        had, have = _sums(before), _sums(contents.values())
        if had != have:
            raise PublicationRefused(
                f"{self.table.name}: {min(contents)}..{max(contents)} had {_words(had)} and would have {_words(have)}. "
                "Nothing was published.",
                hint="No row may be lost or doubled on its way to another day. Compare the days with the landed files.",
            )

    def judge(self, contents: dict[date, DayContent], seconds: float) -> None:
        """The gates of every day as it will be; raises :class:`DaysFailed` if one does not pass."""
        schema, made_of = self.timeline.schema(), self.fingerprint()
        days = []
        for day, content in contents.items():
            rules = gates.judge(self.table, DayFacts(own=as_facts(content)))
            contents[day] = with_verdict(content, rules)
            days.append(StagedTableDay(self.table.name, day, (), contents[day], rules, self.pin, schema, seconds))
        environment = environment_of(self.lake.spark())
        judged = record_verdicts(self.timeline, days, {day.day: made_of for day in days}, environment)
        self.staged = {day.day: day for day in judged}
        failed = [failed_day(day) for day in judged if not day.passed]
        if failed:
            raise DaysFailed(failed, staged=len(judged) - len(failed))

    def fingerprint(self) -> str:
        """What the staged days were made of: the days that were asked for as they were, and the placement."""
        days = (f"{day}={self.pin.inputs[self.table.name].days[day]}" for day in self.asked)
        return fingerprints.input_fingerprint(self.source.placement.code_version, "", fingerprints.physical(days))

    # ---------------------------------------------------------------- publish

    def request(self, contents: Mapping[date, DayContent], rewritten: Collection[date]) -> Publication:
        read = self.pin.inputs[self.table.name]
        files = files_at(self.lake.storage, self.table.name, read.version)
        kept = files.of_days(contents)
        days = tuple(
            self.change(day, content, () if day in rewritten else kept[day]) for day, content in contents.items()
        )
        # Also days that were not published: rows that come to one meanwhile can be versions of those that were moved.
        near = self.near(contents)
        unpublished = logicals(files, {}, self.table.name, near - read.days.keys())
        looked_at = unpublished | {day: read.days[day] for day in near & read.days.keys()}
        return Publication(
            id=self.lake.new_id(self.relocation.step.name),
            kind="replace",
            tables=(TableChange(table=self.table.name, table_schema=self.timeline.schema(), days=days),),
            inputs=(read.model_copy(update={"days": looked_at}),),
            provenance=provenance(self.relocation.run, self.timeline.name),
        )

    def change(self, day: date, content: DayContent, kept: tuple[AddedFile, ...]) -> DayChange:
        adds = (*kept, *self.staged[day].files)
        expected = self.pin.expected.get(TableDay(self.table.name, day))
        return DayChange(
            day=day, adds=adds, content=content, expected=expected or Expected(), lineage=self.lineage(day)
        )

    def lineage(self, day: date) -> DayLineage:
        """The days that were looked at, which may have had rows of this one or versions of them."""
        read = self.pin.inputs[self.table.name]
        looked_at = contiguous({day, *self.asked, *self.window([day])})
        reads = tuple(
            DayRead(table=read.table, version=read.version, first=part.first, last=part.last) for part in looked_at
        )
        return DayLineage(reads=reads, environment=self.staged[day].environment)


def _was_received() -> Column:
    """A received row, or the deletion of one, which goes where that one goes."""
    return F.col("source_file").isNotNull()


def _is_received() -> Column:
    return F.col("record_kind") == "received"


def _without(rows: DataFrame, obsolete: DataFrame | None, source: Source) -> DataFrame:
    """``rows`` without the markers of versions that are ``obsolete`` where they point to."""
    if obsolete is None:
        return rows
    others = _with_key_texts(rows.where(~_is_received()), source)
    markers = others.join(obsolete, _marker_keys(source), "left_anti").select(*rows.columns)
    return rows.where(_is_received()).unionByName(markers)


def _with_key_texts(rows: DataFrame, source: Source) -> DataFrame:
    """A marker has the value of a key, and the row that it is about may have it written otherwise."""
    return rows.withColumns({_key_text(name): key_text(source, name) for name in source.key_columns})


def _marker_keys(source: Source) -> list[str]:
    """The columns by which a marker and the version that it is about are found."""
    return [*map(_key_text, source.key_columns), "content_hash", "superseded_by_day"]


def _key_text(name: str) -> str:
    """No landed field has a space in its name."""
    return f"{name} of the key"


def _sums(contents: Iterable[DayContent]) -> dict[str, int]:
    sums = dict.fromkeys(_ACCOUNTED, 0)
    for content in contents:
        for name in _ACCOUNTED:
            sums[name] += int(str(content.metrics.get(name) or 0))
    return sums


def _words(sums: Mapping[str, int]) -> str:
    return f"{sums['received']} received rows, content {sums['content_hash_sum']}"
