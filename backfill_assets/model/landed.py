"""What every dataset that lands files has in common: its raw, bronze and quarantine tables, from one declaration.

A dataset declares its source, and what a sound row is (a typed contract). Everything else about these three tables
follows: the columns that ingestion adds, those that account for every row, and the rules that hold for each table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field, once
from backfill_assets.model.declaration import Source, Step, Table, Version
from backfill_assets.model.rules import (
    ArrivedWithin,
    ContentIntact,
    EverythingAccountedFor,
    FewDuplicates,
    FewRejected,
    VolumeWithin,
)

_HASH = "XXH64 over the landed fields; equal for text and typed values."
_FILE = "The landed file, relative to the landing zone"
ARRIVES_WITHIN_A_WEEK = ArrivedWithin(days=7, at_most=Decimal("0.05"), tolerated_rows=20)
OCCURRENCE = "occurrence"
"""The column that numbers identical lines, and the name by which a key asks for it."""
_ACCOUNTING = ("deduplicated_rows", "deduplicated_hash")
_DAY = "The event day: the day that the row belongs to."


class Kept(Contract):
    """What the declared fields do not hold is kept beside them."""

    rescued: T.StringType = Field(nullable=True, description="Unknown fields, as a JSON object.")
    unparsed_line: T.StringType = Field(nullable=True, description="The line, if it is not one JSON object.")


class RawColumns(Kept):
    """What ingestion adds to the landed fields, and to the markers of newer versions that belong to another day."""

    record_kind: T.StringType = Field(isin=["received", "supersession"], description="A landed row, or a marker.")
    source_file: T.StringType = Field(nullable=True, description=f"{_FILE}; null for a marker.")
    source_line: T.LongType = Field(nullable=True, ge=1, description="Its line in the file, from 1.")
    arrival_day: T.DateType = Field(nullable=True, description="The day it was landed.")
    day_is_arrival: T.BooleanType = Field(description="The event day is unreadable or absurd.")
    content_hash: T.LongType = Field(description=_HASH)
    superseded_by_day: T.DateType = Field(nullable=True, description="Markers: the day of the newer version.")
    day: T.DateType = Field(description=_DAY)


class QuarantineColumns(Kept):
    """Where a rejected row was landed, and every reason why it was rejected."""

    source_file: T.StringType = Field(description=f"{_FILE}.")
    source_line: T.LongType = Field(ge=1, description="Its line in the file, from 1.")
    arrival_day: T.DateType = Field(description="The day it was landed.")
    content_hash: T.LongType = Field(description=_HASH)
    reasons: T.ArrayType(T.StringType()) = Field(  # type: ignore[valid-type]
        description="Everything that is wrong with it."
    )
    day: T.DateType = Field(description=_DAY)


class BronzeColumns(Contract):
    """Where the winner of a key and day was landed, and an account of the rows it won over.

    Name it before the typed contract, ``class BronzeSales(BronzeColumns, TypedSales)``: its columns then come last.
    """

    content_hash: T.LongType = Field(description="As computed from the landed text.")
    source_file: T.StringType = Field(description=f"{_FILE}.")
    source_line: T.LongType = Field(ge=1, description="Its line in the file, from 1.")
    arrival_day: T.DateType = Field(description="The day it was landed.")
    deduplicated_rows: T.LongType = Field(ge=0, description="Other sound rows of this key and day.")
    deduplicated_hash: Annotated[T.DecimalType, 38, 0] = Field(description="The sum of their content hashes.")
    superseded_by_day: T.DateType = Field(nullable=True, description="A newer version belongs to this day.")
    day: T.DateType = Field(description=_DAY)


class Occurrence(Contract):
    """The number of a row among identical lines, for sources without a key of their own.

    Name it between, ``class BronzeVisits(BronzeColumns, Occurrence, TypedVisits)``, and in the key as ``occurrence``.
    """

    occurrence: T.LongType = Field(ge=1, description="Among identical lines of the day, by file and line, from 1.")


@once
def raw_contract(source: Source, typed: type[Contract] | None = None) -> type[Contract]:
    """Everything received: the landed fields as text, described as in ``typed``, then :class:`RawColumns`."""
    return _landed_contract("Raw", source, typed, RawColumns)


@once
def quarantine_contract(source: Source, typed: type[Contract] | None = None) -> type[Contract]:
    """Rejected rows: the landed fields as text, described as in ``typed``, then :class:`QuarantineColumns`."""
    return _landed_contract("Quarantine", source, typed, QuarantineColumns)


def landed_steps(
    source: Source,
    bronze: type[Contract],
    *,
    rows: str,
    key: tuple[str, ...],
    versions: tuple[Version, ...],
    current: str,
    most_rows: int,
    tolerated_rejects: int,
    most_rejected: Decimal = Decimal("0.2"),
    made_of: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    most_duplicates: Decimal = Decimal(0),
    tolerated_duplicates: int = 0,
    arrives: ArrivedWithin = ARRIVES_WITHIN_A_WEEK,
    totals: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
) -> tuple[Step, Step]:
    """The steps of ``raw_<source>``, and of ``bronze_<source>`` with ``quarantine_<source>``, and all their rules.

    ``rows`` says in the plural what a row is; a day has at most ``most_rows``. A day whose share of rejected rows is
    above ``most_rejected`` is not published, unless they are no more than ``tolerated_rejects``. The same holds for
    rows that give way to one of equal key and version, with ``most_duplicates`` and ``tolerated_duplicates``: a source
    that delivers lines twice declares how many. ``arrives`` says how late rows may land before people are warned.
    ``totals`` and ``groups`` are those of bronze.
    """
    volume = VolumeWithin(at_most=most_rows)
    raw = Table(
        name=f"raw_{source.name}",
        layer="raw",
        description=f"All {rows} received, as text, on the day they belong to{_tokens(source)}.",
        contract=raw_contract(source, bronze),
        key=(),
        # Raw ingests what arrives, however late: a late row is reported, and never kept out.
        rules=(ContentIntact(source, "text"), volume, replace(arrives, severity="warning")),
    )
    quarantine = Table(
        name=f"quarantine_{source.name}",
        layer="quarantine",
        description=f"Rejected {rows} as they were landed, with file, line and every reason.",
        contract=quarantine_contract(source, bronze),
        key=("source_file", "source_line"),
        made_of={"reasons": tuple(f"{raw.name}.{name}" for name in (*source.columns, "unparsed_line"))},
        rules=(ContentIntact(source, "text"),),
    )
    accounted = Table(
        name=f"bronze_{source.name}",
        layer="bronze",
        description=f"Typed, sound {rows}: the newest version of each {' and '.join(key)} on each day.",
        contract=bronze,
        key=key,
        totals=totals,
        groups=groups,
        made_of={**dict.fromkeys(_computed(key), (f"{raw.name}.content_hash",)), **made_of},
        rules=(
            ContentIntact(source, "values"),
            EverythingAccountedFor(raw=raw.name, quarantine=quarantine.name),
            FewRejected(raw.name, quarantine.name, at_most=most_rejected, tolerated_rows=tolerated_rejects),
            FewDuplicates(source, raw.name, quarantine.name, most_duplicates, tolerated_duplicates),
            volume,
            arrives,
        ),
    )
    return Step((raw,), source=source), Step((accounted, quarantine), versions, current)


def _computed(key: tuple[str, ...]) -> tuple[str, ...]:
    return (*_ACCOUNTING, OCCURRENCE) if OCCURRENCE in key else _ACCOUNTING


def _landed_contract(kind: str, source: Source, typed: type[Contract] | None, added: type[Contract]) -> type[Contract]:
    fields: dict[str, Any] = {
        name: Field(nullable=True, description=text) for name, text in _described(source, typed).items()
    }
    annotations = dict.fromkeys(fields, T.StringType)
    name = "".join(part.capitalize() for part in source.name.split("_"))
    landed = type(f"Landed{name}", (Contract,), {**fields, "__annotations__": annotations, "__module__": __name__})
    return type(f"{kind}{name}", (added, landed), {"__doc__": added.__doc__, "__module__": __name__})


def _described(source: Source, typed: type[Contract] | None) -> dict[str, str | None]:
    columns = typed.fields() if typed else {}
    return {name: columns[name].description if name in columns else None for name in source.columns}


def _tokens(source: Source) -> str:
    personal = " and ".join(source.personal_fields)
    return f"; a token stands for each {personal}" if personal else ""
