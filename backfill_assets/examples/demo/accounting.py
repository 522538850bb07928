"""Accounts for all received rows by recorded metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent, DayState, content_in
from backfill_assets.model.declaration import Step
from backfill_assets.model.deletion import DELETED, DELETED_HASHES

_FROM = "from."
_WAYS = ("quarantined", "deduplicated", "superseded", "deleted")


@dataclass(frozen=True)
class AccountedTable:
    """Unknown counts are None, as of a report."""

    table: str
    days: int
    published: int
    received: int | None
    quarantined: int | None
    deduplicated: int | None
    superseded: int | None
    reconciled: int
    """Days that account for every received row."""
    deleted: int | None = None


def account(steps: Sequence[Step], days: Sequence[date], states: Mapping[TableDay, DayState]) -> list[AccountedTable]:
    """Quarantine is a column of the table beside it; weekly and monthly tables count periods."""
    accounts = []
    for step in steps:
        rejects = next((table.name for table in step.tables if table.layer == "quarantine"), None)
        read = [table.name for table in step.tables if table.layer != "quarantine"]
        accounts += [_account(name, rejects, step.cadence.starts(days), states) for name in read]
    return accounts


@dataclass(frozen=True)
class _Part:
    rows: int
    content: int | None


@dataclass(frozen=True)
class _Day:
    published: _Part
    received: _Part | None
    others: Mapping[str, _Part | None]

    @property
    def reconciled(self) -> bool:
        if self.received is None:
            return True
        parts = [part for part in (self.published, *self.others.values()) if part is not None]
        contents = [part.content for part in parts if part.content is not None]
        measured = self.received.content is not None and len(contents) == len(parts)
        return self.received.rows == sum(part.rows for part in parts) and (
            not measured or self.received.content == sum(contents)
        )


def _account(
    table: str, rejects: str | None, days: Sequence[date], states: Mapping[TableDay, DayState]
) -> AccountedTable:
    day_accounts = []
    for day in days:
        content = content_in(states, TableDay(table, day))
        if content is not None:
            day_accounts.append(_day(content, content_in(states, TableDay(rejects, day)) if rejects else None))
    return AccountedTable(
        table=table,
        days=len(day_accounts),
        published=sum(day.published.rows for day in day_accounts),
        received=_total([day.received for day in day_accounts]),
        reconciled=sum(day.reconciled for day in day_accounts),
        **{way: _total([day.others[way] for day in day_accounts]) for way in _WAYS},
    )


def _day(content: DayContent, rejected: DayContent | None) -> _Day:
    """Compared with raw as of the day's build."""
    received = _from(content, "raw_", "received", "content_hash_sum")
    superseded = _own_part(content, "superseded")
    others = (
        _rows(rejected) if rejected else _from(content, "quarantine_", "rows", "content_hash_sum"),
        _own_part(content, "deduplicated") or _from_bronze(content, "deduplicated"),
        superseded or _from_bronze(content, "superseded"),
        _from(content, "raw_", DELETED, DELETED_HASHES),
    )
    return _Day(
        published=_published_part(content, superseded),
        received=received or _part(content, "received", "content_hash_sum"),
        others=dict(zip(_WAYS, others, strict=True)),
    )


def _published_part(content: DayContent, superseded: _Part | None) -> _Part:
    """Without markers, and rows that a newer version on another day supersedes."""
    own = content.metrics
    rows = int(own["received"] or 0) if "received" in own else content.rows - (superseded.rows if superseded else 0)
    hashes = _number(own.get("recomputed_hash_sum"))
    taken = superseded.content if superseded else 0
    return _Part(rows, None if hashes is None or taken is None else hashes - taken)


def _rows(content: DayContent) -> _Part:
    return _Part(content.rows, _number(content.metrics.get("content_hash_sum")))


def _own_part(content: DayContent, name: str) -> _Part | None:
    return _part(content, name, f"{name}_hash_sum")


def _from_bronze(content: DayContent, name: str) -> _Part | None:
    return _from(content, "bronze_", name, f"{name}_hash_sum")


def _from(content: DayContent, layer: str, rows: str, hashes: str) -> _Part | None:
    for name in content.metrics:
        if name.startswith(f"{_FROM}{layer}") and name.endswith(f".{rows}"):
            table = name.removesuffix(rows)
            return _part(content, name, f"{table}{hashes}")
    return None


def _part(content: DayContent, rows: str, hashes: str) -> _Part | None:
    counted = _number(content.metrics.get(rows))
    return None if counted is None else _Part(counted, _number(content.metrics.get(hashes)))


def _number(value: int | str | None) -> int | None:
    return None if value is None else int(value)


def _total(parts: Sequence[_Part | None]) -> int | None:
    known = [part.rows for part in parts if part is not None]
    return sum(known) if known else None
