"""Which publication a day is from, and what the log says about it: when, by whom, by which code."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
from backfill_assets.lakehouse.publication_log import LOG_TABLE
from backfill_assets.lakehouse.snapshot import Snapshot

_COLUMNS = ["sequence", "at", "publication", "kind", "run", "launched_by", "git_commit"]
_COLUMNS += ["table", "day", "table_version", "code_version"]


@dataclass(frozen=True)
class Stamp:
    """The publication that a day of a table holds."""

    publication: str
    published_at: datetime
    kind: str
    table_version: int
    code_version: str
    run: str
    launched_by: str
    git_commit: str


def stamps(snapshot: Snapshot, of: Collection[tuple[str, date]]) -> dict[tuple[str, date], Stamp]:
    """The stamp of each of these tables and days, as of the log entry of ``snapshot``."""
    if not of:
        return {}
    log = arrow_dataset(snapshot.storage, LOG_TABLE)
    chosen = (
        (pc.field("event") == "published")
        & (pc.field("sequence") <= snapshot.sequence)
        & pc.field("table").isin(pa.array(sorted({table for table, _ in of}), pa.string()))
        & pc.field("day").isin(pa.array(sorted({str(day) for _, day in of}), pa.string()))
    )
    rows = log.to_table(columns=_COLUMNS, filter=chosen).sort_by("sequence").to_pylist()
    newest = {(row["table"], date.fromisoformat(row["day"])): _stamp(row) for row in rows}
    return {each: newest[each] for each in of if each in newest}


def _stamp(row: dict[str, Any]) -> Stamp:
    return Stamp(
        publication=row["publication"],
        published_at=row["at"],
        kind=row["kind"],
        table_version=row["table_version"],
        code_version=row["code_version"] or "",
        run=row["run"] or "",
        launched_by=row["launched_by"] or "",
        git_commit=row["git_commit"] or "",
    )
