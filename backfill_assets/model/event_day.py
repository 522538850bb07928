"""The time zone of event days; ``model/landed_values.py`` applies it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, tzinfo
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

from backfill_assets.model.placement import IN_UTC
from backfill_assets.text import suggest_name

if TYPE_CHECKING:
    from backfill_assets.model.declaration import Source

_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T[\d:.]+(Z|[+-][\d:]+))?")
_OF_THE_MACHINE = frozenset({"localtime"})


def day_named(source: Source, text: str) -> date | None:
    """By the first date or moment in ``text``, for messages."""
    found = _MOMENT.search(text)
    try:
        if found is None or not found[1]:
            return date.fromisoformat(found[0]) if found else None
        return datetime.fromisoformat(found[0]).astimezone(_clock(source.event_zone)).date()
    except (ValueError, OverflowError):
        return None


def zone_problems(source: Source) -> Iterator[tuple[str, str]]:
    zone, field = source.event_zone, source.event_day_field
    if zone == IN_UTC:
        return
    if hint := zone_meant(zone):
        yield f"there is no time zone {zone!r}.", hint
    if source.type_of(field) == "date":
        yield f"{field!r} is a date, which is the same day in every zone.", "Leave out event_zone."


def zone_meant(zone: str) -> str:
    if zone == IN_UTC or zone in _zones():
        return ""
    return suggest_name(zone, sorted(_zones()), "Write it like Europe/Berlin: a name of the IANA time zones.")


def _clock(zone: str) -> tzinfo:
    return UTC if zone == IN_UTC else ZoneInfo(zone)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - _OF_THE_MACHINE
