"""Moments worth rewinding to, from logs: publications, changed columns, version switches and failed gates."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cache

from backfill_assets.days import DayRange
from backfill_assets.lakehouse import campaign_journal
from backfill_assets.lakehouse.campaign_journal import JournalEntry
from backfill_assets.lakehouse.campaign_reports import StagedReport
from backfill_assets.lakehouse.delta_log import VersionGone, schema_at
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, NAMED, Timeline, open_since
from backfill_assets.state.history import PublicationRecord, history
from backfill_assets.text import format_count, format_first

Columns = Mapping[str, str]
_MOST_COLUMNS = 5


@dataclass(frozen=True)
class ColumnsChanged:
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
    table: str
    first_bad_day: date
    days: int
    why: str
    at: datetime
    by: str


@dataclass(frozen=True)
class MomentWorthGoingTo:
    """A publication that changed content, or the newest one before a gate failed."""

    publication: str
    at: datetime
    by: str
    changed: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    switched: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    columns: Mapping[str, ColumnsChanged] = field(default_factory=dict)
    failed: FailedGate | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        if self.failed is not None:
            return ("failed gate",)
        found = {"schema change": self.columns, "version switch": self.switched}
        return tuple(kind for kind, what in found.items() if what) or ("publication",)


def publications_worth_going_to(
    records: Iterable[PublicationRecord], tables: Collection[str]
) -> list[MomentWorthGoingTo]:
    """From ``records`` (newest first), those that brought days of ``tables``; no compactions."""
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
    newest: dict[str, str] = {}
    switched: list[MomentWorthGoingTo] = []
    for each in reversed(found):
        now = {table: names[0] for table, names in each.versions.items() if len(names) == 1}
        moved = {table: (newest[table], name) for table, name in now.items() if newest.get(table, name) != name}
        switched.append(replace(each, switched=moved))
        newest |= now
    return switched[::-1]


def columns_changed(before: Columns, after: Columns) -> ColumnsChanged | None:
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
    """Both, newest first; a failed gate names the newest publication then, and is left out before all of ``found``."""
    gates = []
    for gate in first_gates(failed):
        before = next((each for each in found if each.at <= gate.at), None)
        if before is not None:
            gates.append(MomentWorthGoingTo(before.publication, gate.at, gate.by, failed=gate))
    return sorted([*found, *gates], key=lambda each: each.at, reverse=True)[:most]


def what_changed(moment: MomentWorthGoingTo) -> str:
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


_LONGEST_WHY = 200


def moments_worth_going_to(storage: Storage, tables: Collection[str], most: int) -> list[MomentWorthGoingTo]:
    # One more than is listed: the oldest is compared with the one before it.
    found, versions = _publications(storage, tables, most + 1)
    listed = with_switches(found)
    for table in tables:
        changes = _changes_of_columns(storage, table, versions.get(table, {}))
        listed = [
            replace(each, columns={**each.columns, table: changes[each.publication]})
            if each.publication in changes
            else each
            for each in listed
        ]
    return with_failed_gates(listed[:most], _failed_gates(storage, tables, most), most)


def _publications(
    storage: Storage, tables: Collection[str], most: int
) -> tuple[list[MomentWorthGoingTo], dict[str, dict[str, int]]]:
    asked = most
    while True:
        records: dict[str, PublicationRecord] = {}
        complete = True
        for table in tables:
            of_table = history(storage, table, most=asked)
            complete &= len(of_table) < asked
            records |= {each.publication: each for each in of_table}
        newest = sorted(records.values(), key=lambda each: each.prepared_at, reverse=True)
        found = publications_worth_going_to(newest, tables)
        if complete or len(found) >= most:
            break
        asked *= 4  # most of them were maintenance
    found = sorted(found, key=lambda each: each.at, reverse=True)[:most]
    versions: dict[str, dict[str, int]] = {}
    for each in found:
        for table, part in records[each.publication].tables.items():
            if part.version is not None:
                versions.setdefault(table, {})[each.publication] = part.version
    return found, versions


# -------------------------------------------------------------------- columns


def _changes_of_columns(storage: Storage, table: str, versions: Mapping[str, int]) -> dict[str, ColumnsChanged]:
    ordered = sorted(versions.items(), key=lambda each: each[1])

    @cache
    def columns(number: int) -> Columns | None:
        return _columns_at(storage, table, ordered[number][1])

    def between(low: int, high: int) -> Iterator[tuple[str, ColumnsChanged]]:
        before, after = columns(low), columns(high)
        if after is None or before == after:
            return
        if high - low > 1:
            middle = (low + high) // 2
            yield from between(low, middle)
            yield from between(middle, high)
        elif before is not None and (changed := columns_changed(before, after)) is not None:
            yield ordered[high][0], changed

    return dict(between(0, len(ordered) - 1)) if len(ordered) > 1 else {}


def _columns_at(storage: Storage, table: str, version: int) -> Columns | None:
    try:
        fields = json.loads(schema_at(storage, table, version))["fields"]
    except VersionGone:
        return None
    return {each["name"]: _type_text(each["type"]) for each in fields}


def _type_text(kind: object) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)


# ---------------------------------------------------------------------- gates


def _failed_gates(storage: Storage, tables: Collection[str], most: int) -> list[FailedGate]:
    return [*_failed_in_runs(storage, tables, most), *_failed_in_campaigns(storage, tables, most)]


def _failed_in_runs(storage: Storage, tables: Collection[str], most: int) -> Iterator[FailedGate]:
    for table in tables:
        since = open_since(storage, table)
        names = sorted((name for name in since if not name.startswith((CAMPAIGN, NAMED))), reverse=True)
        for name in names[:most]:
            at = datetime.fromtimestamp(since[name] / 1000, UTC)
            yield from _failed_in(Timeline(storage, table, name), at)


def _failed_in(timeline: Timeline, at: datetime) -> Iterator[FailedGate]:
    days: dict[str, list[date]] = {}
    for day, staged in timeline.days().items():
        broken = [each.rule for each in staged.verdict.rules if each.holds_back] if staged.verdict else []
        for rule in broken:
            days.setdefault(rule, []).append(day)
    for rule, bad in days.items():
        yield FailedGate(timeline.table, min(bad), len(bad), rule, at, timeline.name)


def _failed_in_campaigns(storage: Storage, tables: Collection[str], most: int) -> Iterator[FailedGate]:
    for entries in campaign_journal.newest(storage, most):
        for entry in entries:
            yield from _failed_by(entry, tables)


def _failed_by(entry: JournalEntry, tables: Collection[str]) -> Iterator[FailedGate]:
    report = entry.reported(StagedReport)
    for table, ranges in (report.held_back_days or {}).items():
        days = [day for text in ranges for day in DayRange.parse(text)]
        if table in tables and days:
            lines = [line for line in report.held_back if f"{table} " in line]
            why = lines[0][:_LONGEST_WHY] if lines else "its gates"
            yield FailedGate(table, min(days), len(days), why, entry.at, entry.by)
