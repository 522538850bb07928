"""How late rows may land, and what becomes of later ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from backfill_assets.text import format_count

LATE_ROWS = "late_rows"
"""Metric: rows that landed too late."""
Beyond = Literal["rebuild", "quarantine", "ask"]
"""Built like others, rejected, or left to a person."""

WAITING = ("waiting", "waiting_hash_sum")
"""Metrics: what raw has received since a closed day was built; watchdogs add them to what they measure."""


@dataclass(frozen=True)
class Lateness:
    days: int
    beyond: Beyond = "rebuild"

    def asks(self, metrics: Mapping[str, object]) -> str:
        """Why a person decides, or empty."""
        late = int(str(metrics.get(LATE_ROWS) or 0)) if self.beyond == "ask" else 0
        days = format_count(self.days, "day")
        return f"{format_count(late, 'row')} landed more than {days} after their day" if late else ""
