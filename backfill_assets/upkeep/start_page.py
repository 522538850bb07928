"""The state of a lakehouse in a sentence or two, and what needs a person now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from backfill_assets.days import Cadence, TableDay
from backfill_assets.lakehouse.records import DayState
from backfill_assets.model.declaration import Dataset
from backfill_assets.text import format_count, format_ranges

_MOST_RANGES = 2
_MOST_LINES = 12
NOTHING = "Nothing."


@dataclass(frozen=True)
class DatasetState:
    """The published days of one dataset; without any, it was never built."""

    name: str
    tables: int
    days: tuple[date, ...] = ()

    def __str__(self) -> str:
        if not self.days:
            return f"{self.name}: nothing is published yet"
        return (
            f"{self.name}: {format_count(len(self.days), 'day')} in {format_count(self.tables, 'table')}, "
            f"{format_ranges(self.days, _MOST_RANGES)}"
        )


@dataclass(frozen=True)
class StartPage:
    """What the page ``start_here`` says."""

    datasets: tuple[DatasetState, ...] = ()
    newest: str = ""
    """The newest publication."""
    newest_at: datetime | None = None
    under_way: tuple[str, ...] = ()
    """Repairs that were launched, and days that wait for something that is under way."""
    for_people: tuple[str, ...] = field(default=())
    in_quarantine: tuple[str, ...] = ()
    """What published days lack, a line for each source."""

    @property
    def sentence(self) -> str:
        """Of the datasets that have data; of the first if none has."""
        if not any(each.days for each in self.datasets):
            return "Nothing is published yet. Land data, then launch a range."
        built = "; ".join(str(each) for each in self.datasets if each.days)
        moment = f" at {self.newest_at:%Y-%m-%d %H:%M} UTC" if self.newest_at else ""
        newest = f" The newest publication is {self.newest}{moment}." if self.newest else ""
        return f"Published: {built}. {self._health}{newest}"

    @property
    def _health(self) -> str:
        if self.for_people:
            verb = "needs" if len(self.for_people) == 1 else "need"
            return f"{format_count(len(self.for_people), 'thing')} below {verb} a person."
        if self.under_way:
            return "The sensor `repairs` is at work."
        lack = " Rows that were received are in quarantine, see below." if self.in_quarantine else ""
        return f"Every published day is made of what is published now: nothing to repair.{lack}"

    @property
    def people(self) -> str:
        """What needs a person, as a list in Markdown."""
        if not self.for_people:
            return NOTHING
        lines = [f"- {line}" for line in self.for_people[:_MOST_LINES]]
        left = len(self.for_people) - len(lines)
        return "\n".join([*lines, *([f"- and {left} more: see the newest tick of `repairs`"] if left else [])])

    @property
    def quarantine(self) -> str:
        """What was received and is in no table that people read, as a list in Markdown."""
        return "\n".join(f"- {line}" for line in self.in_quarantine) or NOTHING


def dataset_states(datasets: Sequence[Dataset], states: Mapping[TableDay, DayState]) -> tuple[DatasetState, ...]:
    """The published days of the dataset's last step that has a day a partition, and how many tables it has."""
    days: dict[str, set[date]] = {}
    for (table, day), state in states.items():
        if state.content is not None:
            days.setdefault(table, set()).add(day)
    return tuple(_dataset_state(dataset, days) for dataset in datasets)


def _dataset_state(dataset: Dataset, days: Mapping[str, Iterable[date]]) -> DatasetState:
    last_daily = [step for step in dataset.steps if step.cadence is Cadence.DAILY][-1]
    built = [table for table in dataset.tables if days.get(table.name)]
    return DatasetState(dataset.name, len(built), tuple(sorted(days.get(last_daily.name, ()))))
