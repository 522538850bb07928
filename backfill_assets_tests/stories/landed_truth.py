"""What facts and reports must hold: plain Python on the landed files, without Spark and this project's code."""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

Row = Mapping[str, str]
Days = dict[date, list[tuple[Any, ...]]]
"""The rows of a table, by day, in order."""
FACT = "fact_sales_transactions"
_OLDEST_RATE, _OLDEST_ENTRY = timedelta(days=7), timedelta(days=35)
_EXACT, _FOUR_DIGITS = Context(prec=50), Decimal("0.0001")
_MONEY, _PIECES = re.compile(r"\d+(\.\d{1,2})?"), re.compile(r"\d+")
_SUMS = ("revenue_eur", "lines", "baskets", "quantity")
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    FACT: ("transaction_id", "store_id", "quantity", "sales_value", "amount_eur"),
    "fact_daily_revenue": ("store_id", *_SUMS),
    "report_department_revenue": ("department", *_SUMS),
    "report_store_ranking": ("store_id", "rank", *_SUMS),
    "report_monthly_close": ("currency", *_SUMS),
}


@dataclass(frozen=True)
class _Line:
    id: str
    day: date
    store: str
    basket: str
    product: str
    quantity: int
    value: Decimal
    euros: Decimal


def published(lakehouse: Path) -> dict[str, Days]:
    """What is in the tables, read by delta-rs."""
    found: dict[str, Days] = {}
    for table, columns in _COLUMNS.items():
        rows = DeltaTable(str(lakehouse / table)).to_pyarrow_table(columns=["day", *columns]).to_pylist()
        days = found.setdefault(table, {})
        for row in rows:
            days.setdefault(row["day"], []).append(tuple(row[name] for name in columns))
    return {table: {day: sorted(rows) for day, rows in days.items()} for table, days in found.items()}


def landed(landing: Path) -> dict[str, Days]:
    """What they must hold."""
    lines = list(_lines(landing))
    departments = _departments(landing)
    return {
        FACT: _by_day((each.day, (each.id, each.store, each.quantity, each.value, each.euros)) for each in lines),
        "fact_daily_revenue": _sums((each.day, each.store, each) for each in lines),
        "report_department_revenue": _sums((each.day, departments(each), each) for each in lines),
        "report_store_ranking": _ranked(_sums((_monday(each.day), each.store, each) for each in lines)),
        "report_monthly_close": _sums((each.day.replace(day=1), "USD", each) for each in lines),
    }


def differences(lakehouse: Path, landing: Path) -> list[str]:
    """Tables and days whose rows are not those of the landed files."""
    there, wanted = published(lakehouse), landed(landing)
    return [
        f"{table} {day}"
        for table in _COLUMNS
        for day in sorted({*there[table], *wanted[table]})
        if there[table].get(day) != wanted[table].get(day)
    ]


# ------------------------------------------------------------------ lines


def _lines(landing: Path) -> Iterator[_Line]:
    rates = _rates(landing)
    euros: dict[tuple[date, Decimal], Decimal] = {}
    for id, row in _newest(landing / "sales", lambda row: f"{row['basket_id']}-{row['product_id']}").items():
        day, value = date.fromisoformat(row["transaction_timestamp"][:10]), Decimal(row["sales_value"])
        value = value.quantize(Decimal("0.01"))
        if (day, value) not in euros:
            rate = _as_of(rates, day)
            euros[day, value] = _EXACT.divide(value, rate).quantize(_FOUR_DIGITS, rounding=ROUND_HALF_UP)
        store, basket, product = row["store_id"], row["basket_id"], row["product_id"]
        yield _Line(id, day, store, basket, product, int(row["quantity"]), value, euros[day, value])


def _newest(source: Path, key: Callable[[Row], str]) -> dict[str, Row]:
    """Of each key, the sound row with the greatest version."""
    found: dict[str, Row] = {}
    for row in filter(_is_sound, _rows(source)):
        before = found.get(key(row))
        if before is None or _version(before) < _version(row):
            found[key(row)] = row
    return found


def _version(row: Row) -> str:
    """A fraction of a second is later than none."""
    return row["updated_at"].removesuffix("Z")


def _is_sound(row: Row) -> bool:
    return bool(_MONEY.fullmatch(row["sales_value"]) and _PIECES.fullmatch(row["quantity"]))


def _rows(source: Path) -> Iterator[Row]:
    for path in sorted(source.glob("*/*.jsonl.gz")):
        if not path.name.startswith("_"):
            yield from map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines())


def _rates(landing: Path) -> dict[date, Decimal]:
    """Dollars for a euro, by the day of their publication."""
    rows = (row for row in _rows(landing / "fx_rates") if row["currency"] == "USD")
    return {date.fromisoformat(row["rate_day"]): Decimal(row["rate"]) for row in rows}


def _as_of(rates: Mapping[date, Decimal], day: date) -> Decimal:
    last = max(each for each in rates if each <= day)
    assert day - last <= _OLDEST_RATE
    return rates[last]


def _departments(landing: Path) -> Callable[[_Line], str]:
    """The department of a line's product as of its day."""
    entries = defaultdict[str, dict[date, Row]](dict)
    for row in _rows(landing / "products"):
        entries[row["product_id"]][date.fromisoformat(row["valid_from"])] = row
    starts = {product: sorted(found) for product, found in entries.items()}

    def department(line: _Line) -> str:
        days = starts.get(line.product, [])
        place = bisect_right(days, line.day)
        if not place or line.day - days[place - 1] > _OLDEST_ENTRY:
            return "UNKNOWN"
        return entries[line.product][days[place - 1]]["department"]

    return department


# ------------------------------------------------------------------ sums


def _sums(lines: Iterable[tuple[date, str, _Line]]) -> Days:
    groups = defaultdict[tuple[date, str], list[_Line]](list)
    for day, group, line in lines:
        groups[day, group].append(line)
    return _by_day((day, (group, *_summed(found))) for (day, group), found in groups.items())


def _summed(lines: Sequence[_Line]) -> tuple[Any, ...]:
    euros = sum((each.euros for each in lines), Decimal())
    return euros, len(lines), len({each.basket for each in lines}), sum(each.quantity for each in lines)


def _ranked(sums: Days) -> Days:
    found: Days = {}
    for day, rows in sums.items():
        best_first = sorted(rows, key=lambda row: (-row[1], row[0]))
        found[day] = sorted((store, place, *rest) for place, (store, *rest) in enumerate(best_first, 1))
    return found


def _by_day(rows: Iterable[tuple[date, tuple[Any, ...]]]) -> Days:
    found = defaultdict[date, list[tuple[Any, ...]]](list)
    for day, row in rows:
        found[day].append(row)
    return {day: sorted(of_day) for day, of_day in found.items()}


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())
