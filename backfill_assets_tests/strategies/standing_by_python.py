"""The raw rows that stand, in plain Python: an independent answer for the declared query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


def standing(raw: Iterable[Row]) -> list[dict[str, Any]]:
    """``raw`` without its deletions, and without one equal row for each; equal rows arrived with the last of them."""
    counts: Counter[tuple[tuple[str, Any], ...]] = Counter()
    arrived: dict[tuple[tuple[str, Any], ...], Any] = {}
    for row in raw:
        is_deletion = row["record_kind"] == "deletion"
        kind = ("supersession" if row["source_file"] is None else "received") if is_deletion else row["record_kind"]
        same = tuple({**row, "record_kind": kind, "arrival_day": None}.items())
        counts[same] += -1 if is_deletion else 1
        arrived[same] = max(filter(None, (arrived.get(same), row["arrival_day"])), default=None)
    return [{**dict(same), "arrival_day": arrived[same]} for same, count in counts.items() for _ in range(count)]
