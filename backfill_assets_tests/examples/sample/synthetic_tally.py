"""Exactly what must become of each line of synthetic sales, day by day."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path

from backfill_assets.examples.sample.defects import SampleFate
from backfill_assets.examples.sample.references import synthetic_catalogue
from backfill_assets.examples.sample.sales_line import FIELDS
from backfill_assets.examples.sample.synthetic import SampleDay, Synthesis, SyntheticSpec, synthesize
from backfill_assets_tests.examples.sample.landed_lines import hundredths


@dataclass
class DayExpectation:
    """What accounting must show for one raw day: lines by fate, and what is published by currency and department."""

    lines: Counter[SampleFate] = field(default_factory=Counter)
    sales: Counter[str] = field(default_factory=Counter)
    """In hundredths of the currency's unit; see :meth:`published_sales`."""
    departments: Counter[str] = field(default_factory=Counter)
    """Published lines by department as of the day; ``UNKNOWN`` for products that the catalogue lacks."""

    @property
    def received(self) -> int:
        return self.lines.total()

    @property
    def published(self) -> int:
        return self.lines["published"]

    @property
    def quarantined(self) -> int:
        return self.lines["quarantined"]

    @property
    def deduplicated(self) -> int:
        return self.lines["deduplicated"]

    @property
    def superseded(self) -> int:
        return self.lines["superseded"]

    def published_sales(self) -> dict[str, Decimal]:
        """The sum of ``sales_value`` of the published lines, by currency."""
        return {currency: Decimal(total).scaleb(-2) for currency, total in sorted(self.sales.items())}

    def expect_sale(self, day: date, currency: str, cents: int, product_id: str) -> None:
        self.sales[currency] += cents
        self.departments[_departments(day).get(product_id, "UNKNOWN")] += 1


@dataclass(frozen=True, order=True)
class Rejected:
    """Where a line landed that must end in quarantine; ``line`` counts from 1."""

    path: str
    line: int
    defect: str


class SyntheticTally:
    """Expectations by event day, lines by arrival day, and every rejected line; all of it heard while it was made."""

    def __init__(self, spec: SyntheticSpec, root: Path) -> None:
        self.by_event_day: defaultdict[date, DayExpectation] = defaultdict(DayExpectation)
        self.by_event_day.update({day: DayExpectation() for day in spec.days})
        self.by_arrival_day: dict[date, int] = {}
        self.rejected: list[Rejected] = []
        self.made: Synthesis = synthesize(spec, root, self._hear)
        self.rejected.sort()

    def totals(self) -> dict[str, int]:
        """Lines received, and what must become of them, over all days."""
        names = ("received", "published", "quarantined", "deduplicated", "superseded")
        return {name: sum(getattr(day, name) for day in self.by_event_day.values()) for name in names}

    def _hear(self, landed: SampleDay) -> None:
        self.by_arrival_day[landed.day] = len(landed.sound) + len(landed.struck)
        expected = self.by_event_day[landed.day]
        expected.lines["published"] += len(landed.sound)
        for row in landed.sound:
            values = dict(zip(FIELDS, row, strict=True))
            cents = hundredths(values["sales_value"])
            expected.expect_sale(landed.day, values["currency"], cents, values["product_id"])
        for line, (defect, delivery) in landed.struck.items():
            of_day = self.by_event_day[delivery.event_day]
            of_day.lines[delivery.fate] += 1
            if delivery.sale:
                currency, amount, product = delivery.sale
                of_day.expect_sale(delivery.event_day, currency, int(amount.scaleb(2)), product)
            if delivery.fate == "quarantined":
                self.rejected.append(Rejected(landed.path, line, defect))


@cache
def _departments(day: date) -> dict[str, str]:
    entries = map(json.loads, synthetic_catalogue(day))
    return {entry["product_id"]: entry["department"] for entry in entries}
