"""Named defects of synthetic sales, and what becomes of their lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

import numpy as np

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.landing_writer import line

SUPERSESSION_WINDOW_DAYS = 7
MOST_LATE_DAYS = 5

SampleFate = Literal["published", "quarantined", "deduplicated", "superseded"]
FATES: tuple[SampleFate, ...] = ("published", "quarantined", "deduplicated", "superseded")
Values = dict[str, str]


@dataclass(frozen=True)
class SampleDelivery:
    """``event_day`` is the raw day that accounts for it."""

    arrival_day: date
    event_day: date
    text: str
    fate: SampleFate
    sale: tuple[str, Decimal, str] | None = None


@dataclass(frozen=True)
class SalePlace:
    day: date
    days: DayRange
    rng: np.random.Generator

    def one_of(self, first: date, last: date) -> date:
        first, last = max(first, self.days.first), min(last, self.days.last)
        return first + timedelta(days=int(self.rng.integers(0, (last - first).days + 1)))

    def after(self, days: int) -> date:
        return self.day + timedelta(days=days)


@dataclass(frozen=True)
class Defect:
    description: str
    rate: float
    deliver: Callable[[Values, SalePlace], list[SampleDelivery]]
    days_ahead: int = 0
    """Days that must follow in the range."""
    shortest_range: int = 1

    def days(self, of: DayRange) -> DayRange | None:
        if len(of) < max(self.shortest_range, self.days_ahead + 1):
            return None
        return DayRange(of.first, of.last - timedelta(days=self.days_ahead))


def exact_duplicate(row: Values, place: SalePlace) -> list[SampleDelivery]:
    return [_publish(row, place.day), _drop(row, place.day, place.day, "deduplicated")]


def newer_version(row: Values, place: SalePlace) -> list[SampleDelivery]:
    newer = row | {"updated_at": _later(row["updated_at"]), "sales_value": _double(row["sales_value"])}
    return [_drop(row, place.day, place.day, "deduplicated"), _publish(newer, place.day)]


def tied_version(row: Values, place: SalePlace) -> list[SampleDelivery]:
    """Equal ``updated_at``: the content decides; amounts are equal, and so are totals."""
    other = row | {"retail_disc": _double(row["retail_disc"]) if row["retail_disc"] != "0.00" else "9.99"}
    return [_publish(row, place.day), _drop(other, place.day, place.day, "deduplicated")]


def moved_version(row: Values, place: SalePlace) -> list[SampleDelivery]:
    window = timedelta(days=SUPERSESSION_WINDOW_DAYS)
    target = place.day
    while target == place.day:
        target = place.one_of(place.day - window, place.day + window)
    arrival = max(target, place.day)
    newer = _on(row, target) | {"updated_at": _end_of(arrival)}
    return [_drop(row, place.day, place.day, "superseded"), _publish(newer, target, arrival)]


def overtaken_version(row: Values, place: SalePlace) -> list[SampleDelivery]:
    target = place.one_of(
        place.after(1), min(place.after(SUPERSESSION_WINDOW_DAYS - 1), place.days.last - timedelta(1))
    )
    newer = _on(row, target) | {"updated_at": _end_of(target)}
    return [_publish(newer, target), _drop(row, place.day, target + timedelta(days=1), "superseded")]


def malformed_amount(row: Values, place: SalePlace) -> list[SampleDelivery]:
    wrong = str(place.rng.choice(["12,50", "abc", "", "1.2.3", "--5", "USD 4"]))
    return [_drop(row | {"sales_value": wrong}, place.day, place.day, "quarantined")]


def missing_key(row: Values, place: SalePlace) -> list[SampleDelivery]:
    key = str(place.rng.choice(["basket_id", "product_id"]))
    absent: dict[str, str | None] = {name: value for name, value in row.items() if name != key}
    kinds = (absent, row | {key: ""}, absent | {key: None})
    text = line(kinds[int(place.rng.integers(len(kinds)))])
    return [SampleDelivery(place.day, place.day, text, "quarantined")]


def unknown_field(row: Values, place: SalePlace) -> list[SampleDelivery]:
    extra = row | {"loyalty_tier": str(place.rng.choice(["gold", "caf\u00e9", 'say "hi"'])), "till": "7"}
    return [_publish(extra, place.day)]


def late_row(row: Values, place: SalePlace) -> list[SampleDelivery]:
    return [_publish(row, place.day, place.one_of(place.after(1), place.after(MOST_LATE_DAYS)))]


def absurd_date(row: Values, place: SalePlace) -> list[SampleDelivery]:
    wrong = str(place.rng.choice(["1970-01-01T00:00:00Z", "2099-12-31T23:59:59Z"]))
    return [_drop(row | {"transaction_timestamp": wrong}, place.day, place.day, "quarantined")]


def unreadable_date(row: Values, place: SalePlace) -> list[SampleDelivery]:
    wrong = str(place.rng.choice(["yesterday", "2017-13-45T00:00:00Z", "2017-02-30T12:00:00Z", ""]))
    return [_drop(row | {"transaction_timestamp": wrong}, place.day, place.day, "quarantined")]


def broken_line(row: Values, place: SalePlace) -> list[SampleDelivery]:
    whole = line(row)
    wrong = (whole[: len(whole) // 2], "[1,2,3]", "not json", '"text"')
    return [SampleDelivery(place.day, place.day, wrong[int(place.rng.integers(len(wrong)))], "quarantined")]


DEFECTS: Mapping[str, Defect] = MappingProxyType(
    {
        "exact_duplicate": Defect("the same line twice", 0.005, exact_duplicate),
        "newer_version": Defect("two versions on one day, a microsecond apart", 0.005, newer_version),
        "tied_version": Defect("two versions with the same updated_at", 0.0005, tied_version),
        "moved_version": Defect("a newer version that belongs to another day", 0.002, moved_version, 0, 2),
        "overtaken_version": Defect("as moved, and the older version lands last", 0.0005, overtaken_version, 2),
        "malformed_amount": Defect("an amount that is no number", 0.002, malformed_amount),
        "missing_key": Defect("basket or product absent, empty or null", 0.001, missing_key),
        "unknown_field": Defect("fields the schema does not know", 0.002, unknown_field),
        "late_row": Defect("lands days after its own day", 0.004, late_row, 1),
        "absurd_date": Defect("a transaction of 1970 or 2099", 0.0005, absurd_date),
        "unreadable_date": Defect("a transaction time that is none", 0.0005, unreadable_date),
        "broken_line": Defect("a line that is no JSON object", 0.0005, broken_line),
    }
)


def _publish(row: Values, day: date, arrival: date | None = None) -> SampleDelivery:
    sale = (row["currency"], Decimal(row["sales_value"]), row["product_id"])
    return SampleDelivery(arrival or day, day, line(row), "published", sale)


def _drop(row: Values, day: date, arrival: date, fate: SampleFate) -> SampleDelivery:
    return SampleDelivery(arrival, day, line(row), fate)


def _on(row: Values, day: date) -> Values:
    return row | {"transaction_timestamp": f"{day}{row['transaction_timestamp'][10:]}"}


def _end_of(day: date) -> str:
    return f"{day}T23:59:59.999999Z"


def _later(moment: str) -> str:
    return f"{moment[:20]}{int(moment[20:26]) + 1:06d}Z"


def _double(amount: str) -> str:
    return str(2 * Decimal(amount))
