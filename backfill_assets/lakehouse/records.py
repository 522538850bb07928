"""What a publication is made of: the records that the publication log keeps.

A publication brings days of one or more tables into main, all or none. The process that staged decides what it wants
(:class:`Publication`); what it found in main at prepare (:class:`Before`) is what an abort or a rollback restores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, localcontext
from functools import cached_property
from typing import ClassVar, Literal

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

Kind = Literal["replace", "append", "compact", "rollback", "adopt", "release"]
Mode = Literal["replace", "append"]
Outcome = Literal["done", "aborted"]
MOVES_FILES: tuple[Kind, ...] = ("rollback", "compact")
"""The kinds of publications that compute nothing: what they bring was made by an earlier one."""
DIRTY = "+dirty"
"""Ends the commit of code that the commit does not contain."""
TOTAL = "total_"
"""Begins the metrics that are the sum of a column, which may have digits after the point: then they are text."""
BREAKS = "adopted_breaks"
"""The metric of an adopted day that counts the gates that it breaks; its example names them."""
_DIGITS = 100
_OF_STREAM = re.compile(r"\d{8}t\d{6}-stream-")


class Record(BaseModel):
    """Base of everything that is stored as JSON in the log: immutable, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AuditRecord(BaseModel):
    """Base of what the log keeps for audits alone: fields that a later process adds are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Environment(AuditRecord):
    """What computed a day, besides its inputs and the version of the logic; part of no fingerprint."""

    git_commit: str = ""
    packages: str = ""
    """The hash of the lock file, or of the installed packages."""
    spark: str = ""
    """Empty if no Spark was needed."""
    java: str = ""

    @property
    def dirty(self) -> bool:
        return self.git_commit.endswith(DIRTY)


class DayRead(AuditRecord):
    """Contiguous days of a table that a day was computed from."""

    table: str
    version: int | None
    """Of main; None for a table that was never published, and for days that are staged."""
    first: date
    last: date
    staged: bool = False
    """True for days that the same publication brings."""

    @property
    def days(self) -> DayRange:
        return DayRange(self.first, self.last)


class DayLineage(AuditRecord):
    """What a day was computed from and with."""

    reads: tuple[DayRead, ...] = ()
    environment: Environment | None = None

    @property
    def days_read(self) -> dict[str, DayRange]:
        """By table, from the first day that was read to the last."""
        found: dict[str, DayRange] = {}
        for read in self.reads:
            known = found.get(read.table, read.days)
            found[read.table] = DayRange(min(known.first, read.first), max(known.last, read.last))
        return found


class Provenance(Record):
    """Who and what made a publication; never part of any fingerprint."""

    run: str = ""
    launched_by: str = ""
    git_commit: str = ""
    campaign: str = ""
    timeline: str = ""
    reason: str = ""
    undoes: str = ""
    """The publication whose before-images this one puts back."""
    first_undone: str = ""
    """What the first undo of a chain undid: an undo of an undo belongs to the same publication. Empty for no undo."""
    withdraws: bool = False
    """Of an undo: whether it takes ``first_undone`` away. If not, it brings it back."""


class Detail(Record):
    """One thing that a person is told beside a sentence: since when, what is affected, who owns it, who wrote."""

    label: str
    words: str = ""
    link: str = ""
    """An address that shows more; empty for none."""


class Notice(Record):
    """A message that is sent once to the readers of reports: plain sentences that need no knowledge of tables."""

    title: str
    lines: tuple[str, ...] = ()
    """What changed and by how much, a sentence each."""
    reports: tuple[str, ...] = ()
    """The tables that people read and that changed."""
    approved_by: str = ""
    undo: str = ""
    """The command that puts everything back; empty if there is nothing to undo."""
    severity: Severity = "info"
    dataset: str = ""
    """The dataset that it is about; empty if it is about several or none."""
    incident: str = ""
    """The incident that it tells of: what is told of one incident belongs together."""
    resolved: bool = False
    """Whether it says that its incident is over."""
    to_do: str = ""
    """The one thing that a person does now: a command or a step; empty where nothing is to be done."""
    facts: tuple[Detail, ...] = ()
    """What is known beside the sentences, in the order in which it is read."""


@dataclass(frozen=True, slots=True)
class DayContent:
    """What a published day holds, known without reading it: the logical side of a day.

    No :class:`Record`: years of days are made at once, and making one of those takes seven times as long.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    rows: int
    checksum: str
    """Sum of the row hashes, as decimal text: it does not fit 64 bits."""
    code_version: str = ""
    parameters: str = ""
    inputs: str = ""
    """Fingerprint of the logical fingerprints of all input days."""
    metrics: Mapping[str, int | str | None] = field(default_factory=dict)
    staged_ms: int | None = None
    """Milliseconds that staging took for the step's tables together, the day's share; None if it was not measured."""
    logic: str = ""
    """The fingerprint of the version's logic, part of no other; empty for raw, and where it was not recorded."""

    @property
    def logical(self) -> str:
        return fingerprints.logical(self.rows, self.checksum)

    @property
    def input_fingerprint(self) -> str:
        return fingerprints.input_fingerprint(self.code_version, self.parameters, self.inputs)

    @property
    def is_adopted(self) -> bool:
        """Whether it was taken over with its table: it is right as it is, and only a person's word rebuilds it."""
        return self.code_version == ADOPTED

    @property
    def breaks(self) -> str:
        """The gates that an adopted day breaks; empty if it breaks none."""
        return str(self.metrics.get(f"{BREAKS}{EXAMPLE}") or "")

    def figure(self, metric: str) -> Decimal | None:
        """A metric as a number; None if it was not measured. A day without rows has 0 of everything."""
        value = self.metrics.get(metric)
        if value is None:
            return None if self.rows else Decimal(0)
        return Decimal(str(value))

    def plus(self, added: DayContent) -> DayContent:
        """The content after appending ``added``: counts and checksums are sums, so they add up.

        A number that one side was not measured for is unknown of both, unless that side has no rows.
        """
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
        """Of text that is no total (an example of something) one is enough."""
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
    """Where the rows of a published day come from, whatever has moved their files since.

    Written once, by the publication that computes the rows. Compactions, rewinds and undos carry it along.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    computed_by: str = ""
    """The publication that computed the rows. Of a day of raw: the one since which it has only gained rows. Empty for a
    day that was never published."""
    gained_by: str = ""
    """Of a day of raw: the last publication since then that it has gained rows by; empty without one."""
    campaign: str = ""
    """The last campaign that brought the day and was not undone; runs on top of it change that as little as an undo of
    them."""
    brought_by: str = ""
    """The publication of that campaign."""
    put_back_by: str = ""
    """The last undo that brought the day, since its rows were computed; empty without one."""
    undid: str = ""
    """What that undo undid."""
    rolled_back_by: str = ""
    """The rollback by which a person has put the day back, while it stands: its undo ends it, and so do new rows."""

    @property
    def is_as_of(self) -> str:
        """The publication since which the day has only gained rows; empty for a day that was never published."""
        return self.put_back_by or self.computed_by

    @property
    def rows_by(self) -> str:
        """The last publication by which the day got rows, or got them back."""
        return self.put_back_by or self.gained_by or self.computed_by

    def put_back(self, by: str, undone: Publication) -> Origin:
        """Of a day that goes back to this origin, because ``by`` undoes ``undone``."""
        standing = self.rolled_back_by if undone.kind in MOVES_FILES else by
        return replace(self, put_back_by=by, undid=undone.id, rolled_back_by=standing)

    def brought(self, publication: Publication) -> Origin:
        """Of a day that ``publication`` computes where this was the origin before."""
        if campaign := publication.provenance.campaign:
            return Origin(publication.id, campaign=campaign, brought_by=publication.id)
        return self.computed_again(publication.id)

    def computed_again(self, by: str) -> Origin:
        """Of a day that ``by`` computes for no campaign, or to follow an undo."""
        return Origin(by, campaign=self.campaign, brought_by=self.brought_by)

    def gained(self, by: str) -> Origin:
        """Of a day of raw that gains rows by the publication ``by``."""
        since = self.is_as_of
        return replace(self.computed_again(since), gained_by=by) if since else Origin(by)


class Expected(Record):
    """The state of a day when it was staged: compare-and-swap compares with it."""

    files: tuple[str, ...] = ()
    publication: str = ""
    """The last publication of the day: equal files may have been away and come back."""


class DayChange(Record):
    """One day of one table: the staged files, what they hold, and the state they were staged against."""

    day: date
    adds: tuple[AddedFile, ...] = ()
    content: DayContent | None
    expected: Expected = Expected()
    lineage: DayLineage | None = ModelField(default=None, exclude=True)
    """Kept in the log in a row of its own, for audits: processes that do not know it read the rest, and FINISH does
    not need it. None for a day that was not computed, and for one that was read from the log."""
    made_of: Mapping[str, DayRange] | None = ModelField(default=None, exclude=True)
    """The days of each table that ``content`` was made of, also if an earlier publication made it: what is published
    has to agree with them (:mod:`backfill_assets.publish.torn_days`). None for raw rows, and if it is not known."""
    origin: Origin | None = None
    """Where the rows come from, of a day that an undo puts back."""

    @property
    def logical(self) -> str:
        """The logical fingerprint of the day once it is published so, in place of what there was."""
        if self.content is not None:
            return self.content.logical
        physical = fingerprints.physical(file.path for file in self.adds)
        return fingerprints.foreign(physical) if self.adds else fingerprints.NEVER_PUBLISHED


class Position(Record):
    """Progress in one partition of a source (a topic partition's offset, a landed file's content)."""

    id: str
    before: int | None
    after: int


@dataclass(frozen=True, order=True)
class PartitionPosition:
    """Up to where a partition of a topic was read. ``next_offset`` is the first offset that was not read."""

    topic: str
    partition: int
    next_offset: int
    live_since: int | None = None
    """The offset at which history ended and what is live began; None if all of it is live."""

    def __str__(self) -> str:
        live = "" if self.live_since is None else f" (live since {self.live_since:,})"
        return f"partition {self.partition} up to offset {self.next_offset:,}{live}"


class TableChange(Record):
    """All that one publication does to one table."""

    table: str
    mode: Mode = "replace"
    table_schema: str
    """The staged schema as Delta's JSON."""
    days: tuple[DayChange, ...]
    positions: tuple[Position, ...] = ()

    @cached_property
    def by_day(self) -> Mapping[date, DayChange]:
        """Its days: a publication may bring thousands."""
        return {each.day: each for each in self.days}


class InputRead(Record):
    """An input as it was read: the version, and the logical fingerprint of every day that was used."""

    table: str
    version: int | None
    days: Mapping[date, str]
    exact: bool = False
    """Rows gained since are not accepted either (an append that looked at its own table)."""


class Switch(Record):
    """The version of a step's logic that a publication makes current, and the one that it was decided on.

    Empty versions are the one that is declared as current, which counts as long as no publication says otherwise.
    """

    version: str
    former: str = ""
    former_by: str = ""
    """The publication that had made the former version current: a version may have been away and come back."""


class CurrentVersion(Record):
    """The version of a step's logic that is current because a publication made it so."""

    version: str
    publication: str


class Publication(Record):
    """A request to publish: days of tables, what they were computed from, and who asked."""

    id: str
    kind: Kind
    tables: tuple[TableChange, ...]
    inputs: tuple[InputRead, ...] = ()
    provenance: Provenance = Provenance()
    notice: Notice | None = None
    """Sent when this is done, and never if it is aborted: see :mod:`backfill_assets.publish.outbox`."""
    transaction: str = ""
    """The Delta transaction that marks its commits, if it shares one: publications of a stream do, so that tables do
    not gather one for each batch. Any name but those of publications and source positions."""
    switches: Mapping[str, Switch] = ModelField(default_factory=dict)
    """The versions that become current once this is done, by step."""
    leaves_stale: Mapping[str, tuple[date, ...]] = ModelField(default_factory=dict)
    """By table, the published days that read what this brings and are not brought with it: they are stale at once."""

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(change.table for change in self.tables)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(read.table for read in self.inputs)

    @property
    def locks(self) -> frozenset[str]:
        """The tables that others leave alone while it is open. A step has the name of its first table."""
        return self.writes | self.switches.keys()


class DayRecord(Record):
    """All that is known of a day of a table, whoever made it: what it holds, and the files that have its rows.

    Their paths are relative to the table, as main names them.
    """

    day: date
    content: DayContent | None = None
    """None for a day that was never published, and for one with a foreign write."""
    files: tuple[AddedFile, ...] = ()
    foreign: str = ""
    """The physical fingerprint of a day with a foreign write."""

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
        """What it holds; raises :class:`LookupError` for a day of which that is not known."""
        if self.content is None:
            raise LookupError(f"What {self.day} holds is not known.")
        return self.content


def day_record(day: date, files: tuple[AddedFile, ...], content: DayContent | None) -> DayRecord:
    """A day with these files; of those without a known content, a foreign write."""
    foreign = fingerprints.physical(file.path for file in files) if files and content is None else ""
    return DayRecord(day=day, content=content, files=files, foreign=foreign)


DayRecords = Mapping[str, Mapping[date, DayRecord]]
"""What days hold, by table and day."""


class Before(Record):
    """The state of a day just before a publication touches it, in full: undo needs no old Delta log."""

    files: tuple[AddedFile, ...] = ()
    content: DayContent | None = None
    publication: str = ""
    origin: Origin = Origin()

    def record(self, day: date) -> DayRecord:
        """What ``day`` holds once it is put back."""
        return day_record(day, self.files, self.content)


class Prepared(Record):
    """A publication together with the before-images found at prepare, by table and day."""

    publication: Publication
    before: Mapping[str, Mapping[date, Before]]
    window_days: int
    """The rollback window that was promised."""

    def change(self, table: str) -> TableChange:
        return next(change for change in self.publication.tables if change.table == table)

    def before_of(self, table: str, day: date) -> Before | None:
        """The before-image of a day; None if this did not bring it. An undo may bring more than what it undoes."""
        return self.before.get(table, {}).get(day)

    def target(self, table: str) -> dict[date, dict[str, AddedFile]]:
        """The files that each touched day is to have, by path."""
        return {day.day: self.target_of(table, day) for day in self.change(table).days}

    def target_of(self, table: str, day: DayChange) -> dict[str, AddedFile]:
        """The files that one day is to have, by path."""
        kept = self.before[table][day.day].files if self.change(table).mode == "append" else ()
        return {file.path: file for file in (*kept, *day.adds)}

    def before_files(self, table: str) -> dict[date, dict[str, AddedFile]]:
        return {day: {file.path: file for file in before.files} for day, before in self.before[table].items()}

    def result(self, table: str, day: date) -> DayContent | None:
        """What the day holds once this is published; for an append, what it held before and the rows added.

        None when that is not known: rows that were appended to a foreign write are only part of the day.
        """
        change, before = self.change(table), self.before[table][day]
        staged = change.by_day[day].content
        if change.mode == "replace" or (not before.files and before.content is None):
            return staged
        return before.content.plus(staged) if before.content and staged else None

    def origin(self, table: str, day: date) -> Origin:
        """Where the rows of a day come from once this is published."""
        change, before, made = self.change(table), self.before[table][day].origin, self.publication
        if made.kind == "rollback":
            return change.by_day[day].origin or before.computed_again(made.id)
        if made.kind == "compact":
            return before
        if change.mode == "append":
            return before.gained(made.id)
        return before.brought(made)


@dataclass(frozen=True, slots=True)
class DayState:
    """The last thing that the publication log knows about a day of a table."""

    table: str
    day: date
    publication: str
    sequence: int
    """Log version of the entry that closed the publication."""
    physical: str
    content: DayContent | None
    """None for a day that was withdrawn again, or restored to files we did not write."""
    origin: Origin = Origin()

    def content_of(self, paths: Iterable[str]) -> DayContent | None:
        """What the day holds if these are its files; None for a foreign write: its content is unknown to us."""
        return self.content if self.physical == fingerprints.physical(paths) else None

    def logical_at(self, physical: str) -> str:
        """The logical fingerprint, given the files the day really has: a foreign write has content unknown to us."""
        if physical != self.physical:
            return fingerprints.foreign(physical)
        if self.content is None:
            return (
                fingerprints.NEVER_PUBLISHED if physical == fingerprints.EMPTY_DAY else fingerprints.foreign(physical)
            )
        return self.content.logical


def content_in(states: Mapping[TableDay, DayState], key: TableDay) -> DayContent | None:
    """What the log says that a day holds; None where it does not know, and for a day that was never published."""
    state = states.get(key)
    return state.content if state else None


def is_adopted(states: Mapping[TableDay, DayState], tables: Iterable[str], day: date) -> bool:
    """Whether ``day`` of one of ``tables``, those of one step, was taken over with its table."""
    contents = (content_in(states, TableDay(table, day)) for table in tables)
    return any(content is not None and content.is_adopted for content in contents)


def logical_or_empty(content: DayContent | None) -> str:
    return content.logical if content else ""


def is_of_stream(publication: str) -> bool:
    """True for the id of a publication that a stream made."""
    return _OF_STREAM.match(publication) is not None


def logical_of(state: DayState | None, physical: str) -> str:
    """Logical fingerprint of a day that may never have been published."""
    if state is None:
        return fingerprints.NEVER_PUBLISHED if physical == fingerprints.EMPTY_DAY else fingerprints.foreign(physical)
    return state.logical_at(physical)


HELD_BACK = ("", "held back")
