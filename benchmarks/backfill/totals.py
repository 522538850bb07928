"""What the four tables hold, in sums and to the cent: a time counts only when every contender has the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from backfill_assets.days import DayRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.dataset as ds

_SUMS: Mapping[str, tuple[str, ...]] = {
    "bronze_sales": ("sales_value", "quantity", "content_hash", "deduplicated_rows", "deduplicated_hash"),
    "quarantine_sales": ("content_hash",),
    "fact_sales_transactions": ("amount_eur", "sales_value", "quantity"),
    "fact_daily_revenue": ("revenue_eur", "lines", "baskets", "quantity"),
}
_BY: Mapping[str, tuple[str, ...]] = {"fact_daily_revenue": ("day", "store_id")}


@dataclass(frozen=True)
class Totals:
    """Rows by table, the revenue of all days, and a digest of every sum by day (revenue: by day and store)."""

    rows: Mapping[str, int]
    revenue_eur: Decimal
    digest: str

    def __str__(self) -> str:
        return f"{self.rows['fact_sales_transactions']:,} lines, {self.revenue_eur:,} EUR, {self.digest[:12]}"


def of_tables(tables: Mapping[str, ds.Dataset], days: DayRange) -> Totals:
    """The totals of ``days``; ``tables`` has the four tables by name."""
    sums = {name: _sums(tables[name], name, days) for name in _SUMS}
    text = json.dumps(sums, default=str, sort_keys=True)
    revenue = [Decimal(row[2]) for row in sums["fact_daily_revenue"]]
    rows = {name: sum(int(Decimal(row[-1])) for row in found) for name, found in sums.items()}
    return Totals(rows, sum(revenue, Decimal(0)), hashlib.sha256(text.encode()).hexdigest())


def delta_tables(root: Path) -> dict[str, ds.Dataset]:
    """The four Delta tables below ``root``."""
    return {name: delta(root / name) for name in _SUMS}


def delta(path: Path) -> ds.Dataset:
    return DeltaTable(str(path)).to_pyarrow_dataset()


def parquet_tables(root: Path) -> dict[str, ds.Dataset]:
    """The four tables below ``root`` as Parquet files in ``day=...`` folders."""
    import pyarrow.dataset as ds

    by_day = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    return {name: ds.dataset(root / name, format="parquet", partitioning=by_day) for name in _SUMS}


def _sums(table: ds.Dataset, name: str, days: DayRange) -> list[list[str]]:
    by = _BY.get(name, ("day",))
    rows = table.to_table(columns=[*by, *_SUMS[name]], filter=_within(days))
    grouped = rows.group_by(list(by)).aggregate([*((column, "sum") for column in _SUMS[name]), ([], "count_all")])
    columns = [*by, *(f"{column}_sum" for column in _SUMS[name]), "count_all"]
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
