"""What the tables hold, in sums and to the cent: a time counts only when every contender has the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from backfill_assets.days import DayRange
from benchmarks.backfill.contenders import wide

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.dataset as ds

_SUMS: dict[str, tuple[str, ...]] = {
    "raw_sales": ("source_line",),
    "bronze_sales": ("sales_value", "quantity", "deduplicated_rows"),
    "quarantine_sales": (),
    "fact_sales_transactions": ("amount_eur", "sales_value", "quantity"),
    "fact_daily_revenue": ("revenue_eur", "lines", "baskets", "quantity"),
}
_SUMS |= {wide.BRONZE_TABLE: (*wide.NUMBERS, "deduplicated_rows"), wide.QUARANTINE_TABLE: ()}
_HASHES: Mapping[str, tuple[str, ...]] = {
    "raw_sales": ("content_hash",),
    "bronze_sales": ("content_hash", "deduplicated_hash"),
    "quarantine_sales": ("content_hash",),
    wide.BRONZE_TABLE: ("content_hash", "deduplicated_hash"),
    wide.QUARANTINE_TABLE: ("content_hash",),
}
_BY: Mapping[str, tuple[str, ...]] = {"fact_daily_revenue": ("day", "store_id")}

REBUILT = ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue")
"""What is recomputed from raw."""
FROM_LANDED = ("raw_sales", *REBUILT)


@dataclass(frozen=True)
class Totals:
    """Rows by table, the revenue of all days, and a digest of every sum by day (revenue: by day and store).

    ``hashes`` is the digest of the sums of content hashes; empty where hashes are not those of this project.
    """

    rows: Mapping[str, int]
    revenue_eur: Decimal
    digest: str
    hashes: str

    def agrees_with(self, other: Totals) -> bool:
        """Equal; hashes only where both have them."""
        return self == (other if self.hashes and other.hashes else replace(other, hashes=self.hashes))

    def __str__(self) -> str:
        hashes = f", hashes {self.hashes[:12]}" if self.hashes else ""
        revenue = f", {self.revenue_eur:,} EUR" if self.revenue_eur else ""
        return f"{sum(self.rows.values()):,} rows{revenue}, {self.digest[:12]}{hashes}"


def of_tables(tables: Mapping[str, ds.Dataset], days: DayRange, *, own_hashes: bool = False) -> Totals:
    """The totals of ``days``. With ``own_hashes``, content hashes are another function's, and left out."""
    sums = {name: _sums(table, name, days, _SUMS[name]) for name, table in tables.items()}
    hashed = {} if own_hashes else {name: _HASHES[name] for name in tables if name in _HASHES}
    hashes = {name: _sums(tables[name], name, days, columns) for name, columns in hashed.items()}
    revenue = [Decimal(row[2]) for row in sums.get("fact_daily_revenue", [])]
    rows = {name: sum(int(Decimal(row[-1])) for row in found) for name, found in sums.items()}
    return Totals(rows, sum(revenue, Decimal(0)), _digest(sums), _digest(hashes) if hashes else "")


def _digest(sums: Mapping[str, list[list[str]]]) -> str:
    return hashlib.sha256(json.dumps(sums, default=str, sort_keys=True).encode()).hexdigest()


def delta_tables(root: Path, names: Sequence[str] = REBUILT) -> dict[str, ds.Dataset]:
    """The Delta tables called ``names`` below ``root``."""
    return {name: delta(root / name) for name in names}


def delta(path: Path) -> ds.Dataset:
    return DeltaTable(str(path)).to_pyarrow_dataset()


def parquet_tables(root: Path, names: Sequence[str] = REBUILT) -> dict[str, ds.Dataset]:
    """The tables called ``names`` below ``root``, as Parquet files in ``day=...`` folders."""
    import pyarrow.dataset as ds

    by_day = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    return {name: ds.dataset(root / name, format="parquet", partitioning=by_day) for name in names}


def _sums(table: ds.Dataset, name: str, days: DayRange, of: Sequence[str]) -> list[list[str]]:
    by = _BY.get(name, ("day",))
    rows = table.to_table(columns=[*by, *of], filter=_within(days))
    grouped = rows.group_by(list(by)).aggregate([*((column, "sum") for column in of), ([], "count_all")])
    columns = [*by, *(f"{column}_sum" for column in of), "count_all"]
    return sorted(_texts(grouped.select(columns).to_pylist(), columns))


def _texts(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> list[list[str]]:
    return [[_text(row[column]) for column in columns] for row in rows]


def _text(value: object) -> str:
    """Engines differ in the scale and the width of a sum; its value is what must agree."""
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return f"{Decimal(value):.4f}"
    return value.isoformat() if isinstance(value, date) else str(value)


def _within(days: DayRange) -> pc.Expression:
    day = pc.field("day")
    return (day >= pa.scalar(days.first, pa.date32())) & (day <= pa.scalar(days.last, pa.date32()))
