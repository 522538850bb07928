"""The events of a hazard: real sales lines, landed as files, and the tally of what was sent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.examples.lab.hazard import Key, TableCount, count_table
from backfill_assets.examples.sample.landing_writer import landed_path, landing

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE = "sales"


@dataclass
class SentEvents:
    """The landing folder of one way, and the events that were landed in it."""

    root: Path
    sent: Counter[Key] = field(default_factory=Counter)
    """Kept by the sender: it comes from the lines, not from a table."""

    def drop(self, day: date, name: str, lines: Sequence[str]) -> None:
        """Land one whole file."""
        with landing(self.root) as writer:
            writer.write(SOURCE, day, lines, name)
        self.sent.update(map(key_of, lines))

    def files(self, days: Sequence[date]) -> list[Path]:
        """The files that are there now."""
        return [path for day in days for path in sorted((self.root / SOURCE / str(day)).glob("*.jsonl.gz"))]

    def path(self, day: date, name: str) -> Path:
        return self.root / landed_path(SOURCE, day, name)

    def count(self, table: str, rows: pa.Table) -> TableCount:
        """Compare ``rows`` (day, basket_id, product_id) with what was sent."""
        return count_table(table, self.sent, keys(rows))


def sold_at(line: str) -> datetime:
    return datetime.fromisoformat(_values(line)["transaction_timestamp"])


def key_of(line: str) -> Key:
    values = _values(line)
    return date.fromisoformat(values["transaction_timestamp"][:10]), f"{values['basket_id']}-{values['product_id']}"


def keys(rows: pa.Table) -> Counter[Key]:
    """The events that rows of a table are of."""
    names = zip(*(rows[name].to_pylist() for name in ("day", "basket_id", "product_id")), strict=True)
    return Counter((day, f"{basket}-{product}") for day, basket, product in names)


def _values(line: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(line)
    return values
