"""How a program of one's own lands files: what stories land with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path


def land_rows(landing: Path, source: str, arrival: date, name: str, rows: Iterable[Mapping[str, object]]) -> None:
    file = landing / source / str(arrival) / f"{name}.jsonl.gz"
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}")  # a name with a dot in front is not read
    with gzip.open(unfinished, "xt", encoding="utf-8") as out:
        for row in rows:
            texts = {field: as_text(value) for field, value in row.items() if value is not None}
            out.write(json.dumps(texts) + "\n")
    file.hardlink_to(unfinished)  # whole or not at all, and never over a file that has landed
    unfinished.unlink()


def as_text(value: object) -> str:
    if isinstance(value, datetime):  # with its time zone: local time is converted
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)
