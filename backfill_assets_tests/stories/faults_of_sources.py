"""Sources that send less, more, later or other things than they should, and what they send then to put it right."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from backfill_assets_tests.stories.real_lines import deliver

Row = dict[str, str]


def sent(landing: Path, day: date) -> list[Row]:
    """The rows of the day's first file of sales."""
    lines = gzip.decompress(_file(landing, day).read_bytes()).decode().splitlines()
    return [json.loads(line) for line in lines]


def replace(landing: Path, day: date, rows: Sequence[Row]) -> None:
    """The source writes that file anew."""
    deliver(landing, day, _file(landing, day).name.removesuffix(".jsonl.gz"), _lines(rows))


def add(landing: Path, day: date, name: str, rows: Sequence[Row]) -> None:
    """A further file of that arrival day."""
    deliver(landing, day, name, _lines(rows))


def changed(rows: Sequence[Row], **changes: Callable[[Row], str]) -> list[Row]:
    return [{**row, **{name: change(row) for name, change in changes.items()}} for row in rows]


def newer(rows: Sequence[Row]) -> list[Row]:
    """The same as they are after a later change of the source."""
    return changed(rows, updated_at=lambda row: row["updated_at"].replace("T23:59:59Z", "T23:59:59.5Z"))


def others(rows: Sequence[Row]) -> list[Row]:
    """Of baskets that there were not."""
    return changed(rows, basket_id=lambda row: f"9{row['basket_id']}")


def _file(landing: Path, day: date) -> Path:
    return min((landing / "sales" / str(day)).glob("*.jsonl.gz"))


def _lines(rows: Sequence[Row]) -> list[str]:
    return [json.dumps(row, separators=(",", ":")) for row in rows]
