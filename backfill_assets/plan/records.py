"""A plan: which days of which tables are rebuilt and why, from what, at what cost, and what blocks it.

Frozen data that goes to JSON and back. Its id is a hash of its content, so an approved id stands for exactly this
content; :func:`backfill_assets.plan.basis.drift_since` says what of it no longer holds.
"""

from __future__ import annotations

import enum
import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from operator import not_
from statistics import median, quantiles
from typing import Any, Literal

from pydantic import Field, ValidationError

from backfill_assets.days import Cadence, DayRange, contiguous
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import PartitionPosition, Record
from backfill_assets.plan.code_change import CodeChange
from backfill_assets.plan.expectations import Expectation
from backfill_assets.state.diagnosis import Cause
from backfill_assets.text import UNKNOWN, format_duration, format_range, format_scope

Ranges = tuple[str, ...]
"""Days as the fewest ranges, ``A..B`` or ``A``; of weekly and monthly tables the first days of their periods."""
Fingerprints = Mapping[str, Mapping[str, str]]
"""A short fingerprint by table and day."""


class Scope(enum.StrEnum):
    """How much of the pipeline is rebuilt."""

    SOURCE = "source"
    """The landed files are read again, then everything that WHOLE has."""
    WHOLE = "whole"
    """What the table is computed from, the table, and what is computed from it."""
    ONWARDS = "onwards"
    DOWNSTREAM = "downstream"
    """What is computed from the table: the table itself is right already."""


class PlanTerms(Record):
    """How a plan is to be carried out, as its file says: part of the plan, and so of its id. Empty means not said."""

    title: str = Field(default="", exclude_if=not_)
    reason: str = Field(default="", exclude_if=not_)
    waves: str = Field(default="", exclude_if=not_)
    """As :class:`~backfill_assets.plan.waves.Shares` writes them."""
    limits: str = Field(default="", exclude_if=not_)
    """All of them, those that have their defaults as well: a later default changes no plan."""
    approvers: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Only they may approve."""
    approvals: int = Field(default=1, exclude_if=lambda number: number == 1)
    """How many people have to approve the same difference."""
    notices: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """For whom the notices are: names of people, teams or channels that their receiver knows."""

    @property
    def empty(self) -> bool:
        return self == NO_TERMS


NO_TERMS = PlanTerms()


class PlanRequest(Record):
    """The question that the plan answers."""

    target: str
    days: str
    version: str = ""
    """Of the target's logic; empty for the current one."""
    scope: Scope = Scope.ONWARDS
    force: bool = False
    leaves: Ranges = Field(default=(), exclude_if=not_)
    """Days of the target within ``days`` that are left as they are: a timeline does not hold them otherwise."""
    expectations: tuple[Expectation, ...] = Field(default=(), exclude_if=not_)
    """What is expected of the difference; it is judged before the approval."""
    terms: PlanTerms = Field(default=NO_TERMS, exclude_if=lambda terms: terms.empty)


class Span(Record):
    """How many seconds something takes: the median of earlier times, and from their lower to their upper tenth."""

    median: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Span | None:
        """None without any."""
        if not seconds:
            return None
        tenths = quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else [*seconds]
        found = {"median": median(seconds), "low": tenths[0], "high": tenths[-1]}
        return cls(**{name: round(value, 2) for name, value in found.items()}, samples=len(seconds))

    def __add__(self, other: Span) -> Span:
        """One after the other."""
        return Span(
            median=round(self.median + other.median, 2),
            low=round(self.low + other.low, 2),
            high=round(self.high + other.high, 2),
            samples=min(self.samples, other.samples),
        )


def about(time: Span | None) -> str:
    """``about 14 s (8.0 s to 20 s)``; ``unknown`` where there is nothing to go by."""
    if time is None:
        return UNKNOWN
    spread = f" ({format_duration(time.low)} to {format_duration(time.high)})" if time.low < time.high else ""
    return f"about {format_duration(time.median)}{spread}"


class Estimate(Record):
    """What a step will read, write and take; None where there is nothing to go by."""

    rows_read: int | None = 0
    bytes_read: int | None = 0
    rows_written: int | None = None
    bytes_written: int | None = None
    time: Span | None = None
    """From published days whose staging was timed."""


class SourceFiles(Record):
    """How many landed files of an arrival day have changed, are gone and are new since raw has read them."""

    changed: int = 0
    gone: int = 0
    new: int = 0


class PlannedStep(Record):
    """The days of tables that are built together. ``kind`` is ``take in`` for raw: rows are appended, not replaced.

    The last fields are of a run in the foreground.
    """

    tables: tuple[str, ...]
    version: str
    cadence: Cadence = Cadence.DAILY
    kind: Literal["rebuild", "take in"] = "rebuild"
    rebuild: Mapping[Cause, Ranges] = Field(default_factory=dict)
    skipped: Ranges = ()
    """Fresh, and nothing they are computed from is rebuilt."""
    estimate: Estimate = Estimate()
    later: Ranges = Field(default=(), exclude_if=not_)
    """Days that were not asked for, and look back to those that were: each is built as it was published."""
    earlier: Ranges = Field(default=(), exclude_if=not_)
    """Days that were not asked for, and that others look back to: each is built as it was published, if it was."""
    to_ingest: Mapping[date, int] = Field(default_factory=dict, exclude_if=not_)
    """Of a raw table: how many landed files are to be ingested, by arrival day."""
    source_files: Mapping[date, SourceFiles] = Field(default_factory=dict, exclude_if=not_)
    """Of a raw table that is refreshed: the arrival days whose files differ from those that it has read."""

    @property
    def name(self) -> str:
        return self.tables[0]

    @property
    def why(self) -> Mapping[date, Cause]:
        """The days to rebuild, ascending, with the reason of each."""
        found = {day: why for why, ranges in self.rebuild.items() for day in days_of(ranges)}
        return dict(sorted(found.items()))

    @property
    def days(self) -> tuple[date, ...]:
        return tuple(self.why)

    @property
    def all_days(self) -> list[date]:
        """Those to rebuild and those that are skipped, ascending."""
        return sorted([*self.why, *days_of(self.skipped)])


class Pinned(Record):
    """An input that the plan does not rebuild: the version to read it at, and the days that are read of it."""

    table: str
    version: int | None
    days: Ranges
    files_may_go: datetime | None = None
    """From then on files of that version may be reclaimed; None while all of them are in main."""
    absent: Ranges = Field(default=(), exclude_if=not_)
    """Those of ``days`` that were never published, of a table that has other days."""
    in_place: str = Field(default="", exclude_if=not_)
    """Of a table of others, which version of it is read, and how far back its own history goes."""


class Lookback(Record):
    """Reference data that a step looks back for: the days it will read, and those it will not find."""

    step: str
    table: str
    first: int
    last: int
    """Offsets in days, from the day that is built."""
    days: Ranges
    absent: Ranges = ()
    states: Mapping[str, Ranges] = Field(default_factory=dict, exclude_if=not_)
    """Of what is read as of a day: by the day that counts, the days that read it."""


class PlannedBoundary(Record):
    """Days that the plan reads, and up to where the topics that they came from had been read by then."""

    tables: tuple[str, ...]
    days: Ranges
    raw: str
    versions: tuple[int, ...]
    """Of the raw table, ascending: the positions are those of the least of them."""
    positions: tuple[PartitionPosition, ...]


class PlanFinding(Record):
    """A problem that was found before anything was done; one that ``stops`` must be fixed first."""

    kind: str
    severity: Literal["stops", "warns"]
    message: str
    next_step: str
    table: str = ""
    days: Ranges = ()


class Recommended(Record):
    """The scope that fits what has changed."""

    scope: Scope
    because: str


class Cost(Record):
    """All steps together. ``unknown`` lists those without a timed day: ``time`` leaves them out, or is None."""

    time: Span | None = None
    cores: int = 1
    price_per_core_hour: Decimal | None = None
    unknown: tuple[str, ...] = ()

    @property
    def core_seconds(self) -> float | None:
        return None if self.time is None else self.time.median * self.cores

    @property
    def money(self) -> Decimal | None:
        return None if self.time is None else self.price_of(self.time.median)

    def price_of(self, seconds: float) -> Decimal | None:
        """What so many seconds on all cores cost; None without a price."""
        if self.price_per_core_hour is None:
            return None
        hours = Decimal(str(seconds * self.cores)) / 3600
        return (hours * self.price_per_core_hour).quantize(Decimal("0.0001"))


class PlanFingerprint(Record):
    """What the plan was computed from: if it moves, the plan is to be made again."""

    sequence: int = -1
    """The entry of the publication log."""
    versions: Mapping[str, int] = Field(default_factory=dict)
    written: Fingerprints = Field(default_factory=dict)
    """Content and inputs of the days that are rebuilt or skipped."""
    read: Fingerprints = Field(default_factory=dict)
    """Content of the days that are read and not rebuilt."""
    code: Mapping[str, str] = Field(default_factory=dict)
    """The version of each step's logic."""
    landed: Fingerprints = Field(default_factory=dict)
    """Files that were not taken in, by raw table and arrival day."""


class Plan(Record):
    """``steps`` are in build order; tables and days are named as they are everywhere."""

    asked: PlanRequest
    steps: tuple[PlannedStep, ...]
    pinned: tuple[Pinned, ...] = ()
    as_of: tuple[Lookback, ...] = ()
    boundaries: tuple[PlannedBoundary, ...] = Field(default=(), exclude_if=not_)
    """Of the days that are read and come from a stream."""
    findings: tuple[PlanFinding, ...] = ()
    recommended: Recommended | None = None
    """None when nothing has changed."""
    cost: Cost = Cost()
    times: Mapping[str, Span | None] = Field(default_factory=dict)
    """How long each step of the campaign takes; empty if nothing is rebuilt."""
    code: tuple[CodeChange, ...] = Field(default=(), exclude_if=not_)
    """What changed in the logic since the days to rebuild were published."""
    rollback_window_days: int = 30
    basis: PlanFingerprint = PlanFingerprint()
    made_at: datetime

    @property
    def id(self) -> str:
        """The same for the same content, found in any order and at any time."""
        # How busy the machine was does not make it another plan.
        content = self.model_dump(mode="json", exclude={"made_at", "times", "code"})
        text = json.dumps(_canonical(content), sort_keys=True)
        return f"plan-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def terms(self) -> PlanTerms:
        return self.asked.terms

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        return self.asked.expectations

    @property
    def stopped(self) -> bool:
        """Is there a finding that must be fixed first?"""
        return any(finding.severity == "stops" for finding in self.findings)

    def command(self, *instead: str) -> str:
        """The command that asks for the same again, with the expectations ``instead`` of its own if there are any.

        A file has what came from a file. A plan that leaves days out is that of a timeline, which does not hold them.
        """
        if not self.terms.empty:
            return "backfill plan -f FILE"
        asked = self.asked
        expected = instead or [*map(str, asked.expectations)]
        expectations = [word for each in expected for word in ("--expect", each)]
        if asked.leaves:
            return shlex.join(["backfill", "timeline", "publish", "TIMELINE", *expectations])
        scope = "" if asked.scope is Scope.ONWARDS else asked.scope.value
        options = {"--days": asked.days, "--version": asked.version, "--scope": scope}
        words = [word for name, value in options.items() if value for word in (name, value)]
        words += ["--force"] if asked.force else []
        return shlex.join(["backfill", "plan", asked.target, *words, *expectations])

    @property
    def rebuilds(self) -> dict[str, tuple[date, ...]]:
        """The days to rebuild of every table that has any, in build order."""
        return {table: step.days for step in self.steps if step.rebuild for table in step.tables}

    def cadence(self, table: str) -> Cadence:
        """How long the periods of ``table`` are; days of one that is no part of the plan are days."""
        return next((step.cadence for step in self.steps if table in step.tables), Cadence.DAILY)

    def scope_of(self, days: Mapping[str, Iterable[str]]) -> str:
        """``12 days, 2 weeks and 1 month in 5 tables``, of ranges of days by table."""
        return format_scope((self.cadence(table), days_of(ranges)) for table, ranges in days.items())

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, *, id: str | None = None) -> Plan:
        """Raises :class:`InvalidRequest` when ``text`` is no plan, or was changed and is not the one called ``id``."""
        try:
            plan = cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
            raise InvalidRequest(
                f"What is kept as {id or 'a plan'} cannot be read: {what}.",
                hint="A newer backfill made it, or its file was changed: use the newer one, or make the plan again.",
            ) from error
        if id is not None and plan.id != id:
            raise InvalidRequest(f"What is kept as {id} is {plan.id}: it was changed.", hint="Make the plan again.")
        return plan


def as_ranges(days: Iterable[date]) -> Ranges:
    return tuple(map(format_range, contiguous(days)))


def days_of(ranges: Iterable[str]) -> list[date]:
    return [day for text in ranges for day in DayRange.parse(text)]


def _canonical(value: Any) -> Any:
    """Every list in a plan is a set: the order of steps follows from what they read."""
    if isinstance(value, dict):
        return {key: _canonical(each) if isinstance(each, dict | list) else each for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_canonical(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value
