"""What a question found, as data for all renderers. Pure."""

from __future__ import annotations

import abc
import enum
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from backfill_assets.days import contiguous
from backfill_assets.text import UNKNOWN, format_count, format_duration, format_range, format_size, percent

_MOST_RANGES = 6


class Tone(enum.StrEnum):
    PLAIN = ""
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    QUIET = "quiet"
    STRONG = "strong"


class Special(abc.ABC):
    @abc.abstractmethod
    def plain(self) -> object:
        pass

    @abc.abstractmethod
    def shown(self, *, short: bool) -> str:
        """For people, on one line."""


@dataclass(frozen=True)
class Id(Special):
    """Short for people, whole for programs."""

    text: str

    def plain(self) -> object:
        return self.text

    def shown(self, *, short: bool) -> str:
        return self.text


@dataclass(frozen=True)
class Days(Special):
    """``short`` shows the first of many ranges."""

    days: tuple[date, ...] = ()

    @classmethod
    def of(cls, days: Iterable[date]) -> Days:
        return cls(tuple(days))

    def plain(self) -> list[str]:
        return [format_range(each) for each in contiguous(self.days)]

    def shown(self, *, short: bool) -> str:
        ranges = self.plain()
        more = len(ranges) - _MOST_RANGES if short else 0
        return ", ".join(ranges if more <= 0 else [*ranges[:_MOST_RANGES], f"and {format_count(more, 'more range')}"])


@dataclass(frozen=True)
class Quantity(Special):
    """``unit`` is ``bytes``, ``seconds``, ``share``, or empty. None is unknown."""

    value: float | Decimal | None
    unit: str

    def plain(self) -> object:
        return plain(self.value)

    def shown(self, *, short: bool) -> str:
        if self.value is None:
            return UNKNOWN
        match self.unit:
            case "bytes":
                return format_size(int(self.value))
            case "seconds":
                return format_duration(float(self.value))
            case "share":
                return percent(Decimal(self.value))
        return f"{self.value:,}"


def size(count: int | None) -> Quantity:
    return Quantity(count, "bytes")


def seconds(count: float | None) -> Quantity:
    return Quantity(count, "seconds")


def number(value: float | Decimal | None) -> Quantity:
    return Quantity(value, "")


@dataclass(frozen=True)
class Toned(Special):
    value: object
    tone: Tone

    def plain(self) -> object:
        return plain(self.value)

    def shown(self, *, short: bool) -> str:
        return shown(self.value, short=short)


@dataclass(frozen=True)
class Worded(Special):
    """A value with other words for people."""

    value: object
    words: str

    def plain(self) -> object:
        return plain(self.value)

    def shown(self, *, short: bool) -> str:
        return self.words


@dataclass(frozen=True)
class Datum(Special):
    """Shown without thousands separators."""

    value: object

    def plain(self) -> object:
        return plain(self.value)

    def shown(self, *, short: bool) -> str:
        if isinstance(self.value, list | tuple):
            return "; ".join(map(str, self.value))
        return "" if self.value is None else str(self.value)


@dataclass(frozen=True)
class Fact:
    name: str
    value: object


@dataclass(frozen=True)
class Line:
    text: str
    tone: Tone = Tone.PLAIN
    do: str = ""
    name: str = ""
    """In JSON; lines without one are ``notes``."""
    link: str = ""


NOT_DONE = Line("Nothing was done: --dry-run.", Tone.QUIET)


@dataclass(frozen=True)
class Grid:
    """Narrow terminals drop columns and fold text; nothing is cut."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]] = ()
    title: str = ""
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    """Columns on one line, like ids and numbers."""
    groups: tuple[str, ...] = ()
    most: int | None = None
    one_by_one: bool = False
    """On narrow terminals each row becomes a list."""

    def numbers(self) -> frozenset[str]:
        found = set(self.columns)
        for row in self.rows:
            found -= {name for name, cell in zip(self.columns, row, strict=True) if not _is_number(cell)}
        return frozenset(found) if self.rows else frozenset()


@dataclass(frozen=True)
class Chart:
    title: str
    svg: str
    words: str = ""


@dataclass(frozen=True)
class Code:
    name: str
    text: str
    title: str = ""

    @staticmethod
    def tone_of(line: str) -> Tone:
        return {"+": Tone.GOOD, "-": Tone.BAD, "@": Tone.QUIET}.get(line[:1], Tone.PLAIN)


Part = Fact | Line | Grid | Chart | Code


@dataclass(frozen=True)
class Answer:
    title: str = ""
    parts: tuple[Part, ...] = ()
    sections: tuple[Answer, ...] = ()
    next: tuple[str, ...] = ()
    """Commands, the likeliest first; or a sentence with one."""
    links: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    """A section's key in JSON; by default the title."""
    folded: bool = False
    """Pages show only the title until opened."""
    brief: Answer | None = None
    """Terminals show it until all is asked for."""

    def with_next(self, commands: tuple[str, ...]) -> Answer:
        return replace(self, next=commands, brief=self.brief.with_next(commands) if self.brief else None)

    def facts(self) -> dict[str, object]:
        return {part.name: part.value for part in self.parts if isinstance(part, Fact)}

    def table(self, name: str) -> Grid:
        return next(part for part in self.parts if isinstance(part, Grid) and part.name == name)

    def as_json(self) -> dict[str, Any]:
        """By name, with typed values; nothing is rounded or cut."""
        tables = {_key(part.name): list(_rows(part)) for part in self.parts if isinstance(part, Grid)}
        lines = [part for part in self.parts if isinstance(part, Line)]
        notes = [_note(part) for part in lines if not part.name]
        sections = {_key(each.name or each.title): each.as_json() for each in self.sections}
        return {
            **({"title": self.title} if self.title else {}),
            **{_key(name): plain(value) for name, value in self.facts().items()},
            **{_key(part.name): part.text for part in lines if part.name},
            **{_key(part.name): part.text for part in self.parts if isinstance(part, Code)},
            **tables,
            **sections,
            **({"notes": notes} if notes else {}),
            **({"next": list(self.next)} if self.next else {}),
            **({"links": dict(self.links)} if self.links else {}),
        }


def _rows(table: Grid) -> Iterator[dict[str, Any]]:
    for row in table.rows:
        yield {_key(name): plain(cell) for name, cell in zip(table.columns, row, strict=True)}


def _note(line: Line) -> dict[str, str]:
    found = {"text": line.text, "tone": line.tone.value, "do": line.do, "link": line.link}
    return {name: text for name, text in found.items() if text}


def _key(name: str) -> str:
    return name.replace(" ", "_").replace("-", "_")


def plain(value: Any) -> Any:
    """In JSON: days as ranges, dates as ISO text; decimals, NaN and infinity as text."""
    match value:
        case Special():
            return value.plain()
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case date():
            return value.isoformat()
        case str() | int() | float() | None if _is_in_json(value):
            return value
        case Iterable() if not isinstance(value, str | bytes):
            return [plain(each) for each in value]
    return str(value)


def _is_in_json(value: Any) -> bool:
    return not (isinstance(value, enum.Enum) or (isinstance(value, float) and not math.isfinite(value)))


def shown(value: Any, *, short: bool = False) -> str:
    """For people, on one line; None is empty."""
    match value:
        case Special():
            return value.shown(short=short)
        case bool() | None:
            return {True: "yes", False: "no", None: ""}[value]
        case int() | Decimal():
            return f"{value:,}"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%SZ}"
    return _shown_of_text(value, short)


def _shown_of_text(value: Any, short: bool) -> str:
    if isinstance(value, str | float | date):
        return str(value)
    items = value.items() if isinstance(value, Mapping) else ((None, each) for each in value)
    found = [" ".join(filter(None, (name, shown(each, short=short)))) for name, each in items]
    # Sentences end by themselves.
    return (" " if found and all(each.endswith(".") for each in found) else "; ").join(found)


def lines_of(value: Any) -> Sequence[Any]:
    inner = value.value if isinstance(value, Toned) else value
    if isinstance(inner, Mapping):
        return [{name: each} for name, each in inner.items()]
    return inner if isinstance(inner, list | tuple) else [value]


def tone_of(value: Any) -> Tone:
    return value.tone if isinstance(value, Toned) else Tone.PLAIN


def _is_number(cell: Any) -> bool:
    value = cell.value if isinstance(cell, Toned | Datum) else cell
    return value is None or (isinstance(value, int | float | Decimal | Quantity) and not isinstance(value, bool))
