"""Real lines of the sample, no more of them than a story needs; some of them may arrive late."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Collection
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.real import land_real
from backfill_assets_tests import oracle

Row = dict[str, Any]


def land_sold(
    days: DayRange, landing: Path, stores: Collection[int] | None = None, *, of_each_receipt: int | None = None
) -> None:
    """The sales of ``days``, of all ``stores`` or of these; of the catalogue, only what they sold.

    ``of_each_receipt`` lands only so many of its lines: days are as alike as with all of them.
    """
    land_real(days, landing)
    sold = oracle.transactions(days.first, days.last, "v2")
    wanted = set(map(str, stores if stores is not None else sold["store_id"].unique()))
    products = set(sold[sold["store_id"].astype(str).isin(wanted)]["product_id"].astype(str))
    if stores is not None:
        _keep(landing / "sales", lambda row: row["store_id"] in wanted)
    if of_each_receipt is not None:
        seen = Counter[str]()
        _keep(landing / "sales", lambda row: _count(seen, row["basket_id"]) <= of_each_receipt)
    _keep(landing / "products", lambda row: row["product_id"] in products)


def _keep(source: Path, wanted: Callable[[Row], bool]) -> None:
    for path in source.glob("*/*.jsonl.gz"):
        _write(path, [line for line in _lines(path) if wanted(json.loads(line))])


def _count(seen: Counter[str], key: str) -> int:
    seen[key] += 1
    return seen[key]


def withhold(landing: Path, day: date, count: int) -> list[str]:
    """Take ``count`` lines of ``day``, from all over it, out of the landing zone."""
    (path,) = (landing / "sales" / str(day)).glob("*.jsonl.gz")
    lines = _lines(path)
    late = lines[:: len(lines) // count][:count]
    _write(path, sorted(set(lines) - set(late)))
    return late


def deliver(landing: Path, arrival: date, name: str, late: Collection[str]) -> None:
    """What was withheld, in a file of its own."""
    folder = landing / "sales" / str(arrival)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"{name}.jsonl.gz", late)


def without(lines: pd.DataFrame, late: Collection[str]) -> pd.DataFrame:
    """Of the oracle's lines, those that have landed while ``late`` are withheld."""
    rows = [json.loads(line) for line in late]
    return lines[~lines["transaction_id"].isin({f"{row['basket_id']}-{row['product_id']}" for row in rows})]


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def _write(path: Path, lines: Collection[str]) -> None:
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), compresslevel=1, mtime=0))
