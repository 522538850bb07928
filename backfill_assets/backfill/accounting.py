"""Where everything that was received went, by table: what the gates proved for each day, added up for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.datasets.dataset import Step
from backfill_assets.lakehouse.publication import DayContent, DayState

_FROM = "from."


@dataclass(frozen=True)
class AccountedTable:
    """One table over a range of days; a count is None where the table cannot know it (a report has no raw rows)."""

    table: str
    days: int
    published: int
    received: int | None
    quarantined: int | None
    deduplicated: int | None
    superseded: int | None
    reconciled: int
    """Days on which everything received is accounted for; a report's days once they agree with what they sum."""


def account(
    steps: Sequence[Step], days: Sequence[date], states: Mapping[tuple[str, str], DayState]
) -> list[AccountedTable]:
    """One entry for each table that people read; quarantine tables are a column of the table beside them."""
    found = []
    for step in steps:
        rejects = next((table.name for table in step.tables if table.layer == "quarantine"), None)
        read = [table.name for table in step.tables if table.layer != "quarantine"]
        found += [_account(name, rejects, days, states) for name in read]
    return found


@dataclass(frozen=True)
class _Day:
    published: int
    received: int | None
    quarantined: int | None
    deduplicated: int | None
    superseded: int | None

    @property
    def reconciled(self) -> bool:
        if self.received is None:
            return True
        parts = (self.quarantined, self.deduplicated, self.superseded)
        return self.received == self.published + sum(part or 0 for part in parts)


def _account(
    table: str, rejects: str | None, days: Sequence[date], states: Mapping[tuple[str, str], DayState]
) -> AccountedTable:
    found = []
    for day in days:
        content = _content(states, table, day)
        if content is not None:
            found.append(_day(content, _content(states, rejects, day) if rejects else None))
    return AccountedTable(
        table=table,
        days=len(found),
        published=sum(day.published for day in found),
        received=_total([day.received for day in found]),
        quarantined=_total([day.quarantined for day in found]),
        deduplicated=_total([day.deduplicated for day in found]),
        superseded=_total([day.superseded for day in found]),
        reconciled=sum(day.reconciled for day in found),
    )


def _content(states: Mapping[tuple[str, str], DayState], table: str, day: date) -> DayContent | None:
    state = states.get((table, str(day)))
    return state.content if state else None


def _day(content: DayContent, rejected: DayContent | None) -> _Day:
    """A bronze day also holds the rows that a newer version on another day supersedes; they are not published facts."""
    own_superseded = content.metrics.get("superseded")
    superseded = _number(content, "superseded", "bronze_")
    return _Day(
        published=content.rows - int(own_superseded or 0),
        received=_number(content, "received", "raw_"),
        quarantined=rejected.rows if rejected else _number(content, "rows", "quarantine_"),
        deduplicated=_number(content, "deduplicated", "bronze_"),
        superseded=superseded,
    )


def _number(content: DayContent, metric: str, layer: str) -> int | None:
    """A metric of the day itself, or of the table of ``layer`` that it was built from, as recorded with it."""
    for name, value in content.metrics.items():
        if name == metric or (name.startswith(f"{_FROM}{layer}") and name.endswith(f".{metric}")):
            return int(value) if value is not None else None
    return None


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
