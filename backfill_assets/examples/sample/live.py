"""Endless live sales: lines as tills send them, landed second by second.

Equal specs give equal lines, some late, corrected, moved, sent twice or unreadable. A transaction's lines differ in
``updated_at``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import count, groupby, islice
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.examples.sample.landing_writer import LandingWriter, landing, line
from backfill_assets.examples.sample.references import (
    RATES_LEAD_DAYS,
    last_published,
    rate_lines,
    synthetic_catalogue,
)
from backfill_assets.examples.sample.sales_line import FIELDS, LINES_PER_BASKET, Row, lines, sound_rows

EventKind = Literal["sale", "late", "correction", "moved", "older_version", "duplicate", "new_field", "unreadable"]

_KINDS: Mapping[EventKind, tuple[str, float]] = {
    "sale": ("a new sale of this second", 0),
    "late": ("a new sale of an earlier day", 0.015),
    "correction": ("a newer version of a sale, with another amount", 0.006),
    "moved": ("a newer version of a sale, on another day", 0.002),
    "older_version": ("a version older than one that was sent", 0.002),
    "duplicate": ("a line that was sent before", 0.004),
    "new_field": ("a new sale with fields the schema does not know", 0.002),
    "unreadable": ("no sale can be read from it: it goes to quarantine", 0.004),
}
KINDS: Mapping[EventKind, str] = MappingProxyType({kind: words for kind, (words, _) in _KINDS.items()})
SHARES: Mapping[EventKind, float] = MappingProxyType({kind: share for kind, (_, share) in _KINDS.items() if share})
TICK_SECONDS = 1.0

_BLOCK = 1_000 * LINES_PER_BASKET
_REMEMBERED = 20_000
_MICROSECONDS = 1_000_000
_DAY, _UPDATED = FIELDS.index("transaction_timestamp"), FIELDS.index("updated_at")
_BASKET, _AMOUNT, _CURRENCY = (FIELDS.index(name) for name in ("basket_id", "sales_value", "currency"))


@dataclass(frozen=True)
class LiveSpec:
    """Event ``n`` happens ``n / events_per_second`` seconds after ``start`` (UTC), late and moved ones in the
    ``late_days`` before.
    """

    seed: int
    start: datetime
    events_per_second: float
    late_days: int = 5
    shares: Mapping[EventKind, float] = field(default_factory=lambda: SHARES)

    def moment(self, number: int) -> datetime:
        return self.start + timedelta(microseconds=round(number * _MICROSECONDS / self.events_per_second))

    @property
    def first_day(self) -> date:
        return self.start.date() - timedelta(days=self.late_days)


@dataclass(frozen=True, slots=True)
class LiveEvent:
    number: int
    kind: EventKind
    moment: datetime
    text: str


def live_events(spec: LiveSpec) -> Iterator[LiveEvent]:
    maker = _Maker(spec)
    return map(maker.event, count())


class _Maker:
    def __init__(self, spec: LiveSpec) -> None:
        self._spec = spec
        self._rng = np.random.default_rng([spec.seed, 7])
        self._kinds = _kinds(spec, self._rng)
        self._rows = _new_rows(spec)
        self._places = _places(self._rng)
        self._sent: list[Row] = []

    def event(self, number: int) -> LiveEvent:
        moment, kind = self._spec.moment(number), next(self._kinds)
        if kind in ("correction", "moved", "older_version", "duplicate") and not self._sent:
            kind = "sale"
        return LiveEvent(number, kind, moment, self._line(kind, moment, number))

    def _line(self, kind: EventKind, moment: datetime, number: int) -> str:
        match kind:
            case "unreadable":
                return self._unreadable(_at(*next(self._rows), moment, moment))
            case "new_field":
                row = self._remember(_at(*next(self._rows), moment, moment))
                return line(dict(zip(FIELDS, row, strict=True)) | {"loyalty_tier": "gold", "till": "7"})
            case "sale":
                row = self._remember(_at(*next(self._rows), moment, moment))
            case "late":
                row = self._remember(_at(*next(self._rows), moment - self._some_days(), moment))
            case _:
                row = self._again(kind, moment, number)
        return lines([row])[0]

    def _again(self, kind: EventKind, moment: datetime, number: int) -> Row:
        place = int(self._rng.integers(len(self._sent)))
        row = self._sent[place]
        if kind == "older_version":
            older = datetime.fromisoformat(row[_UPDATED]) - timedelta(microseconds=number + 1)
            return _with(row, {_UPDATED: _micros(older), _AMOUNT: self._amount(row)})
        if kind == "correction":
            row = _with(row, {_UPDATED: _micros(moment), _AMOUNT: self._amount(row)})
        if kind == "moved":
            row = _with(row, {_UPDATED: _micros(moment), _DAY: _seconds(self._other_day(row, moment))})
        self._sent[place] = row
        return row

    def _remember(self, row: Row) -> Row:
        if len(self._sent) < _REMEMBERED:
            self._sent.append(row)
        else:
            self._sent[next(self._places)] = row
        return row

    def _some_days(self) -> timedelta:
        most = self._spec.late_days
        return timedelta(days=int(self._rng.integers(1, most + 1)) if most else 0)

    def _other_day(self, row: Row, moment: datetime) -> datetime:
        days = [moment - timedelta(days=back) for back in range(self._spec.late_days + 1)]
        others = [day for day in days if f"{day:%Y-%m-%d}" != row[_DAY][:10]]
        return others[int(self._rng.integers(len(others)))] if others else moment

    def _amount(self, row: Row) -> str:
        cents = int(self._rng.integers(1, 50_000))
        return str(cents) if row[_CURRENCY] == "JPY" else f"{cents // 100}.{cents % 100:02d}"

    def _unreadable(self, row: Row) -> str:
        whole = lines([row])[0]
        wrong = (
            whole[: len(whole) // 2],
            "not json",
            lines([_with(row, {_AMOUNT: "12,50"})])[0],
            lines([_with(row, {_DAY: "yesterday"})])[0],
        )
        return wrong[int(self._rng.integers(len(wrong)))]


def _kinds(spec: LiveSpec, rng: np.random.Generator) -> Iterator[EventKind]:
    names: list[EventKind] = ["sale", *(kind for kind in spec.shares if kind != "sale")]
    others = [spec.shares[kind] for kind in names[1:]]
    while True:
        for place in rng.choice(len(names), _BLOCK, p=[1 - sum(others), *others]).tolist():
            yield names[place]


def _places(rng: np.random.Generator) -> Iterator[int]:
    while True:
        yield from rng.integers(_REMEMBERED, size=_BLOCK).tolist()


def _new_rows(spec: LiveSpec) -> Iterator[tuple[Row, str]]:
    """No basket occurs with another start or seed, or in synthetic sales."""
    run = f"{spec.start:%y%m%d%H%M%S%f}{spec.seed % 1000:03d}"
    for block in count():
        rows = sound_rows(spec.start.date(), _BLOCK, spec.seed * 1_000_003 + block)
        for place, row in enumerate(rows):
            basket = (block * _BLOCK + place) // LINES_PER_BASKET
            yield row, f"{run}{basket:08d}"


def _at(row: Row, basket: str, sold: datetime, sent: datetime) -> Row:
    return _with(row, {_BASKET: basket, _DAY: _seconds(sold), _UPDATED: _micros(sent)})


def _with(row: Row, values: Mapping[int, str]) -> Row:
    changed = list(row)
    for place, value in values.items():
        changed[place] = value
    return tuple(changed)


def _seconds(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def _micros(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


# -------------------------------------------------------------------- landing


@dataclass
class LiveLanding:
    spec: LiveSpec
    root: Path
    files: int = 0
    by_kind: Counter[EventKind] = field(default_factory=Counter)
    _ready: set[date] = field(default_factory=set)

    @property
    def lines(self) -> int:
        return self.by_kind.total()

    def land_for(
        self,
        seconds: float | None,
        report: Callable[[LiveLanding], None] = lambda landing: None,
    ) -> None:
        events, began, taken = live_events(self.spec), clock.seconds(), 0
        while True:
            passed = clock.seconds() - began
            until = passed if seconds is None else min(passed, seconds)
            due = list(islice(events, round(until * self.spec.events_per_second) - taken))
            taken += len(due)
            self.land(due)
            report(self)
            if seconds is not None and passed >= seconds:
                return
            left = TICK_SECONDS if seconds is None else min(TICK_SECONDS, seconds - passed)
            clock.sleep(max(0.0, left - (clock.seconds() - began - passed)))

    def land(self, events: Sequence[LiveEvent]) -> None:
        for day, of_day in groupby(events, key=lambda event: event.moment.date()):
            if day not in self._ready:
                land_references(self.root, DayRange(min(self.spec.first_day, day), day))
                self._ready.add(day)
            self._write(day, list(of_day))

    def _write(self, day: date, events: Sequence[LiveEvent]) -> None:
        run = f"live-{self.spec.start:%Y%m%dT%H%M%S.%f}-{self.spec.seed}-{self.files + 1:06d}"
        with landing(self.root) as writer:
            writer.write("sales", day, [event.text for event in events], name=run)
        self.files += 1
        self.by_kind.update(event.kind for event in events)


def land_references(root: Path, days: DayRange) -> None:
    """Rates, products, and sales files of zero rows, where an earlier day of a source has nothing."""
    with landing(root) as writer:
        for day in _missing(root, "fx_rates", days.widened(before=RATES_LEAD_DAYS)):
            name = None if day <= last_published() else "live-rates"
            writer.write("fx_rates", day, rate_lines(day), name=name)
        _land_products(root, days, writer)
        for day in _missing(root, "sales", days):
            if day < days.last:
                writer.write("sales", day, [], name="live-none")


def _land_products(root: Path, days: DayRange, writer: LandingWriter) -> None:
    if not any(root.glob("products/*/*.jsonl.gz")):
        writer.write("products", days.first, synthetic_catalogue(days.first), name="live-catalogue")
    for day in _missing(root, "products", days):
        writer.write("products", day, [])


def _missing(root: Path, source: str, days: DayRange) -> list[date]:
    return [day for day in days if not any((root / source / f"{day}").glob("*.jsonl.gz"))]
