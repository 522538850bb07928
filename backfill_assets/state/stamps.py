"""Which publication a day is from, and what the log says about it: when, by whom, by which code."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayLineage
from backfill_assets.publish.lineage import lineages
from backfill_assets.publish.log import PublicationLog
from backfill_assets.state.view import View

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
    lineage: DayLineage | None = None
    """What the publication computed the day from and with; None if it computed nothing, or that was not recorded."""


def stamps(view: View, of: Collection[TableDay]) -> dict[TableDay, Stamp]:
    """The stamp of each of these tables and days, as of the log entry of ``view``."""
    if not of:
        return {}
    tables, days = {table for table, _ in of}, {str(day) for _, day in of}
    files = PublicationLog(view.storage).files()
    rows = files.rows(_COLUMNS, until=view.sequence, event="published", table=tables, day=days)
    newest = {TableDay(row["table"], date.fromisoformat(row["day"])): row for row in rows.to_pylist()}
    rows_of = {each: newest[each] for each in of if each in newest}
    made = lineages(view.storage, {row["publication"] for row in rows_of.values()})
    by_id = {publication: days for (publication, _), days in made.items()}
    return {each: _stamp(row, by_id.get(row["publication"], {}).get(each)) for each, row in rows_of.items()}


def _stamp(row: dict[str, Any], lineage: DayLineage | None) -> Stamp:
    return Stamp(
        publication=row["publication"],
        published_at=row["at"],
        kind=row["kind"],
        table_version=row["table_version"],
        code_version=row["code_version"] or "",
        run=row["run"] or "",
        launched_by=row["launched_by"] or "",
        git_commit=row["git_commit"] or "",
        lineage=lineage,
    )
