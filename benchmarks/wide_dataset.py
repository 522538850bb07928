"""A generated dataset with as many typed fields as wanted, and the lines that it lands."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_dataset import LandedDataset
from benchmarks.backfill.contenders import wide

DAY = date(2024, 3, 1)
KEY, _MOMENT, _SENT = wide.KEY, wide.MOMENT, wide.VERSION


def wide_dataset(fields: int) -> Dataset:
    """A dataset whose source lands a key and ``fields`` other fields of all types, every other one nullable."""
    wide = LandedDataset(
        name=f"wide_{fields}",
        description=f"{fields} generated fields.",
        owners=("team:benchmarks",),
        first_day=DAY,
        rows="readings",
        most_rows=1_000_000,
        tolerated_rejects=5,
    )
    wide.row("v1", "Newest of each reading.")(_contract(fields))
    return wide.dataset()


def land_wide(landing: Path, source: Source, rows: int, day: date = DAY) -> None:
    """One file of ``rows`` lines: every 50th is corrected by a later line, every 1,000th is not sound."""
    file = landing / source.name / str(day) / "readings.jsonl.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
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


def _contract(fields: int) -> type[Contract]:
    types = wide.fields_of(fields)
    columns = {name: _column(name, kind, place) for place, (name, kind) in enumerate(types.items())}
    annotations = {name: kind for name, (kind, _) in columns.items()}
    declared = {name: field for name, (_, field) in columns.items()}
    return type("WideReading", (Contract,), {**declared, "__annotations__": annotations, "__module__": __name__})


def _column(name: str, kind: str, place: int) -> tuple[Any, Any]:
    marks: dict[str, Any] = {"nullable": wide.may_be_null(place), "key": name == KEY}
    marks |= {"event_day": name == _MOMENT, "version": name == _SENT}
    return {
        "bigint": (T.LongType, Field(**marks, ge=0, le=10**9, description="A count.")),
        "decimal(12,2)": (Annotated[T.DecimalType, 12, 2], Field(**marks, ge=0, description="An amount.")),
        "timestamp": (T.TimestampType, Field(**marks, description="A moment.")),
        "date": (T.DateType, Field(**marks, description="A day.")),
        "string": (T.StringType, Field(**marks, str_length={"min_value": 1}, description="A code.")),
    }[kind]
