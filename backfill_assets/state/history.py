"""The history of publications: what each brought, when, by whom, and what it replaced."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.records import DayLineage, Environment, Position
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.closed_days import BookEntry
from backfill_assets.publish.files import LogFiles, among, equal
from backfill_assets.publish.head import BOOKS, BOOKS_ASKED
from backfill_assets.publish.log import PublicationLog, lineages
from backfill_assets.publish.past import prepared_entries
from backfill_assets.publish.rows import PREPARING_DAY, SWITCHING
from backfill_assets.state.boundaries import DaysBoundary
from backfill_assets.state.positions import publication_boundaries
from backfill_assets.state.stream_positions import PartitionRead, partition_reads

_COLUMNS = ["sequence", "at", "event", "publication", "kind", "outcome", "run", "launched_by", "git_commit", "campaign"]
_COLUMNS += ["reason", "table", "day", "table_version", "rows", "code_version", "replaces"]


@dataclass
class TablePart:
    days: list[date] = field(default_factory=list)
    rows: int = 0
    version: int | None = None
    code_versions: set[str] = field(default_factory=set)
    replaces: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class InputSummary:
    read: Mapping[tuple[str, int | None], list[date]] = field(default_factory=dict)
    """Days by table and Delta version; None if never published before."""
    landed: tuple[str, ...] = ()
    partitions: tuple[PartitionRead, ...] = ()
    boundaries: tuple[DaysBoundary, ...] = ()
    staged: Mapping[str, list[date]] = field(default_factory=dict)
    environments: tuple[Environment, ...] = ()
    approved_by: str = ""
    leaves_stale: Mapping[str, list[date]] = field(default_factory=dict)
    """Published days that read what it brought and did not come along."""


@dataclass
class PublicationRecord:
    """``outcome`` is ``done`` or ``aborted``, while under way ``open`` or ``aborting``."""

    publication: str
    kind: str
    prepared_at: datetime
    outcome: str = "open"
    closed_at: datetime | None = None
    run: str = ""
    launched_by: str = ""
    git_commit: str = ""
    campaign: str = ""
    reason: str = ""
    tables: dict[str, TablePart] = field(default_factory=dict)
    switches: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Old and new version by step, empty for the declared one."""

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.tables.values())


def history(
    storage: Storage, table: str | None = None, days: DayRange | None = None, most: int | None = None
) -> list[PublicationRecord]:
    """Newest first. Reads no before-images, and only log files that such publications lie in."""
    files = PublicationLog(storage).files()
    chosen: dict[str, None] = {}
    for rows in _files_touching(files, table, days).newest_first(["event", "publication", "table", "day"]):
        touched = _touched_rows(among(rows, "event", (PREPARING_DAY, SWITCHING)), table, days)
        chosen |= dict.fromkeys(touched.column("publication").to_pylist()[::-1])
        if most is not None and len(chosen) >= most:
            break
    ids = list(chosen)[:most]
    records = _records_of(files.rows(_COLUMNS, publication=ids).to_pylist())[::-1]
    return [each for each in records if _has_days(each, table, days)][:most]


@dataclass(frozen=True)
class BookWritten:
    """``asked``: it waited for another person."""

    entry: BookEntry
    asked: bool = False


def books_written(storage: Storage, table: str | None = None, days: DayRange | None = None) -> list[BookWritten]:
    """Who closed and reopened days, newest first."""
    rows = PublicationLog(storage).files().rows(["event", "detail"], event=[BOOKS, BOOKS_ASKED]).to_pylist()
    found = [
        BookWritten(BookEntry.model_validate(each), row["event"] == BOOKS_ASKED)
        for row in rows
        for each in json.loads(row["detail"])
    ]
    return [each for each in reversed(found) if _touches(each.entry, table, days)]


def _touches(entry: BookEntry, table: str | None, days: DayRange | None) -> bool:
    overlaps = days is None or (entry.first <= days.last and days.first <= entry.last)
    return overlaps and (table is None or entry.concerns(table))


def _files_touching(files: LogFiles, table: str | None, days: DayRange | None) -> LogFiles:
    if table is not None:
        files = files.holding("table", [table])
    if days is not None:
        files = files.between("day", str(days.first), str(days.last))
    return files


def _touched_rows(rows: pa.Table, table: str | None, days: DayRange | None) -> pa.Table:
    if table is not None:
        rows = equal(rows, table=table)
    if days is not None:
        day = rows.column("day")
        within = pc.and_(pc.greater_equal(day, str(days.first)), pc.less_equal(day, str(days.last)))
        rows = rows.filter(within)
    return rows


def _has_days(record: PublicationRecord, table: str | None, days: DayRange | None) -> bool:
    """An aborted id may be prepared again, for other days."""
    parts = [part for name, part in record.tables.items() if table in (None, name)]
    if days is None and any(table in (None, step) for step in record.switches):
        return True
    return any(days is None or any(day in days for day in part.days) for part in parts)


def inputs(storage: Storage, of: Iterable[PublicationRecord]) -> dict[tuple[str, datetime], InputSummary]:
    """By id and time of PREPARE. Expensive: the log keeps them with the before-images."""
    records = list(of)
    ids = sorted({record.publication for record in records})
    if not ids:
        return {}
    made = lineages(storage, ids)
    computed = {record.publication for record in records if record.kind == "replace" and record.outcome == "done"}
    boundaries = publication_boundaries(storage, computed)
    return {
        (each.publication, each.at): _inputs(
            json.loads(each.detail)["publication"],
            made.get((each.publication, each.at), {}).values(),
            boundaries.get(each.publication, ()),
        )
        for each in prepared_entries(PublicationLog(storage).files(), publication=ids)
    }


def _inputs(
    publication: Mapping[str, Any], made: Iterable[DayLineage], boundaries: Iterable[DaysBoundary]
) -> InputSummary:
    read: dict[tuple[str, int | None], list[date]] = {}
    for each in publication["inputs"]:
        found = read.setdefault((each["table"], each["version"]), [])
        found += [day for text in each["days"] if (day := date.fromisoformat(text)) not in found]
    positions = [
        Position.model_validate(position) for table in publication["tables"] for position in table["positions"]
    ]
    landed = (each.id.split(":", 2)[2] for each in positions if each.id.startswith("landed:"))
    staged: dict[str, set[date]] = {}
    environments: dict[Environment, None] = {}
    for lineage in made:
        for each in (each for each in lineage.reads if each.staged):
            staged.setdefault(each.table, set()).update(each.days)
        if lineage.environment is not None:
            environments[lineage.environment] = None
    return InputSummary(
        read={key: sorted(days) for key, days in read.items()},
        landed=tuple(sorted(landed)),
        partitions=tuple(partition_reads(positions)),
        boundaries=tuple(boundaries),
        staged={table: sorted(days) for table, days in sorted(staged.items())},
        environments=tuple(environments),
        approved_by=_approved_by(publication),
        leaves_stale={
            table: [date.fromisoformat(day) for day in days]
            for table, days in publication.get("leaves_stale", {}).items()
        },
    )


def _approved_by(publication: Mapping[str, Any]) -> str:
    """A rollback's notice names who undid it."""
    notice = publication.get("notice") or {}
    return str(notice.get("approved_by", "")) if publication["kind"] == "replace" else ""


def _records_of(rows: Iterable[Mapping[str, Any]]) -> list[PublicationRecord]:
    records: list[PublicationRecord] = []
    latest: dict[str, PublicationRecord] = {}
    for row in rows:
        id = row["publication"]
        if row["event"] == "prepared":
            latest[id] = _begun(row)
            records.append(latest[id])
        elif id in latest:
            _add(latest[id], row)
    return records


def _begun(row: Mapping[str, Any]) -> PublicationRecord:
    return PublicationRecord(
        publication=row["publication"],
        kind=row["kind"],
        prepared_at=row["at"],
        run=row["run"] or "",
        launched_by=row["launched_by"] or "",
        git_commit=row["git_commit"] or "",
        campaign=row["campaign"] or "",
        reason=row["reason"] or "",
    )


def _add(record: PublicationRecord, row: Mapping[str, Any]) -> None:
    match row["event"]:
        case "preparing day":
            part = record.tables.setdefault(row["table"], TablePart())
            part.days.append(date.fromisoformat(row["day"]))
            part.replaces |= {row["replaces"]} - {"", None}
        case "switching":
            record.switches[row["table"]] = (row["replaces"] or "", row["code_version"] or "")
        case "published":
            part = record.tables[row["table"]]
            part.rows += row["rows"] or 0
            part.version = row["table_version"]
            part.code_versions |= {row["code_version"]} - {"", None}
        case "aborting":
            record.outcome, record.reason = "aborting", row["reason"] or record.reason
        case "aborted by hand":
            record.reason = row["reason"] or record.reason
        case "closed":
            record.outcome, record.closed_at = row["outcome"], row["at"]
