"""What was published, asked of the log's rows: one function for each question, its answers newest first.

What is so now is asked of the head and its index; where a day's rows come from, of the origin that the day carries.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import date, datetime
from itertools import islice

import pyarrow as pa

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import Kind, Outcome, Prepared
from backfill_assets.publish.files import LogFiles, Value
from backfill_assets.publish.rows import DAY_COLUMNS, newest_days, origin_of, with_origins

WITH_ORIGIN = [*DAY_COLUMNS, "kind", "campaign"]
_ENDS = ["sequence", "at", "publication", "outcome", "campaign"]


@dataclass(frozen=True)
class Closed:
    """An entry with a map of Delta versions: it closed a publication, or pinned what others committed."""

    sequence: int
    at: datetime
    publication: str
    """Empty if it pinned."""
    outcome: Outcome | None
    campaign: str | None
    detail: str = "{}"

    @property
    def versions(self) -> dict[str, int]:
        versions: dict[str, int] = json.loads(self.detail)
        return versions


def closed_entries(
    files: LogFiles,
    *,
    until: int | None = None,
    maps: bool = False,
    event: Collection[str] = ("closed",),
    **wanted: Value | Iterable[Value],
) -> Iterator[Closed]:
    """``wanted`` values by column. ``maps`` are read beside the before-images: only where they are needed."""
    columns = [*_ENDS, "detail"] if maps else _ENDS
    for rows in files.newest_first(columns, after=None, until=until, event=event, **wanted):
        for row in reversed(rows.select(columns).to_pylist()):
            yield Closed(**{**row, "publication": row["publication"] or ""})


@dataclass(frozen=True)
class InFull:
    """A publication with its before-images, as it was prepared; whether it was done is another entry's."""

    sequence: int
    at: datetime
    publication: str
    detail: str
    """JSON of :attr:`prepared`, which takes long to make."""

    @property
    def prepared(self) -> Prepared:
        return Prepared.model_validate_json(self.detail)


_IN_FULL = [each.name for each in fields(InFull)]


def prepared_entries(
    files: LogFiles, *, until: int | None = None, **wanted: Value | Iterable[Value]
) -> Iterator[InFull]:
    """``wanted`` values by column."""
    for rows in files.newest_first(_IN_FULL, after=None, until=until, event="prepared", **wanted):
        yield from (InFull(**row) for row in reversed(rows.select(_IN_FULL).to_pylist()))


def days_after(files: LogFiles, sequence: int, **wanted: Iterable[Value]) -> pa.Table:
    """The newest row of each day as of an entry, with its origin: the columns of a day's state."""
    return newest_days([with_origins(files.rows(WITH_ORIGIN, after=None, until=sequence, event="published", **wanted))])


@dataclass(frozen=True, slots=True)
class Brought:
    """A day as one publication left it."""

    sequence: int
    at: datetime
    publication: str
    kind: Kind
    run: str | None
    launched_by: str | None
    git_commit: str | None
    reason: str | None
    table: str
    day: date
    table_version: int
    rows: int | None
    """None if withdrawn, or restored to foreign files."""
    checksum: str | None
    code_version: str | None
    origin: str | None

    @property
    def key(self) -> TableDay:
        return TableDay(self.table, self.day)

    @property
    def logical(self) -> str:
        if self.rows is None or self.checksum is None:
            return fingerprints.NEVER_PUBLISHED
        return fingerprints.logical(self.rows, self.checksum)

    @property
    def computed_by(self) -> str:
        return origin_of(self.publication, self.origin).computed_by


_BROUGHT = [each.name for each in fields(Brought)]


def brought_days(
    files: LogFiles,
    tables: Iterable[str] | None = None,
    days: Iterable[date] | None = None,
    *,
    after: int | None = None,
    until: int | None = None,
    most_parts: int | None = None,
    **wanted: Value | Iterable[Value],
) -> Iterator[Brought]:
    """What publications of log entries ``after`` one and ``until`` one brought of ``days`` of ``tables`` (None: all).
    Who stops early reads no older files; at most ``most_parts`` of some files are read.
    """
    if tables is not None:
        wanted["table"] = [*tables]
    if days is not None:
        wanted["day"] = [*map(str, days)]
    parts = files.newest_first(_BROUGHT, after=after, until=until, event="published", **wanted)
    for rows in islice(parts, most_parts):
        for row in reversed(rows.select(_BROUGHT).to_pylist()):
            yield Brought(**{**row, "day": date.fromisoformat(row["day"])})
