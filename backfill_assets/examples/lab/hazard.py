"""What a hazard's run counted: the naive ways beside the safe ones, and the sentence that says it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from backfill_assets.text import format_count, format_duration, format_size

NAMES = ("collision", "repeat", "scale", "boundary", "undo")
"""In the order in which they are played."""
Key = tuple[date, str]
"""An event: its day, and its basket and product."""


@dataclass(frozen=True)
class TableCount:
    """How a table holds the events: ``missing`` are not in it, ``doubled`` are rows beyond the first of an event."""

    table: str
    rows: int
    missing: int
    doubled: int


@dataclass(frozen=True)
class SourceReads:
    """The load on the source: how many files were opened, how many bytes of them, and the most that one job read."""

    files: int = 0
    bytes: int = 0
    most_at_once: int = 0


@dataclass(frozen=True)
class WayCounts:
    """One way of playing a hazard's events, and what came of it."""

    way: str
    safe: bool
    events: int
    tables: tuple[TableCount, ...]
    seconds: float
    peak_memory_mb: int
    """The most that Python and its JVM held together. Ways share one JVM: compare it within a hazard only."""
    source: SourceReads = SourceReads()
    days_computed: int = 0
    days_thrown_away: int = 0
    """Days that were computed and of which nothing was kept."""
    note: str = ""
    """What else the run saw, in one sentence."""
    careful: bool = False
    """A plain way that gets this hazard right; the page says what it does not solve."""

    @property
    def missing(self) -> int:
        """Rows, in all tables of the way."""
        return sum(table.missing for table in self.tables)

    @property
    def doubled(self) -> int:
        """Rows, in all tables of the way."""
        return sum(table.doubled for table in self.tables)

    @property
    def is_about_work(self) -> bool:
        """Were days and reads of the source counted?"""
        return self.days_computed > 0

    @property
    def goes_wrong(self) -> int:
        """Rows that are missing or doubled, and days of work that were lost."""
        return self.missing + self.doubled + self.days_thrown_away


@dataclass(frozen=True)
class HazardText:
    """What a person reads about a hazard besides the counts; ``events`` are the steps that all ways play."""

    name: str
    title: str
    question: str
    events: tuple[str, ...]
    why_wrong: str
    why_safe: str
    careful: str = ""
    """What a careful plain way solves of it, and what it does not."""
    aside: str = ""
    """What a careful reader asks next: why another way out is none."""
    cost: str = ""
    """What the safe way takes more of."""
    look: tuple[str, ...] = ()
    """Files that show how, below the project."""


@dataclass(frozen=True)
class Hazard:
    """A hazard after its run."""

    text: HazardText
    ways: tuple[WayCounts, ...]
    folder: str = ""
    """Where its scratch lakehouses were."""

    @property
    def naive(self) -> tuple[WayCounts, ...]:
        return tuple(way for way in self.ways if not (way.safe or way.careful))

    @property
    def careful(self) -> tuple[WayCounts, ...]:
        return tuple(way for way in self.ways if way.careful)

    @property
    def safe(self) -> tuple[WayCounts, ...]:
        return tuple(way for way in self.ways if way.safe)

    @property
    def shown(self) -> bool:
        """Did every naive way go wrong and no other one, with the same events?"""
        same = len({way.events for way in self.ways}) == 1
        right = self.careful + self.safe
        return same and all(way.goes_wrong for way in self.naive) and not any(way.goes_wrong for way in right)


def count_table(table: str, sent: Counter[Key], found: Counter[Key]) -> TableCount:
    """Compare the events that were ``sent`` with the rows ``found``, key by key."""
    doubled = sum((found - sent).values())
    return TableCount(table, found.total(), missing=(sent - found).total(), doubled=doubled)


def sentences(hazard: Hazard) -> tuple[str, ...]:
    """What went wrong in the naive ways, what did not in the careful and the safe ones, and why each."""
    naive = "; ".join(f"{way.way}: {outcome(way)}" for way in hazard.naive)
    careful = [f"{way.way}: {outcome(way)}. {hazard.text.careful}" for way in hazard.careful]
    safe = ", ".join(dict.fromkeys(outcome(way) for way in hazard.safe))
    return f"{naive}. {hazard.text.why_wrong}", *careful, f"With this project: {safe}. {hazard.text.why_safe}"


def outcome(way: WayCounts) -> str:
    """``120 rows missing, 34 rows doubled``; a way without either has every event once."""
    parts = [(way.missing, "row", "missing"), (way.doubled, "row", "doubled")]
    parts.append((way.days_thrown_away, "day", "of work lost"))
    said = [f"{format_count(count, noun)} {what}" for count, noun, what in parts if count]
    return ", ".join(said) or "every event once"


def count_rows(ways: Sequence[WayCounts]) -> list[list[str]]:
    """A row for each count, a column for each way; counts that no way has are left out."""
    rows = [
        ["events sent", *(f"{way.events:,}" for way in ways)],
        ["rows in the table", *(_rows(way) for way in ways)],
        ["rows missing", *(f"{way.missing:,}" for way in ways)],
        ["rows doubled", *(f"{way.doubled:,}" for way in ways)],
    ]
    if any(way.is_about_work for way in ways):
        rows += _work_rows(ways)
    rows.append(["time", *(format_duration(way.seconds) for way in ways)])
    return rows


def _work_rows(ways: Sequence[WayCounts]) -> list[list[str]]:
    return [
        ["days worked on", *(f"{way.days_computed:,}" for way in ways)],
        ["of these for nothing", *(f"{way.days_thrown_away:,}" for way in ways)],
        ["files opened of the source", *(f"{way.source.files:,}" for way in ways)],
        ["bytes read of the source", *(format_size(way.source.bytes) for way in ways)],
        ["most in one job", *(format_size(way.source.most_at_once) for way in ways)],
        ["peak memory", *(f"{way.peak_memory_mb:,} MB" for way in ways)],
    ]


def columns(ways: Sequence[WayCounts]) -> list[str]:
    return ["", *(way.way for way in ways)]


def as_json(hazard: Hazard) -> Mapping[str, Any]:
    return {
        "hazard": hazard.text.name,
        "shown": hazard.shown,
        "sentences": sentences(hazard),
        "folder": hazard.folder,
        "ways": [_way_json(way) for way in hazard.ways],
    }


def _way_json(way: WayCounts) -> Mapping[str, Any]:
    return {
        "way": way.way,
        "safe": way.safe,
        "careful": way.careful,
        "events": way.events,
        "tables": {
            each.table: {"rows": each.rows, "missing": each.missing, "doubled": each.doubled} for each in way.tables
        },
        "missing": way.missing,
        "doubled": way.doubled,
        "seconds": round(way.seconds, 1),
        "note": way.note,
        **(_work_json(way) if way.is_about_work else {}),
    }


def _work_json(way: WayCounts) -> Mapping[str, Any]:
    return {
        "days_computed": way.days_computed,
        "days_thrown_away": way.days_thrown_away,
        "source_files": way.source.files,
        "source_bytes": way.source.bytes,
        "source_most_at_once": way.source.most_at_once,
        "peak_memory_mb": way.peak_memory_mb,
    }


def _rows(way: WayCounts) -> str:
    if len(way.tables) == 1:
        return f"{way.tables[0].rows:,}"
    return ", ".join(f"{table.table} {table.rows:,}" for table in way.tables)
