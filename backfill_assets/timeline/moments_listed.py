"""The moments worth going to: publications, changes of columns and of versions, and gates that failed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from backfill_assets.published.history import PublicationRecord
from backfill_assets.text import format_count, format_first

Columns = Mapping[str, str]
"""The columns of a table, each with its type."""
_MOST_COLUMNS = 5


@dataclass(frozen=True)
class ColumnsChanged:
    """What became of the columns of a table: names, and of other types what they were and are."""

    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()
    other_types: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [
            *(f"+{name}" for name in self.came),
            *(f"-{name}" for name in self.went),
            *(f"{name} {was} -> {now}" for name, (was, now) in self.other_types.items()),
        ]
        return format_first(parts, _MOST_COLUMNS)


@dataclass(frozen=True)
class FailedGate:
    """A gate that held days of a table back: nothing of them was published."""

    table: str
    first_bad_day: date
    days: int
    why: str
    at: datetime
    by: str
    """The campaign, or the staging of a run."""


@dataclass(frozen=True)
class MomentWorthGoingTo:
    """A publication that changed what days hold, or the one that was newest when a gate failed."""

    publication: str
    at: datetime
    by: str
    changed: Mapping[str, int] = field(default_factory=dict)
    """Days, by table; none where a gate failed."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The versions of the logic that the days came from, by table."""
    switched: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Tables whose days came from another version before, and from which to which."""
    columns: Mapping[str, ColumnsChanged] = field(default_factory=dict)
    """Tables whose columns changed with it."""
    failed: FailedGate | None = None
    """The gate that failed after it."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it is worth going to for."""
        if self.failed is not None:
            return ("failed gate",)
        found = {"schema change": self.columns, "version switch": self.switched}
        return tuple(kind for kind, what in found.items() if what) or ("publication",)


def publications_worth_going_to(
    records: Iterable[PublicationRecord], tables: Collection[str]
) -> list[MomentWorthGoingTo]:
    """Those of ``records``, which come newest first, that brought days of ``tables`` and were not mere maintenance."""
    found: list[MomentWorthGoingTo] = []
    for each in records:
        parts = {table: part for table, part in each.tables.items() if table in tables}
        if each.outcome != "done" or each.kind == "compact" or not parts or each.closed_at is None:
            continue
        changed = {table: len(part.days) for table, part in parts.items()}
        versions = {table: tuple(sorted(part.code_versions)) for table, part in parts.items()}
        found.append(MomentWorthGoingTo(each.publication, each.closed_at, each.launched_by, changed, versions))
    return found


def with_switches(found: Sequence[MomentWorthGoingTo]) -> list[MomentWorthGoingTo]:
    """The same, newest first, with the tables whose days came from another version in the publication before."""
    newest: dict[str, str] = {}
    switched: list[MomentWorthGoingTo] = []
    for each in reversed(found):
        now = {table: names[0] for table, names in each.versions.items() if len(names) == 1}
        moved = {table: (newest[table], name) for table, name in now.items() if newest.get(table, name) != name}
        switched.append(replace(each, switched=moved))
        newest |= now
    return switched[::-1]


def columns_changed(before: Columns, after: Columns) -> ColumnsChanged | None:
    """What became of the columns; None if they are the same."""
    both = before.keys() & after.keys()
    changed = ColumnsChanged(
        came=tuple(name for name in after if name not in before),
        went=tuple(name for name in before if name not in after),
        other_types={
            name: (before[name], after[name]) for name in after if name in both and before[name] != after[name]
        },
    )
    return None if changed == ColumnsChanged() else changed


def first_gates(failed: Iterable[FailedGate]) -> list[FailedGate]:
    """One of each table, reason and launcher: the newest, with the first bad day of all."""
    found: dict[tuple[str, str, str], FailedGate] = {}
    for each in sorted(failed, key=lambda gate: gate.at):
        key = each.table, each.why, each.by
        before = found.get(key)
        first = min(each.first_bad_day, before.first_bad_day) if before else each.first_bad_day
        found[key] = replace(each, first_bad_day=first, days=max(each.days, before.days if before else 0))
    return list(found.values())


def with_failed_gates(
    found: Sequence[MomentWorthGoingTo], failed: Iterable[FailedGate], most: int
) -> list[MomentWorthGoingTo]:
    """Both, newest first: a failed gate is listed with the publication that was newest then.

    One that failed before all of ``found`` is left out: what was published then is not among them.
    """
    gates = []
    for gate in first_gates(failed):
        before = next((each for each in found if each.at <= gate.at), None)
        if before is not None:
            gates.append(MomentWorthGoingTo(before.publication, gate.at, gate.by, failed=gate))
    return sorted([*found, *gates], key=lambda each: each.at, reverse=True)[:most]


def what_changed(moment: MomentWorthGoingTo) -> str:
    """In a few words, for a person."""
    if (gate := moment.failed) is not None:
        days = f"{format_count(gate.days, 'day')} of {gate.table} held back, the first is {gate.first_bad_day}"
        return f"gate failed: {days}: {gate.why}"
    return "; ".join(_table_changed(moment, table, count) for table, count in moment.changed.items())


def _table_changed(moment: MomentWorthGoingTo, table: str, count: int) -> str:
    switch = moment.switched.get(table)
    versions = ", ".join(moment.versions[table]) or "unknown"
    before = f" ({switch[0]} before)" if switch else ""
    columns = moment.columns.get(table)
    return f"{format_count(count, 'day')} of {versions}{before}: {table}" + (f", columns {columns}" if columns else "")
