"""How much of what was received is in quarantine, also where that is tolerated: by source and day, from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import islice

from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.quarantine import general
from backfill_assets.model.declaration import Step
from backfill_assets.report.answer import Quantity
from backfill_assets.text import format_count, percent

_AT_ONCE, _MOST_BATCHES = 1_000, 10


@dataclass(frozen=True)
class RejectedRows:
    """The rows of published days of one source that are in ``quarantine``, and missing from ``table`` beside it."""

    table: str
    quarantine: str
    received: Mapping[date, int]
    """Of every day that has rejected rows; 0 for one that was published before it was counted."""
    rejected: Mapping[date, int]
    received_in_all: int
    """Of all published days."""

    @property
    def worst(self) -> date:
        """The day that lacks the greatest share."""
        return max(self.rejected, key=lambda day: (_share(self.rejected[day], self.received[day]), day))

    @property
    def share(self) -> Quantity:
        """Of the received rows; unknown for days that were published before they were counted."""
        lacking = sum(self.rejected.values())
        known = self.received_in_all >= lacking
        return Quantity(Decimal(lacking) / self.received_in_all if known else None, "share")

    def sentence(self, reason: str = "") -> str:
        """``reason`` is the commonest of the worst day."""
        days, worst = len(self.rejected), self.worst
        total = rejected_of(sum(self.rejected.values()), self.received_in_all)
        of_day = rejected_of(self.rejected[worst], self.received[worst])
        on = f"on {worst}" if days == 1 else f"on {format_count(days, 'day')}. The worst is {worst}: {of_day}"
        return f"{self.table} lacks {of_day if days == 1 else total} {on}{f', most often {reason}' if reason else ''}"


def rejected_of(rejected: int, received: int) -> str:
    """``400 of 3,286 received rows (12.2 %)``."""
    if received < rejected:
        return format_count(rejected, "row")
    share = percent(_share(rejected, received)).removeprefix("+")
    return f"{rejected:,} of {format_count(received, 'received row')} ({share})"


def rejected_rows(steps: Iterable[Step], states: Mapping[TableDay, DayState]) -> list[RejectedRows]:
    """What is in quarantine of the sources of ``steps``, in their order; those that lack nothing are left out."""
    found = []
    for step in steps:
        for table in (each.name for each in step.tables if each.layer == "quarantine"):
            days = {day: state.content for (name, day), state in states.items() if name == table and state.content}
            received = {day: _received(content) for day, content in days.items()}
            rejected = {day: content.rows for day, content in days.items() if content.rows}
            if rejected:
                of_days = {day: received[day] for day in rejected}
                found.append(RejectedRows(step.name, table, of_days, rejected, sum(received.values())))
    return found


def commonest_reason(storage: Storage, version: int, table: str, day: date) -> str:
    """The reason that most rejected rows of ``day`` have, in its general form; a part of each file is read.

    ``version`` is that of the quarantine ``table``. Empty if it cannot be read.
    """
    counts: Counter[str] = Counter()
    try:
        for path in sorted(read_log(storage, table, version).by_day().get(day, ())):
            batches = storage.parquet_batches(f"{table}/{path}", _AT_ONCE, ("reasons",))
            for batch in islice(batches, _MOST_BATCHES):
                for reasons in batch.to_pydict().get("reasons", ()):
                    counts.update(set(map(general, reasons)))
    except (BackfillError, OSError):
        return ""
    return min(counts, key=lambda reason: (-counts[reason], reason), default="")


def _received(content: DayContent) -> int:
    """What raw had received when the day was built."""
    of_raw = (name for name in content.metrics if name.startswith("from.raw_") and name.endswith(".received"))
    return int(content.metrics.get(next(of_raw, "")) or 0)


def _share(rejected: int, received: int) -> Decimal:
    return Decimal(rejected) / received if received else Decimal(1)
