"""More lines for a day that has landed: what a source system sends when it is broken, and when it was fixed."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from backfill_assets.examples.sample.landing_writer import line
from backfill_assets.examples.sample.sales_line import FIELDS, sound_rows


def land_lines(
    landing: Path, day: date, name: str, count: int, values: Mapping[str, str] | None = None, first_basket: int = 0
) -> None:
    """``count`` sales of ``day`` in a file of their own, with ``values`` in all of them; each ``name`` once a day.

    With ``first_basket`` each is a basket of its own, numbered from there, so that no two have the same key.
    """
    rows = sound_rows(day, count, seed=int.from_bytes(name.encode(), "big") % 1_000_003)
    found = [{**dict(zip(FIELDS, row, strict=True)), **(values or {})} for row in rows]
    if first_basket:
        found = [{**row, "basket_id": str(first_basket + number)} for number, row in enumerate(found)]
    texts = [line(row) for row in found]
    folder = landing / "sales" / str(day)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))


def land_corrected(landing: Path, day: date, name: str, wrong: str, right: str) -> None:
    """The lines of the file ``name`` again, in a new one, with ``right`` for what was ``wrong`` in them."""
    folder = landing / "sales" / str(day)
    lines = gzip.decompress((folder / f"{name}.jsonl.gz").read_bytes()).decode()
    assert wrong in lines
    (folder / f"{name}-corrected.jsonl.gz").write_bytes(gzip.compress(lines.replace(wrong, right).encode()))
