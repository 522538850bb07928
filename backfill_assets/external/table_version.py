"""One version of a table of others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from backfill_assets.days import day_or_none
from backfill_assets.external.files import ExternalFile


@dataclass(frozen=True)
class TableVersion:
    """Another ``id``: the table was created again."""

    id: str
    version: int
    files: tuple[ExternalFile, ...]
    types: Mapping[str, str]


def day_in(text: str, kind: str, zone: str, moved: timedelta = timedelta()) -> date | None:
    """A moment's day in ``zone``, ``moved``."""
    if kind in ("date", "string"):
        return day_or_none(str(text)[:10])
    try:
        at = datetime.fromisoformat(str(text))
        if kind == "timestamp":
            at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(ZoneInfo(zone))
        return (at + moved).date()
    except (ValueError, OverflowError):
        return None
