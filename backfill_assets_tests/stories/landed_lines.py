"""More lines for a day that has landed: what a source system sends when it is broken, and when it was mended."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from backfill_assets.sample.sales_line import FIELDS, line
from backfill_assets.sample.synthetic_rows import sound_rows


def land_lines(landing: Path, day: date, name: str, count: int, values: Mapping[str, str] | None = None) -> None:
    """``count`` sales of ``day`` in a file of their own, with ``values`` in all of them; each ``name`` once a day."""
    rows = sound_rows(day, count, seed=int.from_bytes(name.encode(), "big") % 1_000_003)
    texts = [line({**dict(zip(FIELDS, row, strict=True)), **(values or {})}) for row in rows]
    folder = landing / "sales" / str(day)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
