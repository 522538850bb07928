"""A hazard's counts, and sentences about them. Pure."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from backfill_assets.report.answer import seconds, shown, size
from backfill_assets.text import format_count

Key = tuple[date, str]


@dataclass(frozen=True)
class TableCount:
    """``missing`` events; ``doubled``: rows beyond an event's first."""

    table: str
    rows: int
    missing: int
    doubled: int


@dataclass(frozen=True)
class SourceReads:
    """``most_at_once``: bytes of one job."""

    files: int = 0
    bytes: int = 0
    most_at_once: int = 0


@dataclass(frozen=True)
class WayCounts:
    way: str
    safe: bool
    events: int
    tables: tuple[TableCount, ...]
    seconds: float
    source: SourceReads = SourceReads()
    days_computed: int = 0
    days_thrown_away: int = 0
    note: str = ""
    careful: bool = False

    @property
    def missing(self) -> int:
        return sum(table.missing for table in self.tables)

    @property
    def doubled(self) -> int:
        return sum(table.doubled for table in self.tables)

    @property
    def is_about_work(self) -> bool:
        return self.days_computed > 0

    @property
    def goes_wrong(self) -> int:
        return self.missing + self.doubled + self.days_thrown_away


@dataclass(frozen=True)
class HazardText:
    """A page's words; ``texts.toml`` explains the fields."""

    name: str
    title: str
    question: str
    events: Sequence[str]
    why_wrong: str
    why_safe: str
    careful: str = ""
    aside: str = ""
    cost: str = ""
    look: Sequence[str] = ()


@cache
def hazard_texts() -> Mapping[str, HazardText]:
    read = tomllib.loads(Path(__file__).with_name("texts.toml").read_text())
    return {name: HazardText(name, **text) for name, text in read.items()}


@dataclass(frozen=True)
class Hazard:
    text: HazardText
    ways: tuple[WayCounts, ...]
    folder: str = ""

    @property
    def shown(self) -> bool:
        same = len({way.events for way in self.ways}) == 1
        return same and all(bool(way.goes_wrong) is not (way.safe or way.careful) for way in self.ways)


def count_table(table: str, sent: Counter[Key], found: Counter[Key]) -> TableCount:
    doubled = sum((found - sent).values())
    return TableCount(table, found.total(), missing=(sent - found).total(), doubled=doubled)


def sentences(hazard: Hazard) -> tuple[str, ...]:
    naive = "; ".join(f"{way.way}: {outcome(way)}" for way in hazard.ways if not (way.safe or way.careful))
    careful = [f"{way.way}: {outcome(way)}. {hazard.text.careful}" for way in hazard.ways if way.careful]
    safe = ", ".join(dict.fromkeys(outcome(way) for way in hazard.ways if way.safe))
    return f"{naive}. {hazard.text.why_wrong}", *careful, f"With this project: {safe}. {hazard.text.why_safe}"


def outcome(way: WayCounts) -> str:
    parts = [(way.missing, "row", "missing"), (way.doubled, "row", "doubled")]
    parts.append((way.days_thrown_away, "day", "of work lost"))
    said = [f"{format_count(count, noun)} {what}" for count, noun, what in parts if count]
    return ", ".join(said) or "every event once"


def columns(ways: Sequence[WayCounts]) -> tuple[str, ...]:
    return ("", *(way.way for way in ways))


def count_rows(ways: Sequence[WayCounts]) -> list[tuple[str, ...]]:
    work = any(way.is_about_work for way in ways)
    cells = [dict(_cells(way, work=work)) for way in ways]
    return [(name, *(shown(each[name]) for each in cells)) for name in cells[0]]


def _cells(way: WayCounts, *, work: bool) -> Iterator[tuple[str, object]]:
    first, *others = way.tables
    yield "events sent", way.events
    yield "rows in the table", {table.table: table.rows for table in way.tables} if others else first.rows
    yield "rows missing", way.missing
    yield "rows doubled", way.doubled
    if work:
        yield "days worked on", way.days_computed
        yield "of these for nothing", way.days_thrown_away
        yield "files opened of the source", way.source.files
        yield "bytes read of the source", size(way.source.bytes)
        yield "most in one job", size(way.source.most_at_once)
    yield "time", seconds(way.seconds)


def as_json(hazard: Hazard) -> Mapping[str, Any]:
    ways = [asdict(way) | {"missing": way.missing, "doubled": way.doubled} for way in hazard.ways]
    told = {"hazard": hazard.text.name, "shown": hazard.shown, "sentences": sentences(hazard)}
    return told | {"folder": hazard.folder, "ways": ways}
