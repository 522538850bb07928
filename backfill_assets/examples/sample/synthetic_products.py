"""A small synthetic catalogue: some products change their department every week, and some are not in it at all."""

from __future__ import annotations

from datetime import date

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.catalogue import add_dates, encode_entries, land_products
from backfill_assets.examples.sample.landing_writer import LandingWriter

FIRST_PRODUCT = 25_671
PRODUCTS = 2_000
DEPARTMENTS = ("GROCERY", "DRUG GM", "PRODUCE", "MEAT-PCKGD", "TRAVEL & LEISURE")
UNKNOWN = "UNKNOWN"
"""The department of the products that the catalogue lacks."""

_SATURDAY = 5
_LACKING = range(199, PRODUCTS, 200)
_MOVING = range(7, PRODUCTS, 40)


def department_on(day: date, product_id: str) -> str:
    """The department of a synthetic product on ``day``: moving products change it every Saturday."""
    number = int(product_id) - FIRST_PRODUCT
    if number in _LACKING:
        return UNKNOWN
    turn = (day.toordinal() - _SATURDAY - 1) // 7 if number in _MOVING else 0
    return DEPARTMENTS[(number + turn) % len(DEPARTMENTS)]


def land_synthetic_products(writer: LandingWriter, days: DayRange) -> None:
    """Land the catalogue, and on each Saturday the products that change their department on it."""
    land_products(writer, days, synthetic_catalogue)
    for day in days:
        if day.weekday() == _SATURDAY:
            writer.write("products", day, _lines(day, _MOVING), name="products-changes")


def synthetic_catalogue(day: date) -> list[str]:
    """Every product that the catalogue has, as it would be landed on ``day``."""
    return _lines(day, range(PRODUCTS))


def _lines(day: date, numbers: range) -> list[str]:
    known = (FIRST_PRODUCT + number for number in numbers if number not in _LACKING)
    return add_dates(encode_entries([_entry(str(product), day) for product in known]), day)


def _entry(product_id: str, day: date) -> dict[str, str | None]:
    return {
        "product_id": product_id,
        "manufacturer_id": str(int(product_id) % 97),
        "department": department_on(day, product_id),
        "brand": "Private" if int(product_id) % 4 == 0 else "National",
        "product_category": None,
        "product_type": None,
        "package_size": None,
    }
