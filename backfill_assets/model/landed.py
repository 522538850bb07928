"""Contracts of raw, bronze and quarantine: every row is accounted for."""

from __future__ import annotations

from typing import Annotated, Any

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field, once, spark_types
from backfill_assets.model.declaration import Source
from backfill_assets.model.deletion import DELETION

_HASH = "XXH64 over the landed fields; equal for text and typed values."
_FILE = "The landed file, relative to the landing zone; of an event kafka:<topic>/<partition>"
_LINE = "Its line in the file, from 1; of an event its offset, from 0."
_DAY = "The event day: the day that the row belongs to."


class Kept(Contract):
    """Keeps what declared fields do not hold."""

    rescued: T.StringType = Field(nullable=True, description="Unknown fields, as a JSON object.")
    unparsed_line: T.StringType = Field(nullable=True, description="The line, if it is not one JSON object.")


class RawColumns(Kept):
    """What ingestion adds to the landed fields, to markers of newer versions on another day, and to deletions."""

    record_kind: T.StringType = Field(
        isin=["received", "supersession", DELETION], description="A landed row, a marker, or a deletion of one of them."
    )
    source_file: T.StringType = Field(
        nullable=True, description=f"{_FILE}; null for a marker. Deletions: that of the deleted row."
    )
    source_line: T.LongType = Field(nullable=True, ge=0, description=_LINE)
    arrival_day: T.DateType = Field(nullable=True, description="The day it was landed; null if it was not received.")
    day_is_arrival: T.BooleanType = Field(description="The event day is unreadable or absurd.")
    content_hash: T.LongType = Field(description=_HASH)
    superseded_by_day: T.DateType = Field(nullable=True, description="Markers: the day of the newer version.")
    day: T.DateType = Field(description=_DAY)


class QuarantineColumns(Kept):
    """Where a rejected row was landed, and every reason why it was rejected."""

    source_file: T.StringType = Field(description=f"{_FILE}.")
    source_line: T.LongType = Field(ge=0, description=_LINE)
    arrival_day: T.DateType = Field(description="The day it was landed.")
    content_hash: T.LongType = Field(description=_HASH)
    reasons: T.ArrayType(T.StringType()) = Field(  # type: ignore[valid-type]
        description="Everything that is wrong with it."
    )
    day: T.DateType = Field(description=_DAY)


class BronzeColumns(Contract):
    """Where the winner of a key and day landed; an account of those it won over."""

    content_hash: T.LongType = Field(description="As computed from the landed text.")
    source_file: T.StringType = Field(description=f"{_FILE}.")
    source_line: T.LongType = Field(ge=0, description=_LINE)
    arrival_day: T.DateType = Field(description="The day it was landed.")
    deduplicated_rows: T.LongType = Field(ge=0, description="Other sound rows of this key and day.")
    deduplicated_hash: Annotated[T.DecimalType, 38, 0] = Field(description="The sum of their content hashes.")
    superseded_by_day: T.DateType = Field(nullable=True, description="A newer version belongs to this day.")
    day: T.DateType = Field(description=_DAY)


class Occurrence(Contract):
    """Numbers identical lines, for sources without a key."""

    occurrence: T.LongType = Field(ge=1, description="Among identical lines of the day, by file and line, from 1.")


@once
def raw_contract(source: Source, typed: type[Contract] | None = None) -> type[Contract]:
    return _landed_contract("Raw", source, typed, RawColumns)


def raw_schema(source: Source) -> T.StructType:
    contract = raw_contract(source)
    types = spark_types(contract)
    return T.StructType([T.StructField(name, types[name], each.nullable) for name, each in contract.fields().items()])


@once
def quarantine_contract(source: Source, typed: type[Contract] | None = None) -> type[Contract]:
    return _landed_contract("Quarantine", source, typed, QuarantineColumns)


@once
def bronze_contract(source: str, row: type[Contract], *, numbered: bool = False) -> type[Contract]:
    bases = (BronzeColumns, Occurrence, row) if numbered else (BronzeColumns, row)
    return type(f"Bronze{_camel(source)}", bases, {"__doc__": row.__doc__, "__module__": row.__module__})


def _landed_contract(kind: str, source: Source, typed: type[Contract] | None, added: type[Contract]) -> type[Contract]:
    fields: dict[str, Any] = {
        name: Field(nullable=True, description=text) for name, text in _described(source, typed).items()
    }
    annotations = dict.fromkeys(fields, T.StringType)
    name = _camel(source.name)
    landed = type(f"Landed{name}", (Contract,), {**fields, "__annotations__": annotations, "__module__": __name__})
    return type(f"{kind}{name}", (added, landed), {"__doc__": added.__doc__, "__module__": __name__})


def _described(source: Source, typed: type[Contract] | None) -> dict[str, str | None]:
    columns = typed.fields() if typed else {}
    return {name: columns[name].description if name in columns else None for name in source.columns}


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
