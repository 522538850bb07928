"""The publications of a lakehouse as a story: what was brought into which days, when, by whom, and in place of what."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
from backfill_assets.lakehouse.publication_log import LOG_TABLE
from backfill_assets.lakehouse.published import anything_published
from backfill_assets.lakehouse.storage import Storage

_COLUMNS = ["sequence", "at", "event", "publication", "kind", "outcome", "run", "launched_by", "git_commit", "campaign"]
_COLUMNS += ["reason", "table", "day", "table_version", "rows", "code_version", "replaces"]


@dataclass
class TablePart:
    """What one publication did to one table. ``rows`` is what its days held afterwards."""

    days: list[date] = field(default_factory=list)
    rows: int = 0
    version: int | None = None
    code_versions: set[str] = field(default_factory=set)
    replaces: set[str] = field(default_factory=set)
    """The publications whose days these were before."""


@dataclass(frozen=True)
class Inputs:
    """What a publication was made from: tables at a version, and landed files."""

    read: Mapping[tuple[str, int | None], list[date]] = field(default_factory=dict)
    """The days that were read, by table and its Delta version; None for a table that had never been published."""
    landed: tuple[str, ...] = ()
    """Files, by their path in the landing zone."""


@dataclass
class Told:
    """One publication. ``outcome`` is ``done``, ``aborted``, or for those under way ``open`` or ``aborting``."""

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

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.tables.values())


def history(storage: Storage) -> list[Told]:
    """Every publication, newest first. Reads the log's columns, not the before-images that it keeps."""
    if not anything_published(storage):
        return []
    log = arrow_dataset(storage, LOG_TABLE)
    rows = log.to_table(columns=_COLUMNS, filter=pc.field("publication").is_valid())
    return _told(rows.sort_by("sequence").to_pylist())[::-1]


def rollbacks(storage: Storage) -> set[str]:
    """The publications by which somebody undid others."""
    if not anything_published(storage):
        return set()
    log = arrow_dataset(storage, LOG_TABLE)
    chosen = (pc.field("event") == "prepared") & (pc.field("kind") == "rollback")
    return set(log.to_table(columns=["publication"], filter=chosen)["publication"].to_pylist())


def inputs(storage: Storage, of: Iterable[Told]) -> dict[tuple[str, datetime], Inputs]:
    """From what each of these publications was made, by its id and the moment it was prepared.

    Only asked for those that are shown: the log keeps it with the before-images.
    """
    ids = sorted({told.publication for told in of})
    if not ids:
        return {}
    log = arrow_dataset(storage, LOG_TABLE)
    chosen = (pc.field("event") == "prepared") & pc.field("publication").isin(pa.array(ids, pa.string()))
    rows = log.to_table(columns=["publication", "at", "detail"], filter=chosen).to_pylist()
    return {(row["publication"], row["at"]): _inputs(json.loads(row["detail"])["publication"]) for row in rows}


def _inputs(publication: Mapping[str, Any]) -> Inputs:
    read: dict[tuple[str, int | None], list[date]] = {}
    for each in publication["inputs"]:
        found = read.setdefault((each["table"], each["version"]), [])
        found += [day for text in each["days"] if (day := date.fromisoformat(text)) not in found]
    positions = (position["id"] for table in publication["tables"] for position in table["positions"])
    landed = (id.split(":", 2)[2] for id in positions if id.startswith("landed:"))
    return Inputs({key: sorted(days) for key, days in read.items()}, tuple(sorted(landed)))


def _told(rows: Iterable[Mapping[str, Any]]) -> list[Told]:
    """Entries come oldest first. An id that was aborted may be prepared again: that is another publication."""
    told: list[Told] = []
    latest: dict[str, Told] = {}
    for row in rows:
        id = row["publication"]
        if row["event"] == "prepared":
            latest[id] = _begun(row)
            told.append(latest[id])
        elif id in latest:
            _add(latest[id], row)
    return told


def _begun(row: Mapping[str, Any]) -> Told:
    return Told(
        publication=row["publication"],
        kind=row["kind"],
        prepared_at=row["at"],
        run=row["run"] or "",
        launched_by=row["launched_by"] or "",
        git_commit=row["git_commit"] or "",
        campaign=row["campaign"] or "",
        reason=row["reason"] or "",
    )


def _add(told: Told, row: Mapping[str, Any]) -> None:
    match row["event"]:
        case "preparing day":
            part = told.tables.setdefault(row["table"], TablePart())
            part.days.append(date.fromisoformat(row["day"]))
            part.replaces |= {row["replaces"]} - {"", None}
        case "published":
            part = told.tables[row["table"]]
            part.rows += row["rows"] or 0
            part.version = row["table_version"]
            part.code_versions |= {row["code_version"]} - {"", None}
        case "aborting":
            told.outcome, told.reason = "aborting", row["reason"] or told.reason
        case "closed":
            told.outcome, told.closed_at = row["outcome"], row["at"]
