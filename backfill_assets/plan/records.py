"""A plan: which days of which tables are rebuilt and why, from what, at what cost, and what blocks it.

Its id hashes its content: an approved id stands for exactly this.
"""

from __future__ import annotations

import enum
import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from operator import not_
from statistics import median, quantiles
from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from backfill_assets.days import Cadence, DayRange, contiguous
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import PartitionPosition, Record
from backfill_assets.plan.code_change import CodeChange
from backfill_assets.plan.expectations import Expectation
from backfill_assets.state.diagnosis import Cause
from backfill_assets.text import UNKNOWN, format_duration, format_range, format_scope

Ranges = tuple[str, ...]
"""The fewest ranges, ``A..B`` or ``A``; for weekly and monthly tables first days of periods."""
Fingerprints = Mapping[str, Mapping[str, str]]


class Scope(enum.StrEnum):
    """How much of the pipeline is rebuilt."""

    SOURCE = "source"
    """Reads landed files again, then does WHOLE."""
    WHOLE = "whole"
    """The table's inputs, the table, and what is computed from it."""
    ONWARDS = "onwards"
    DOWNSTREAM = "downstream"
    """Only what is computed from the table."""


class PlanTerms(Record):
    """How a plan is to be carried out, by its file; part of its id."""

    title: str = Field(default="", exclude_if=not_)
    reason: str = Field(default="", exclude_if=not_)
    waves: str = Field(default="", exclude_if=not_)
    """Format of :class:`~backfill_assets.plan.waves.Shares`."""
    limits: str = Field(default="", exclude_if=not_)
    """Defaults included: a later default changes no plan."""
    approvers: tuple[str, ...] = Field(default=(), exclude_if=not_)
    approvals: int = Field(default=1, exclude_if=lambda number: number == 1)
    notices: tuple[str, ...] = Field(default=(), exclude_if=not_)

    @property
    def empty(self) -> bool:
        return self == NO_TERMS


NO_TERMS = PlanTerms()


class PlanRequest(Record):
    target: str
    days: str
    version: str = ""
    """For the target's logic; empty for the current one."""
    scope: Scope = Scope.ONWARDS
    force: bool = False
    leaves: Ranges = Field(default=(), exclude_if=not_)
    """Days within ``days`` that are left out, as main has them."""
    expectations: tuple[Expectation, ...] = Field(default=(), exclude_if=not_)
    """Judged before the approval."""
    where: str = Field(default="", exclude_if=not_)
    """Compute only these rows of the target's days, and carry the others over: a text of a
    :class:`~backfill_assets.model.row_filter.RowFilter`.
    """
    newest_first: bool = Field(default=False, exclude_if=not_)
    """Chunks of days go from the newest to the oldest, and no day waits in its wave for one that it looks back to."""
    terms: PlanTerms = Field(default=NO_TERMS, exclude_if=lambda terms: terms.empty)


class Span(Record):
    """Seconds: median, lower and upper tenth of earlier times."""

    median: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Span | None:
        if not seconds:
            return None
        tenths = quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else [*seconds]
        found = {"median": median(seconds), "low": tenths[0], "high": tenths[-1]}
        return cls(**{name: round(value, 2) for name, value in found.items()}, samples=len(seconds))

    def __add__(self, other: Span) -> Span:
        return Span(
            median=round(self.median + other.median, 2),
            low=round(self.low + other.low, 2),
            high=round(self.high + other.high, 2),
            samples=min(self.samples, other.samples),
        )


def about(time: Span | None) -> str:
    """``about 14 s (8.0 s to 20 s)``, or ``unknown``."""
    if time is None:
        return UNKNOWN
    spread = f" ({format_duration(time.low)} to {format_duration(time.high)})" if time.low < time.high else ""
    return f"about {format_duration(time.median)}{spread}"


class Estimate(Record):
    rows_read: int | None = 0
    bytes_read: int | None = 0
    rows_written: int | None = None
    bytes_written: int | None = None
    time: Span | None = None
    """From published days whose staging was timed."""


class SourceFiles(Record):
    """Numbers of landed files of an arrival day that differ from what raw has read."""

    changed: int = 0
    gone: int = 0
    new: int = 0


class PlannedStep(Record):
    """Days of tables that are built together. ``take in`` is for raw, which is appended to.

    Only runs in the foreground use ``later``, ``earlier`` and ``to_ingest``.
    """

    tables: tuple[str, ...]
    version: str
    cadence: Cadence = Cadence.DAILY
    kind: Literal["rebuild", "take in"] = "rebuild"
    rebuild: Mapping[Cause, Ranges] = Field(default_factory=dict)
    skipped: Ranges = ()
    """Fresh days without rebuilt inputs."""
    estimate: Estimate = Estimate()
    later: Ranges = Field(default=(), exclude_if=not_)
    """Days outside the request that look back to it: built as published."""
    earlier: Ranges = Field(default=(), exclude_if=not_)
    """Days outside the request that it looks back to: built as published, if they were."""
    to_ingest: Mapping[date, int] = Field(default_factory=dict, exclude_if=not_)
    """Number of files of raw, by arrival day."""
    source_files: Mapping[date, SourceFiles] = Field(default_factory=dict, exclude_if=not_)
    """Arrival days of raw whose files differ from what it has read."""

    @property
    def name(self) -> str:
        return self.tables[0]

    @property
    def why(self) -> Mapping[date, Cause]:
        found = {day: why for why, ranges in self.rebuild.items() for day in days_of(ranges)}
        return dict(sorted(found.items()))

    @property
    def days(self) -> tuple[date, ...]:
        return tuple(self.why)

    @property
    def all_days(self) -> list[date]:
        return sorted([*self.why, *days_of(self.skipped)])


class Pinned(Record):
    table: str
    version: int | None
    days: Ranges
    files_may_go: datetime | None = None
    """When files of that version may be reclaimed; None while all are in main."""
    absent: Ranges = Field(default=(), exclude_if=not_)
    """Days among ``days`` that were never published."""
    in_place: str = Field(default="", exclude_if=not_)
    """For a table of others: the version read, and how far back its own history goes."""


class Lookback(Record):
    """Reference data that a step looks back for."""

    step: str
    table: str
    first: int
    """Offset in days from the day that is built; so is ``last``."""
    last: int
    days: Ranges
    absent: Ranges = ()
    states: Mapping[str, Ranges] = Field(default_factory=dict, exclude_if=not_)
    """For ``AsOf``: by the day that is read, the days that read it."""


class Ahead(Record):
    """Rebuilt days of ``table`` that days of ``step`` look back to: they come before those, newest first or not."""

    step: str
    table: str
    days: Ranges


class PlannedBoundary(Record):
    """Days that the plan reads, and up to where their topics had been read."""

    tables: tuple[str, ...]
    days: Ranges
    raw: str
    versions: tuple[int, ...]
    """Versions of the raw table, ascending; ``positions`` are those of the least."""
    positions: tuple[PartitionPosition, ...]


class PlanFinding(Record):
    kind: str
    severity: Literal["stops", "warns"]
    message: str
    next_step: str
    table: str = ""
    days: Ranges = ()


class Recommended(Record):
    scope: Scope
    because: str


class Cost(Record):
    """All steps together. ``unknown``: steps without a timed day, which ``time`` leaves out."""

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
        if self.price_per_core_hour is None:
            return None
        hours = Decimal(str(seconds * self.cores)) / 3600
        return (hours * self.price_per_core_hour).quantize(Decimal("0.0001"))


class PlanFingerprint(Record):
    sequence: int = -1
    """Publication log entry."""
    versions: Mapping[str, int] = Field(default_factory=dict)
    written: Fingerprints = Field(default_factory=dict)
    """Content and inputs of days that are rebuilt or skipped."""
    read: Fingerprints = Field(default_factory=dict)
    """Content of days that are read and not rebuilt."""
    code: Mapping[str, str] = Field(default_factory=dict)
    """Version by step."""
    landed: Fingerprints = Field(default_factory=dict)
    """Files not ingested."""


class Plan(Record):
    asked: PlanRequest
    steps: tuple[PlannedStep, ...]
    """In build order."""
    pinned: tuple[Pinned, ...] = ()
    as_of: tuple[Lookback, ...] = ()
    boundaries: tuple[PlannedBoundary, ...] = Field(default=(), exclude_if=not_)
    ahead: tuple[Ahead, ...] = Field(default=(), exclude_if=not_)
    """Only of plans that go newest first."""
    findings: tuple[PlanFinding, ...] = ()
    recommended: Recommended | None = None
    """None if nothing has changed."""
    cost: Cost = Cost()
    times: Mapping[str, Span | None] = Field(default_factory=dict)
    """By step of the campaign; empty if nothing is rebuilt."""
    code: tuple[CodeChange, ...] = Field(default=(), exclude_if=not_)
    rollback_window_days: int = 30
    basis: PlanFingerprint = PlanFingerprint()
    made_at: datetime

    def __copy__(self) -> Self:
        """What is changed in a copy has another id."""
        copied = super().__copy__()
        vars(copied).pop("id", None)
        return copied

    @cached_property
    def id(self) -> str:
        """Independent of order, time of planning and timings."""
        # Timings of earlier campaigns do not make it another plan.
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
        return any(finding.severity == "stops" for finding in self.findings)

    def command(self, *instead: str) -> str:
        """The command that makes this plan again; ``instead`` replaces its expectations. ``leaves`` come from
        publishing a timeline.
        """
        if not self.terms.empty:
            return "backfill plan -f FILE"
        asked = self.asked
        expected = instead or [*map(str, asked.expectations)]
        expectations = [word for each in expected for word in ("--expect", each)]
        if asked.leaves:
            return shlex.join(["backfill", "timeline", "publish", "TIMELINE", *expectations])
        scope = "" if asked.scope is Scope.ONWARDS else asked.scope.value
        options = {"--days": asked.days, "--version": asked.version, "--scope": scope, "--where": asked.where}
        words = [word for name, value in options.items() if value for word in (name, value)]
        words += ["--force"] * asked.force + ["--newest-first"] * asked.newest_first
        return shlex.join(["backfill", "plan", asked.target, *words, *expectations])

    @property
    def rebuilds(self) -> dict[str, tuple[date, ...]]:
        """Days to rebuild by table, in build order."""
        return {table: step.days for step in self.steps if step.rebuild for table in step.tables}

    def cadence(self, table: str) -> Cadence:
        return next((step.cadence for step in self.steps if table in step.tables), Cadence.DAILY)

    def scope_of(self, days: Mapping[str, Iterable[str]]) -> str:
        """``12 days, 2 weeks and 1 month in 5 tables``"""
        return format_scope((self.cadence(table), days_of(ranges)) for table, ranges in days.items())

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, *, id: str | None = None) -> Plan:
        """Raises :class:`InvalidRequest` for no plan, or another than ``id``."""
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
