"""Whether a source delivered in time, and all that it says it sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.text import format_duration


class Totals(BaseModel):
    """Of what a source sent on a day: how many rows, and the sums of some of their fields."""

    model_config = ConfigDict(frozen=True)

    rows: int
    sums: Mapping[str, Decimal] = {}

    def __str__(self) -> str:
        return ", ".join([f"rows {self.rows:,}", *(f"{name} {value:,}" for name, value in sorted(self.sums.items()))])


def as_sent(sent: Totals | None, landed: Totals, control: str) -> RuleOutcome:
    """Whether there is what the source says that it sent; without ``sent`` its file ``control`` is missing."""
    if sent is None:
        return _sent(str(landed), f"{control} beside the files", "Ask the source for it. The rows are taken in.")
    next_step = "Ask the source for the rest as a new file; if its totals are wrong, for a new control file."
    return _sent(str(landed), str(sent), "" if landed == sent else next_step)


def unreadable(problem: str, next_step: str) -> RuleOutcome:
    """The verdict on a delivery of which a file cannot be read."""
    return _sent(problem, "files that can be read", next_step)


def _sent(observed: str, expected: str, next_step: str) -> RuleOutcome:
    return RuleOutcome("as_sent", "completeness", not next_step, observed, expected, next_step)


def delivered(day: date, within: timedelta, landed_at: datetime | None, now: datetime) -> RuleOutcome | None:
    """Whether the delivery of ``day`` is there, or was late; None while nothing has landed and it is not due yet.

    It is due ``within`` a time after the day has ended, in UTC.
    """
    due = datetime.combine(day, time(), UTC) + timedelta(days=1) + within
    if landed_at is None and now < due:
        return None
    expected = f"by {due:%Y-%m-%d %H:%M} UTC"
    if landed_at is None:
        next_step = "Ask the source; if the day really has no rows, land an empty file. It passes as soon as it lands."
        return RuleOutcome("delivered", "timeliness", False, "nothing landed", expected, next_step)
    late = (landed_at - due).total_seconds()
    observed = f"landed {landed_at:%Y-%m-%d %H:%M} UTC" + (f", {format_duration(late)} late" if late > 0 else "")
    return RuleOutcome("delivered", "timeliness", True, observed, expected)
