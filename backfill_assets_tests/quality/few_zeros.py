"""A rule of one's own: what ``docs/your-own-data.md`` shows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from backfill_assets.model.declaration import Aggregates, DayFacts, DayRule, GateFinding


@dataclass(frozen=True)
class FewZeros(DayRule):
    """No more than a share of a column is zero."""

    column: str
    at_most: Decimal
    name_format = "few_zeros_{column}"
    dimension = "validity"

    def measure(self) -> Aggregates:
        return {f"zeros_{self.column}": lambda rows: rows.count(where=rows[self.column] == 0)}

    def judge(self, facts: DayFacts) -> GateFinding:
        zeros, rows = facts.count(f"zeros_{self.column}"), facts.count("rows")
        return GateFinding(
            zeros <= rows * self.at_most,
            observed=f"{zeros} of {rows} rows with {self.column} 0",
            expected=f"at most {self.at_most:%}",
            next_step=f"Ask the source what a {self.column} of 0 means, then build this day again.",
        )
