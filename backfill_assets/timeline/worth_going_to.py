"""Finds the moments worth going to: in the publication log, in Delta's logs, in what runs staged, and in journals.

The newest are found first, and no more is read than is shown. What a run staged and its gates held back is kept for
the rollback window; what a campaign held back is in its journal for good.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime

from backfill_assets.days import DayRange
from backfill_assets.lakehouse import campaign_journal
from backfill_assets.lakehouse.campaign_journal import HELD_BACK_DAYS, JournalEntry
from backfill_assets.lakehouse.delta_log import VersionGone, schema_at
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, NAMED, Timeline, open_since
from backfill_assets.published.history import PublicationRecord, history
from backfill_assets.timeline.moments_listed import (
    Columns,
    ColumnsChanged,
    FailedGate,
    MomentWorthGoingTo,
    columns_changed,
    publications_worth_going_to,
    with_failed_gates,
    with_switches,
)

_LONGEST_WHY = 200


def moments_worth_going_to(storage: Storage, tables: Collection[str], most: int) -> list[MomentWorthGoingTo]:
    """Of ``tables``, newest first, at most ``most``."""
    # One more than is shown: what the oldest one changed is seen beside the one before it.
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
    """The newest publications of ``tables``, and by table and publication the Delta version that each made."""
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


def _changes_of_columns(storage: Storage, table: str, versions: dict[str, int]) -> dict[str, ColumnsChanged]:
    """What became of the columns of ``table`` with each publication, of those that made ``versions``.

    By halves: of versions with equal columns, none between them is looked at.
    """
    ordered = sorted(versions.items(), key=lambda each: each[1])
    known: dict[int, Columns | None] = {}

    def columns(number: int) -> Columns | None:
        version = ordered[number][1]
        if version not in known:
            known[version] = _columns_at(storage, table, version)
        return known[version]

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
    """None where the Delta log of the version was cleaned up."""
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
    """What runs have staged and not published, the newest ``most`` of each table."""
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
    """What the journals of the newest ``most`` campaigns say that was held back."""
    for entries in campaign_journal.newest(storage, most):
        for entry in entries:
            yield from _failed_by(entry, tables)


def _failed_by(entry: JournalEntry, tables: Collection[str]) -> Iterator[FailedGate]:
    for table, ranges in entry.report.get(HELD_BACK_DAYS, {}).items():
        days = [day for text in ranges for day in DayRange.parse(text)]
        if table in tables and days:
            lines = [str(line) for line in entry.report.get("held_back", ()) if f"{table} " in str(line)]
            why = lines[0][:_LONGEST_WHY] if lines else "its gates"
            yield FailedGate(table, min(days), len(days), why, entry.at, entry.by)
