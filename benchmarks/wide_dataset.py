"""A generated dataset with as many typed fields as wanted, and the lines that it lands."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Dataset, Reads, Source, Version
from backfill_assets.model.landed import BronzeColumns, landed_steps
from backfill_assets.model.refinement import Refinement, refined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAY = date(2024, 3, 1)
KEY = "reading_id"
_MOMENT, _SENT = "measured_at", "sent_at"
_TYPES = ("bigint", "decimal(12,2)", "timestamp", "date", "string")


def wide_dataset(fields: int) -> Dataset:
    """A dataset whose source lands a key and ``fields`` other fields of all types, every other one nullable."""
    source = wide_source(fields)
    typed = _contract(source)
    bronze = type(f"BronzeWide{fields}", (BronzeColumns, typed), {"__module__": __name__})
    transform = partial(_refined, Refinement(source, bronze, key=(KEY,)))
    return Dataset(
        name=source.name,
        description=f"{fields} generated fields.",
        owners=("team:benchmarks",),
        first_day=DAY,
        steps=landed_steps(
            source,
            bronze,
            rows="readings",
            key=(KEY,),
            versions=(Version("v1", "Newest of each reading.", (Reads(f"raw_{source.name}"),), transform),),
            current="v1",
            most_rows=1_000_000,
            tolerated_rejects=5,
        ),
    )


def wide_source(fields: int) -> Source:
    """The source of :func:`wide_dataset`."""
    generated = {f"field_{n}": _TYPES[n % len(_TYPES)] for n in range(fields - 2)}
    types = {_MOMENT: "timestamp", _SENT: "timestamp", **generated}
    return Source(
        name=f"wide_{fields}",
        fields=(KEY, *types),
        types={name: kind for name, kind in types.items() if kind != "string"},
        key_fields=(KEY,),
        event_day_field=_MOMENT,
        version_field=_SENT,
    )


def land_wide(landing: Path, source: Source, rows: int, day: date = DAY) -> None:
    """One file of ``rows`` lines: every 50th is corrected by a later line, every 1,000th is not sound."""
    file = landing / source.name / str(day) / "readings.jsonl.gz"
    file.parent.mkdir(parents=True)
    with gzip.open(file, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(line) + "\n" for line in _lines(source, rows, day))


def _lines(source: Source, rows: int, day: date) -> Iterator[Mapping[str, str]]:
    for n in range(rows):
        row = n - 1 if n % 50 == 49 else n
        minute = f"{row // 60 % 24:02}:{row % 60:02}"
        generated = {name: _text(source.type_of(name), n, place) for place, name in enumerate(source.fields[3:])}
        broken = {"field_0": "many"} if n % 1_000 == 999 else {}
        moments = {_MOMENT: f"{day}T{minute}:00Z", _SENT: f"{day}T{minute}:{n % 50:02}.5Z"}
        yield {KEY: f"R{row}", **moments, **generated, **broken}


def _text(kind: str, row: int, place: int) -> str:
    number = row * 31 + place * 7
    return {
        "bigint": str(number),
        "decimal(12,2)": f"{number}.{number % 100:02}",
        "timestamp": f"{DAY - timedelta(days=number % 300)}T{number % 24:02}:{number % 60:02}:00Z",
        "date": str(DAY - timedelta(days=number % 3_000)),
        "string": f"C{number % 1_000}",
    }[kind]


def _contract(source: Source) -> type[Contract]:
    columns = {name: _column(source.type_of(name), place) for place, name in enumerate(source.fields)}
    annotations = {name: kind for name, (kind, _) in columns.items()}
    fields = {name: field for name, (_, field) in columns.items()}
    return type("TypedWide", (Contract,), {**fields, "__annotations__": annotations, "__module__": __name__})


def _column(kind: str, place: int) -> tuple[Any, Any]:
    nullable = place > 2 and place % 2 == 0
    return {
        "bigint": (T.LongType, Field(nullable=nullable, ge=0, le=10**9, description="A count.")),
        "decimal(12,2)": (Annotated[T.DecimalType, 12, 2], Field(nullable=nullable, ge=0, description="An amount.")),
        "timestamp": (T.TimestampType, Field(nullable=nullable, description="A moment.")),
        "date": (T.DateType, Field(nullable=nullable, description="A day.")),
        "string": (T.StringType, Field(nullable=nullable, str_length={"min_value": 1}, description="A code.")),
    }[kind]


def _refined(refinement: Refinement, inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
    return refined(inputs, refinement)
