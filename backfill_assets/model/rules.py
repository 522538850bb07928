"""What can be demanded of a whole day of a table, as data. ``quality`` knows how each is measured and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Literal

from backfill_assets.model.declaration import OWN, DayRule, Dimension, Severity, Source

_RECEIVED = ("received", "content_hash_sum")
_DEDUPLICATED = ("deduplicated", "deduplicated_hash_sum")
_SUPERSEDED = ("superseded", "superseded_hash_sum")


@dataclass(frozen=True)
class ContentIntact(DayRule):
    """The content hashes that rows carry are those of their content."""

    source: Source
    form: Literal["text", "values"]
    name_format: ClassVar[str] = "content_intact"
    dimension: ClassVar[Dimension] = "consistency"

    @property
    def columns(self) -> tuple[str, ...]:
        landed = () if self.form == "values" else ("unparsed_line", "source_file")
        return (*self.source.columns, "content_hash", *landed)

    @property
    def measures(self) -> tuple[str, ...]:
        received = () if self.form == "values" else ("received",)
        return (*received, "content_hash_sum", "recomputed_hash_sum")


@dataclass(frozen=True)
class EverythingAccountedFor(DayRule):
    """Raw equals winners, quarantined and deduplicated rows, by count and by the sum of content hashes."""

    raw: str
    quarantine: str
    name_format: ClassVar[str] = "everything_accounted_for"
    dimension: ClassVar[Dimension] = "completeness"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("content_hash", "deduplicated_rows", "deduplicated_hash", "superseded_by_day")

    @property
    def measures(self) -> tuple[str, ...]:
        return (*_DEDUPLICATED, *_SUPERSEDED)

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return {OWN: ("recomputed_hash_sum",), self.raw: _RECEIVED, self.quarantine: ("content_hash_sum",)}


@dataclass(frozen=True)
class EverythingPublished(DayRule):
    """Raw equals fact, quarantined, deduplicated and superseded rows, by count and by the sum of content hashes."""

    source: Source
    raw: str
    bronze: str
    quarantine: str
    name_format: ClassVar[str] = "everything_published"
    dimension: ClassVar[Dimension] = "completeness"

    @property
    def columns(self) -> tuple[str, ...]:
        return self.source.columns

    @property
    def measures(self) -> tuple[str, ...]:
        return ("recomputed_hash_sum",)

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        winners = (*_DEDUPLICATED, *_SUPERSEDED)
        return {self.raw: _RECEIVED, self.bronze: winners, self.quarantine: ("content_hash_sum",)}


@dataclass(frozen=True)
class FewRejected(DayRule):
    """No more than a share of what was received is quarantined; a few rows are always tolerated."""

    raw: str
    quarantine: str
    at_most: Decimal
    tolerated_rows: int = 0
    name_format: ClassVar[str] = "few_rejected"
    dimension: ClassVar[Dimension] = "validity"

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return {self.raw: ("received",)}


@dataclass(frozen=True)
class FewDuplicates(DayRule):
    """No more than a share of the rows give way to one of equal key and version; a few are always tolerated.

    A newer version may replace an older one. A row that gives way to one of the same version was delivered twice, or
    the key is none, and rows are lost by it.
    """

    source: Source
    raw: str
    quarantine: str
    at_most: Decimal
    tolerated_rows: int = 0
    name_format: ClassVar[str] = "few_duplicates"
    dimension: ClassVar[Dimension] = "uniqueness"

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return {OWN: ("deduplicated",), self.raw: ("received",)}

    def most(self, received: int) -> int:
        """How many of ``received`` rows may give way."""
        return int(max(Decimal(self.tolerated_rows), received * self.at_most))


@dataclass(frozen=True)
class RatesFound(DayRule):
    """Every line has an exchange rate; the transform leaves it out if the last one is too old."""

    rate: str
    currency: str
    within_days: int
    name_format: ClassVar[str] = "rates_found"
    dimension: ClassVar[Dimension] = "completeness"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.rate, self.currency)


@dataclass(frozen=True)
class ConvertedExactly(DayRule):
    """Every converted amount is the amount divided by the rate beside it, to half of the last digit."""

    amount: str
    rate: str
    converted: str
    digits: int
    """After the decimal point of ``converted``."""
    name_format: ClassVar[str] = "converted_exactly_{converted}"
    dimension: ClassVar[Dimension] = "consistency"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.amount, self.rate, self.converted)


@dataclass(frozen=True)
class FewNulls(DayRule):
    """No more than a share of a column is null."""

    column: str
    at_most: Decimal
    name_format: ClassVar[str] = "few_nulls_{column}"
    dimension: ClassVar[Dimension] = "completeness"


@dataclass(frozen=True)
class FewUnknown(DayRule):
    """The share of lines that the reference data does not know is not far above what is usual."""

    column: str
    unknown: str
    """The value of ``column`` that stands for what is not known."""
    lines: str
    """The column that says how many lines a row stands for."""
    baseline: Decimal
    """The usual share."""
    times: int = 4
    tolerated_lines: int = 20
    name_format: ClassVar[str] = "few_unknown_{column}"
    dimension: ClassVar[Dimension] = "validity"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, self.lines)


@dataclass(frozen=True)
class TotalAgrees(DayRule):
    """The total of a column equals a total of the table it is made from, to the last digit."""

    column: str
    fact: str
    fact_total: str
    """A column among the ``totals`` of ``fact``, or ``rows``."""
    name_format: ClassVar[str] = "total_agrees_{column}"
    dimension: ClassVar[Dimension] = "consistency"

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        fact = () if self.fact_total == "rows" else (f"total_{self.fact_total}",)
        return {OWN: (f"total_{self.column}",), self.fact: fact}


@dataclass(frozen=True)
class VolumeWithin(DayRule):
    """The number of rows lies in a wide band: a day without sales passes, a day that was lost or doubled does not."""

    at_most: int
    made_of: str | None = None
    """A table that gives at least one row here if it has any, and never more rows than it has."""
    name_format: ClassVar[str] = "volume_within"
    dimension: ClassVar[Dimension] = "completeness"


@dataclass(frozen=True)
class ArrivedWithin(DayRule):
    """No more than a share of the rows landed later than some days after their day; a few are always tolerated."""

    days: int
    at_most: Decimal
    tolerated_rows: int = 0
    severity: Severity = "warning"
    """Late rows are rows: they are published unless a dataset says that they must not be."""
    name_format: ClassVar[str] = "arrived_within"
    dimension: ClassVar[Dimension] = "timeliness"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("arrival_day",)


@dataclass(frozen=True)
class RecentReference(DayRule):
    """No row was made with reference data older than some days; what is usual between two deliveries is allowed."""

    column: str
    """The day that the reference data is from; null where there is none, which is for another rule to say."""
    within_days: int
    severity: Severity = "warning"
    name_format: ClassVar[str] = "recent_{column}"
    dimension: ClassVar[Dimension] = "timeliness"
