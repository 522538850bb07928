"""Which days are compacted and which timelines closed. Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from backfill_assets.lakehouse.timelines import CAMPAIGN
from backfill_assets.text import format_count

_PLAN = "plan-"
COMPACT_FROM_FILES = 5
SMALL_FILE_BYTES = 64 * 1024 * 1024
AT_ONCE_BYTES = 256 * 1024 * 1024
"""Most bytes of a table in one run, held in memory."""


class Chore(enum.StrEnum):
    CLOSE = "close timelines"
    RELEASE = "drop expired holds"
    KEEP = "set retention"
    PIN = "pin to the newest version"
    COMPACT = "compact"
    FOLD = "fold the log"
    GATHER = "gather the log"
    RECLAIM = "reclaim files"
    LOOK = "look at the table"


@dataclass(frozen=True)
class Task:
    """``items`` are timelines, days or files."""

    chore: Chore
    table: str
    items: tuple[str, ...]
    files: int = 0
    bytes: int = 0
    why: str = ""


@dataclass(frozen=True)
class DayFiles:
    files: int
    bytes: int


def days_to_compact(table: str, days: Mapping[date, DayFiles], changing: Collection[str]) -> Task | None:
    """Days of many small files, most files first; none of ``changing`` tables, which an open plan rebuilds."""
    if table in changing:
        return None
    chosen: list[date] = []
    total = 0
    for day, found in sorted(days.items(), key=lambda item: (-item[1].files, item[0])):
        small = found.files >= COMPACT_FROM_FILES and found.bytes < found.files * SMALL_FILE_BYTES
        if small and total + found.bytes <= AT_ONCE_BYTES:
            chosen.append(day)
            total += found.bytes
    if not chosen:
        return None
    files = sum(days[day].files for day in chosen)
    why = f"{format_count(files, 'small file')} in {format_count(len(chosen), 'day')}"
    return Task(Chore.COMPACT, table, tuple(map(str, sorted(chosen))), files, total, why)


def timelines_to_close(
    table: str,
    begun: Mapping[str, datetime],
    open_plans: Collection[str],
    now: datetime,
    days: int,
    kept: Collection[str] = (),
) -> Task | None:
    """Open timelines ``begun`` more than ``days`` ago, of dead runs and of campaigns without an open plan.

    Named timelines in ``kept`` (ids) keep theirs open.
    """
    wanted = (*(f"{CAMPAIGN}{plan.removeprefix(_PLAN)}-" for plan in open_plans), *(f"{id}-" for id in kept))
    oldest = now - timedelta(days=days)
    names = sorted(name for name, since in begun.items() if since < oldest and not name.startswith(wanted))
    if not names:
        return None
    return Task(Chore.CLOSE, table, tuple(names), why=f"begun more than {days} days ago, and of no open plan")
