"""The publication log: what is asked for (:class:`Publication`), what prepare found (:class:`Before`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, localcontext
from functools import cached_property
from operator import not_
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict
from pydantic import Field as ModelField

from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.model.declaration import ADOPTED, EXAMPLE
from backfill_assets.model.deletion import OF_DELETIONS
from backfill_assets.model.drift import FIELDS, together
from backfill_assets.model.placement import both
from backfill_assets.notice_routes import Severity

Kind = Literal["replace", "append", "compact", "rollback", "adopt", "release", "erase"]
Mode = Literal["replace", "append"]
Outcome = Literal["done", "aborted"]
MOVES_FILES: tuple[Kind, ...] = ("rollback", "compact")
DIRTY = "+dirty"
"""Suffix of a commit with uncommitted code."""
TOTAL = "total_"
"""Prefix of column sums; decimal ones are text."""
BREAKS = "adopted_breaks"
"""Metric: gates that an adopted day breaks; its example names them."""
_DIGITS = 100
_OF_STREAM = re.compile(r"\d{8}t\d{6}-stream-")


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AuditRecord(BaseModel):
    """Ignores unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Environment(AuditRecord):
    """Part of no fingerprint."""

    git_commit: str = ""
    packages: str = ""
    spark: str = ""
    java: str = ""

    @property
    def dirty(self) -> bool:
        return self.git_commit.endswith(DIRTY)


class DayRead(AuditRecord):
    table: str
    version: int | None
    """Absent if never published, or staged."""
    first: date
    last: date
    staged: bool = False

    @property
    def days(self) -> DayRange:
        return DayRange(self.first, self.last)


class DayLineage(AuditRecord):
    reads: tuple[DayRead, ...] = ()
    environment: Environment | None = None

    @property
    def days_read(self) -> dict[str, DayRange]:
        """First to last by table; days between may not have been read."""
        found: dict[str, DayRange] = {}
        for read in self.reads:
            known = found.get(read.table, read.days)
            found[read.table] = DayRange(min(known.first, read.first), max(known.last, read.last))
        return found


class Provenance(Record):
    """Part of no fingerprint."""

    run: str = ""
    launched_by: str = ""
    git_commit: str = ""
    campaign: str = ""
    timeline: str = ""
    reason: str = ""
    undoes: str = ""
    first_undone: str = ""
    """What a chain's first undo undid."""
    withdraws: bool = False
    """An undo takes ``first_undone`` away (True), or brings it back."""


class Detail(Record):
    label: str
    words: str = ""
    link: str = ""


class Notice(Record):
    title: str
    lines: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    approved_by: str = ""
    undo: str = ""
    severity: Severity = "info"
    dataset: str = ""
    incident: str = ""
    resolved: bool = False
    to_do: str = ""
    facts: tuple[Detail, ...] = ()


@dataclass(frozen=True, slots=True)
class DayContent:
    """A dataclass: a :class:`Record` takes seven times as long."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    rows: int
    checksum: str
    """Sum of the row hashes; it does not fit 64 bits."""
    code_version: str = ""
    parameters: str = ""
    inputs: str = ""
    metrics: Mapping[str, int | str | None] = field(default_factory=dict)
    staged_ms: int | None = None
    """The day's share of staging."""
    logic: str = ""

    @property
    def logical(self) -> str:
        return fingerprints.logical(self.rows, self.checksum)

    @property
    def input_fingerprint(self) -> str:
        return fingerprints.input_fingerprint(self.code_version, self.parameters, self.inputs)

    @property
    def is_adopted(self) -> bool:
        """Adopted days came with their table: only a person's request rebuilds them."""
        return self.code_version == ADOPTED

    @property
    def breaks(self) -> str:
        return str(self.metrics.get(f"{BREAKS}{EXAMPLE}") or "")

    def figure(self, metric: str) -> Decimal | None:
        """Returns None if not measured; a day without rows has 0."""
        value = self.metrics.get(metric)
        if value is None:
            return None if self.rows else Decimal(0)
        return Decimal(str(value))

    def plus(self, added: DayContent) -> DayContent:
        """A metric that one side lacks is None, unless that side has no rows."""
        keys = {*self.metrics, *added.metrics}
        return replace(
            added,
            rows=self.rows + added.rows,
            checksum=str(int(self.checksum) + int(added.checksum)),
            code_version=both(self.code_version, added.code_version),
            metrics={key: self._plus(added, key) for key in sorted(keys)},
            staged_ms=None if self.staged_ms is None or added.staged_ms is None else self.staged_ms + added.staged_ms,
        )

    def _plus(self, added: DayContent, metric: str) -> int | str | None:
        absent = 0 if metric in OF_DELETIONS else None
        old, new = self.metrics.get(metric, absent), added.metrics.get(metric, absent)
        if isinstance(old, int) and isinstance(new, int):
            return old + new
        if metric == FIELDS:
            return together([old, new])
        if not metric.startswith(TOTAL) and (isinstance(old, str) or isinstance(new, str)):
            return old or new
        if old is None or new is None:
            return new if not self.rows else old if not added.rows else None
        with localcontext() as exact:
            exact.prec = _DIGITS
            return str(Decimal(old) + Decimal(new))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a published day's rows come from; compactions, rewinds and undos carry it along."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    computed_by: str = ""
    """Since this publication raw has only gained rows. Empty if never published."""
    gained_by: str = ""
    """Raw: the last publication since that added rows."""
    campaign: str = ""
    """The last campaign that brought the day and was not undone, whatever ran on top."""
    brought_by: str = ""
    put_back_by: str = ""
    """The last undo since."""
    undid: str = ""
    rolled_back_by: str = ""
    """A person's rollback, until undone or new rows come."""
    only_where: Annotated[str, ModelField(exclude_if=not_)] = ""
    """The rows that ``computed_by`` computed; all others it carried over. Empty if it computed all."""

    @property
    def is_as_of(self) -> str:
        """The day has only gained rows since."""
        return self.put_back_by or self.computed_by

    @property
    def rows_by(self) -> str:
        """The last publication that gave the day rows, or gave them back."""
        return self.put_back_by or self.gained_by or self.computed_by

    def put_back(self, by: str, undone: Publication) -> Origin:
        standing = self.rolled_back_by if undone.kind in MOVES_FILES else by
        return replace(self, put_back_by=by, undid=undone.id, rolled_back_by=standing)

    def brought(self, publication: Publication) -> Origin:
        if campaign := publication.provenance.campaign:
            return Origin(publication.id, campaign=campaign, brought_by=publication.id)
        return self.computed_again(publication.id)

    def computed_again(self, by: str) -> Origin:
        return Origin(by, campaign=self.campaign, brought_by=self.brought_by)

    def gained(self, by: str) -> Origin:
        since = self.is_as_of
        return replace(self.computed_again(since), gained_by=by) if since else Origin(by)


class Expected(Record):
    files: tuple[str, ...] = ()
    publication: str = ""
    """Equal files may have come back."""


class DayChange(Record):
    day: date
    adds: tuple[AddedFile, ...] = ()
    content: DayContent | None
    expected: Expected = Expected()
    lineage: DayLineage | None = ModelField(default=None, exclude=True)
    """In a row of its own: older processes read the rest. Absent if read from the log."""
    made_of: Mapping[str, DayRange] | None = ModelField(default=None, exclude=True)
    """The days that ``content`` was made of, for :mod:`backfill_assets.publish.torn_days`, if known; not for raw."""
    origin: Origin | None = None
    only_where: str = ModelField(default="", exclude_if=not_)
    """The rows that were computed, if others were carried over."""

    @property
    def logical(self) -> str:
        if self.content is not None:
            return self.content.logical
        physical = fingerprints.physical(file.path for file in self.adds)
        return fingerprints.foreign(physical) if self.adds else fingerprints.NEVER_PUBLISHED


class Position(Record):
    id: str
    before: int | None
    after: int


@dataclass(frozen=True, order=True)
class PartitionPosition:
    """``next_offset`` is the first not read."""

    topic: str
    partition: int
    next_offset: int
    live_since: int | None = None
    """Live events began here; if None, all are."""

    def __str__(self) -> str:
        live = "" if self.live_since is None else f" (live since {self.live_since:,})"
        return f"partition {self.partition} up to offset {self.next_offset:,}{live}"


class TableChange(Record):
    table: str
    mode: Mode = "replace"
    table_schema: str
    days: tuple[DayChange, ...]
    positions: tuple[Position, ...] = ()

    @cached_property
    def by_day(self) -> Mapping[date, DayChange]:
        return {each.day: each for each in self.days}


class InputRead(Record):
    """``days`` have logical fingerprints."""

    table: str
    version: int | None
    days: Mapping[date, str]
    exact: bool = False
    """Refuses rows gained since: for an append that looked at its own table."""


class Switch(Record):
    """An empty version is the declared one."""

    version: str
    former: str = ""
    former_by: str = ""
    """A version may have come back."""


class CurrentVersion(Record):
    version: str
    publication: str


class Publication(Record):
    id: str
    kind: Kind
    tables: tuple[TableChange, ...]
    inputs: tuple[InputRead, ...] = ()
    provenance: Provenance = Provenance()
    notice: Notice | None = None
    """Sent after the publication (:mod:`backfill_assets.publish.outbox`)."""
    transaction: str = ""
    """Shared by a stream's publications, so that tables do not gather transactions; no id of a publication or source
    position.
    """
    switches: Mapping[str, Switch] = ModelField(default_factory=dict)
    leaves_stale: Mapping[str, tuple[date, ...]] = ModelField(default_factory=dict)
    """Published readers of what this brings, by table."""

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(change.table for change in self.tables)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(read.table for read in self.inputs)

    @property
    def locks(self) -> frozenset[str]:
        """Tables and steps (by first table) that nothing else publishes to meanwhile."""
        return self.writes | self.switches.keys()


class DayRecord(Record):
    """Paths are relative to the table."""

    day: date
    content: DayContent | None = None
    """Absent if never published, or foreign."""
    files: tuple[AddedFile, ...] = ()
    foreign: str = ""

    @property
    def logical(self) -> str:
        if self.content is not None:
            return self.content.logical
        return fingerprints.foreign(self.foreign) if self.foreign else fingerprints.NEVER_PUBLISHED

    @property
    def physical(self) -> str:
        return fingerprints.physical(file.path for file in self.files)

    @property
    def measured(self) -> DayContent:
        if self.content is None:
            raise LookupError(f"What {self.day} holds is not known.")
        return self.content


def day_record(day: date, files: tuple[AddedFile, ...], content: DayContent | None) -> DayRecord:
    """Without ``content`` it is a foreign write."""
    foreign = fingerprints.physical(file.path for file in files) if files and content is None else ""
    return DayRecord(day=day, content=content, files=files, foreign=foreign)


DayRecords = Mapping[str, Mapping[date, DayRecord]]


class Before(Record):
    """A day's full state before: undo needs no Delta log."""

    files: tuple[AddedFile, ...] = ()
    content: DayContent | None = None
    publication: str = ""
    origin: Origin = Origin()

    def record(self, day: date) -> DayRecord:
        return day_record(day, self.files, self.content)


class Prepared(Record):
    publication: Publication
    before: Mapping[str, Mapping[date, Before]]
    window_days: int

    def change(self, table: str) -> TableChange:
        return next(change for change in self.publication.tables if change.table == table)

    def before_of(self, table: str, day: date) -> Before | None:
        """Returns None for days that this did not bring: an undo may bring more than it undoes."""
        return self.before.get(table, {}).get(day)

    def target(self, table: str) -> dict[date, dict[str, AddedFile]]:
        return {day.day: self.target_of(table, day) for day in self.change(table).days}

    def target_of(self, table: str, day: DayChange) -> dict[str, AddedFile]:
        kept = self.before[table][day.day].files if self.change(table).mode == "append" else ()
        return {file.path: file for file in (*kept, *day.adds)}

    def before_files(self, table: str) -> dict[date, dict[str, AddedFile]]:
        return {day: {file.path: file for file in before.files} for day, before in self.before[table].items()}

    def result(self, table: str, day: date) -> DayContent | None:
        """Once this is published; None for rows appended to a foreign write."""
        change, before = self.change(table), self.before[table][day]
        staged = change.by_day[day].content
        if change.mode == "replace" or (not before.files and before.content is None):
            return staged
        return before.content.plus(staged) if before.content and staged else None

    def origin(self, table: str, day: date) -> Origin:
        change, before, made = self.change(table), self.before[table][day].origin, self.publication
        if made.kind == "rollback":
            return change.by_day[day].origin or before.computed_again(made.id)
        if made.kind == "compact":
            return before
        if change.mode == "append":
            return before.gained(made.id)
        return replace(before.brought(made), only_where=change.by_day[day].only_where)


@dataclass(frozen=True, slots=True)
class DayState:
    table: str
    day: date
    publication: str
    sequence: int
    """Log version of the closing entry."""
    physical: str
    content: DayContent | None
    """Absent if withdrawn, or foreign."""
    origin: Origin = Origin()

    def content_of(self, paths: Iterable[str]) -> DayContent | None:
        return self.content if self.physical == fingerprints.physical(paths) else None

    def logical_at(self, physical: str) -> str:
        if physical != self.physical:
            return fingerprints.foreign(physical)
        if self.content is None:
            return (
                fingerprints.NEVER_PUBLISHED if physical == fingerprints.EMPTY_DAY else fingerprints.foreign(physical)
            )
        return self.content.logical


def content_in(states: Mapping[TableDay, DayState], key: TableDay) -> DayContent | None:
    state = states.get(key)
    return state.content if state else None


def is_adopted(states: Mapping[TableDay, DayState], tables: Iterable[str], day: date) -> bool:
    contents = (content_in(states, TableDay(table, day)) for table in tables)
    return any(content is not None and content.is_adopted for content in contents)


def logical_or_empty(content: DayContent | None) -> str:
    return content.logical if content else ""


def is_of_stream(publication: str) -> bool:
    return _OF_STREAM.match(publication) is not None


def logical_of(state: DayState | None, physical: str) -> str:
    if state is None:
        return fingerprints.NEVER_PUBLISHED if physical == fingerprints.EMPTY_DAY else fingerprints.foreign(physical)
    return state.logical_at(physical)


HELD_BACK = ("", "held back")
