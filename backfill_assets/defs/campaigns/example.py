"""What the launchpad of ``campaign/planned`` opens with: a table, and days of it that are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from backfill_assets.days import Cadence, DayRange
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Dataset, Step
from backfill_assets.published.observed import observe
from backfill_assets.published.reading import anything_published

_DAYS = 7


@dataclass(frozen=True)
class PlanExample:
    """``tables`` are those that can be rebuilt; ``target`` is one of them."""

    tables: tuple[str, ...]
    target: str
    days: str

    def is_left(self, target: str, days: str) -> bool:
        """Are ``days`` those that a launchpad opened with, perhaps an earlier one?

        The example moves with what is published. A run loads it anew; a code server has that of its start.
        """
        if days in ("", self.days):
            return True
        try:
            written = DayRange.parse(days)
        except InvalidRequest:
            return False
        is_as_long = written.last - written.first == timedelta(_DAYS - 1)
        return target == self.target and is_as_long and written.last <= DayRange.parse(self.days).last


def plan_example(datasets: Sequence[Dataset], storage: Storage | None = None) -> PlanExample:
    """The table with the most versions of its logic, and its newest published days, or its first days without any."""
    steps = [(dataset, step) for dataset in datasets for step in dataset.steps if step.source is None]
    dataset, step = max(steps, key=lambda each: _worth_showing(each[1]))
    tables = tuple(table.name for _, each in steps for table in each.tables)
    target = step.tables[0].name
    newest = _newest_published_day(storage, target) or dataset.first_day + timedelta(_DAYS - 1)
    first = max(dataset.first_day, newest - timedelta(_DAYS - 1))
    return PlanExample(tables, target, str(DayRange(first, newest)))


def _worth_showing(step: Step) -> tuple[bool, int]:
    return (step.cadence is Cadence.DAILY, len(step.versions))


def _newest_published_day(storage: Storage | None, table: str) -> date | None:
    """None without one; an example is no reason for a code location not to load."""
    try:
        if storage is None or not anything_published(storage):
            return None
        states = observe(storage, [table]).states
    except (BackfillError, OSError):
        return None
    return max((key.day for key, state in states.items() if state.content is not None), default=None)
