"""The quarantine: its published rows, counted by reason and day, without a JVM."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.corrections import resolved_positions
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Source, Step
from backfill_assets.published.snapshot import Snapshot

GENERAL_FORMS = (
    (r"(?s)^([^:]+: )'.*' is (not? [^']*)$", r"\1is \2"),
    (r"(?s)^(.*?) \(was .*\)$", r"\1"),
)
"""Remove the landed value from a reason: patterns and replacements, each applied once, in order."""


def general(reason: str) -> str:
    """``quantity: is not a bigint`` for ``quantity: 'many' is not a bigint``: the column and the rule."""
    for pattern, replacement in GENERAL_FORMS:
        shortened = re.sub(pattern, replacement, reason, count=1)
        if shortened != reason:
            return shortened
    return reason


@dataclass(frozen=True)
class Rejects:
    """A quarantine table and what it belongs to: the step that fills it, the raw table and the source it is from."""

    table: str
    step: Step
    raw: str
    source: Source

    @property
    def typed(self) -> str:
        """The table beside it, which holds the accepted rows."""
        return self.step.name

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the accepted rows."""
        return next(table.key for table in self.step.tables if table.name == self.typed)


def all_rejects(catalog: Catalog) -> tuple[Rejects, ...]:
    """Every quarantine table, in build order."""
    steps = (step for step in catalog.steps if any(table.layer == "quarantine" for table in step.tables))
    return tuple(_rejects(catalog, step) for step in steps)


def rejects_named(catalog: Catalog, name: str | None) -> tuple[Rejects, ...]:
    """The quarantine table ``name``, or that of the step that builds ``name``; all of them for None.

    Raises :class:`InvalidRequest` for a typo, and for a table that nothing is rejected from.
    """
    if name is None:
        return all_rejects(catalog)
    step = catalog.step(name)
    matching = tuple(rejects for rejects in all_rejects(catalog) if rejects.step.name == step.name)
    if not matching:
        known = ", ".join(rejects.table for rejects in all_rejects(catalog))
        raise InvalidRequest(f"{name} has no quarantine.", hint=f"Quarantine tables: {known}.")
    return matching


def _rejects(catalog: Catalog, step: Step) -> Rejects:
    table = next(table.name for table in step.tables if table.layer == "quarantine")
    sources = {read.table: catalog.step(read.table).source for read in step.version().reads}
    raw, source = next((name, source) for name, source in sources.items() if source is not None)
    return Rejects(table, step, raw, source)


@dataclass(frozen=True)
class Group:
    """Rows of one table that were rejected for one reason. A row with two reasons is in two groups."""

    table: str
    reason: str
    """In its general form; ``example`` has one as it was given."""
    days: tuple[date, ...]
    rows: int
    resolved: int
    """Rows that are resolved: a version that is as new or newer was accepted since."""
    example: str
    file: str
    line: int


def groups(storage: Storage, rejects: Iterable[Rejects], days: DayRange | None = None) -> list[Group]:
    """The rejected rows by table and reason, the most frequent first; of ``days`` or of all there are."""
    snapshot = Snapshot.newest(storage)
    return [group for each in rejects for group in _groups(snapshot, each, days)]


def letters(snapshot: Snapshot, table: str, days: DayRange | None = None) -> list[dict[str, Any]]:
    """The rejected rows of ``days`` as they were landed, in the order of day, file and line."""
    rows = snapshot.rows(table, days)
    order = [(name, "ascending") for name in ("day", "source_file", "source_line")]
    rejected: list[dict[str, Any]] = [] if rows is None else rows.sort_by(order).to_pylist()
    return rejected


def _groups(snapshot: Snapshot, rejects: Rejects, days: DayRange | None) -> list[Group]:
    rows = letters(snapshot, rejects.table, days)
    overtaken = resolved_positions(snapshot, rejects.source, rejects.typed, rows)
    members: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        for reason in dict.fromkeys(map(general, row["reasons"])):
            members.setdefault(reason, []).append(number)
    groups = [
        _group(rejects.table, reason, [rows[number] for number in at], len(overtaken & set(at)))
        for reason, at in members.items()
    ]
    return sorted(groups, key=lambda group: (-group.rows, group.reason))


def _group(table: str, reason: str, rows: Sequence[Mapping[str, Any]], overtaken: int) -> Group:
    first = rows[0]
    return Group(
        table=table,
        reason=reason,
        days=tuple(sorted({row["day"] for row in rows})),
        rows=len(rows),
        resolved=overtaken,
        example=next(each for each in first["reasons"] if general(each) == reason),
        file=first["source_file"],
        line=first["source_line"],
    )
