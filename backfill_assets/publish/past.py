"""What was published, asked of the log's rows: one function for each question, its answers newest first.

What is so now is asked of the head and its index; where a day's rows come from, of the origin that the day carries.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.lakehouse.records import Outcome
from backfill_assets.publish.files import LogFiles, Value

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
    after: int | None = None,
    maps: bool = False,
    event: Collection[str] = ("closed",),
    **wanted: Value | Iterable[Value],
) -> Iterator[Closed]:
    """``wanted`` values by column. ``maps`` are read beside the before-images: only where they are needed."""
    columns = [*_ENDS, "detail"] if maps else _ENDS
    for rows in files.newest_first(columns, after=after, until=until, event=event, **wanted):
        for row in reversed(rows.select(columns).to_pylist()):
            yield Closed(**{**row, "publication": row["publication"] or ""})
