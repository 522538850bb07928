"""How late the rows of a source may land, and what becomes of those that land later. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from backfill_assets.text import format_count

LATE_ROWS = "late_rows"
"""The metric that counts rows which landed later than their source may."""
Beyond = Literal["rebuild", "quarantine", "ask"]
"""Rows that land too late are rows like all others, or are rejected, or are left to a person with all of their day."""


@dataclass(frozen=True)
class Lateness:
    """What a dataset declares about late rows."""

    days: int
    """Rows that land so many days after their day are in time."""
    beyond: Beyond = "rebuild"

    def asks(self, metrics: Mapping[str, object]) -> str:
        """Why the rows of a day of raw with ``metrics`` are left to a person; empty if they are not.

        Rows that came in time came before those that are late: a day that has late ones gained those last.
        """
        late = int(str(metrics.get(LATE_ROWS) or 0)) if self.beyond == "ask" else 0
        days = format_count(self.days, "day")
        return f"{format_count(late, 'row')} landed more than {days} after their day" if late else ""
