"""What a table of others is in one version, whoever says it: its own log, or the files in its folder. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from backfill_assets.days import day_or_none
from backfill_assets.external.files import ExternalFile


@dataclass(frozen=True)
class TableVersion:
    """One version of a table of others: ``id`` is another one for a table that was made anew at the same place."""

    id: str
    version: int
    files: tuple[ExternalFile, ...]
    types: Mapping[str, str]
    """The type of each column, as Delta's JSON has it; ``struct`` and the like by that word alone."""


def day_in(text: str, kind: str, zone: str, moved: timedelta = timedelta()) -> date | None:
    """The day that a value of a log says: of a moment the one in ``zone``, ``moved`` by as much; None for none."""
    if kind in ("date", "string"):
        return day_or_none(str(text)[:10])
    try:
        at = datetime.fromisoformat(str(text))
        if kind == "timestamp":
            at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(ZoneInfo(zone))
        return (at + moved).date()
    except (ValueError, OverflowError):
        return None
