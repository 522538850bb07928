"""The request for synthetic sales, and exactly what must become of each of their lines, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.defects import SampleFate
from backfill_assets.examples.sample.landing_writer import LandedCounts

_FATES: tuple[SampleFate, ...] = ("published", "quarantined", "deduplicated", "superseded")


@dataclass(frozen=True)
class SyntheticSpec:
    """What to make: ``rows_per_day`` transactions on each day, of which some get a defect; equal specs, equal bytes.

    ``defects`` are counts over the whole range; ``None`` means each defect's own rate, ``{}`` none at all.
    """

    days: DayRange
    rows_per_day: int
    seed: int
    defects: Mapping[str, int] | None = None


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

    def as_json(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in ("received", *_FATES)}
        sales = {currency: str(total) for currency, total in self.published_sales().items()}
        return counts | {"sales": sales, "departments": dict(sorted(self.departments.items()))}


@dataclass(frozen=True, order=True)
class Rejected:
    """Where a line landed that must end in quarantine; ``line`` counts from 1."""

    path: str
    line: int
    defect: str


@dataclass(frozen=True)
class SyntheticTally:
    """What was put in: lines by defect, expectations by event day, lines by arrival day, and every rejected line."""

    spec: SyntheticSpec
    defects: Mapping[str, int]
    by_event_day: Mapping[date, DayExpectation]
    by_arrival_day: Mapping[date, int]
    rejected: tuple[Rejected, ...]
    landed: LandedCounts

    def totals(self) -> dict[str, int]:
        """Lines received, and what must become of them, over all days."""
        days = self.by_event_day.values()
        return {name: sum(getattr(day, name) for day in days) for name in ("received", *_FATES)}

    def as_json(self) -> dict[str, Any]:
        """Plain data for ``--json``; days are texts, money is text."""
        return {
            "seed": self.spec.seed,
            "days": str(self.spec.days),
            "rows_per_day": self.spec.rows_per_day,
            "defects": dict(self.defects),
            "by_event_day": {str(day): expected.as_json() for day, expected in self.by_event_day.items()},
            "by_arrival_day": {str(day): count for day, count in self.by_arrival_day.items()},
            "files_written": self.landed.written,
            "files_already_there": self.landed.already_there,
        }
