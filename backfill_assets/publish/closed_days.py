"""Closed days: nothing publishes into bronze and below on them, until somebody reopens them. Pure.

What is closed lies on the log, and PREPARE asks it at the version that it appends to. Raw goes on taking rows, which
wait; what changes no row goes on, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Literal

from pydantic import Field as ModelField

from backfill_assets.days import Cadence, DayRange, TableDay, by_table
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import Kind, Publication, Record, TableChange
from backfill_assets.model.declaration import Step
from backfill_assets.text import format_count, format_range, format_ranges

SAME_ROWS: tuple[Kind, ...] = ("compact", "adopt")
"""Kinds that change no row."""
EVERY_TABLE = ""
BookWord = Literal["close", "reopen"]
BOOK_WORDS: tuple[BookWord, ...] = ("close", "reopen")
BY_DECLARATION = "its declaration"


class BookEntry(Record):
    """Somebody closes or reopens days of a table, or of every table but those that take rows in."""

    id: str
    word: BookWord
    table: str = EVERY_TABLE
    first: date
    last: date
    by: str = ""
    approved_by: str = ""
    reason: str = ""
    at: datetime
    takes_rows: frozenset[str] = frozenset()
    """Raw tables, and tables of others, as far as they were declared then."""
    cadences: Mapping[str, Cadence] = ModelField(default_factory=dict)
    """Of weekly and monthly tables, as they were declared then."""
    reopened: frozenset[str] = frozenset()
    """Tables for which a closing of every table was taken back."""

    @property
    def days(self) -> DayRange:
        return DayRange(self.first, self.last)

    @property
    def is_declared(self) -> bool:
        return self.by == BY_DECLARATION

    @property
    def said(self) -> str:
        """``closed by ana on 2017-05-02: the quarter is reported``"""
        also = f", approved by {self.approved_by}" if self.approved_by else ""
        return f"closed by {self.by or 'somebody'}{also} on {self.at:%Y-%m-%d}: {self.reason}"

    def is_about(self, other: BookEntry) -> bool:
        """The same days of the same tables."""
        return (self.word, self.table, self.days) == (other.word, other.table, other.days)

    def concerns(self, table: str) -> bool:
        if self.table != EVERY_TABLE:
            return table == self.table
        return table not in self.takes_rows and table not in self.reopened

    def touches(self, table: str, day: date, cadences: Mapping[str, Cadence]) -> bool:
        """A week or a month is closed with any of its days."""
        cadence = cadences.get(table) or self.cadences.get(table, Cadence.DAILY)
        period = cadence.period(day)
        return self.concerns(table) and period.first <= self.last and self.first <= period.last


Closings = Sequence[BookEntry]


@dataclass(frozen=True)
class Declared:
    """What a process knows of tables from their declarations."""

    takes_rows: frozenset[str] = frozenset()
    cadences: Mapping[str, Cadence] = field(default_factory=dict)
    closed_before: Mapping[str, DayRange] = field(default_factory=dict)
    """Days that a declaration closes, by table."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Declared:
        origins, cadences, closed = set[str](), dict[str, Cadence](), dict[str, DayRange]()
        for step in steps:
            origins.update(step.table_names if step.is_origin else ())
            if step.cadence is not Cadence.DAILY:
                cadences |= dict.fromkeys(step.table_names, step.cadence)
            if step.closed is not None:
                closed[step.name] = step.closed
        return cls(frozenset(origins), cadences, closed)


NOTHING_DECLARED = Declared()


@dataclass(frozen=True)
class Books:
    """The days that are closed at a version of the log."""

    closings: Closings = ()
    declared: Declared = NOTHING_DECLARED

    def closing(self, table: str, day: date) -> BookEntry | None:
        """Why nothing is published to the day, if so; ``day`` is the first of its period."""
        if not self.closings or table in self.declared.takes_rows:
            return None
        return next((each for each in self.closings if each.touches(table, day, self.declared.cadences)), None)

    def closings_of(self, tables: Iterable[str], days: Iterable[date]) -> dict[date, BookEntry]:
        """The closed ones of ``days``, of a step with ``tables``."""
        names = tuple(tables) if self.closings else ()
        found = ((day, next(filter(None, (self.closing(name, day) for name in names)), None)) for day in days)
        return {day: closing for day, closing in found if closing is not None} if names else {}

    def closed_days(self, publication: Publication) -> dict[TableDay, BookEntry]:
        """What it would change of closed days."""
        if publication.kind in SAME_ROWS or not self.closings:
            return {}
        changes = (change for change in publication.tables if not _takes_rows(change))
        keys = (TableDay(change.table, day.day) for change in changes for day in change.days)
        return {key: closing for key in keys if (closing := self.closing(*key)) is not None}


NOTHING_CLOSED = Books()


def _takes_rows(change: TableChange) -> bool:
    """Only raw appends, and only what is read from a source has positions there."""
    return change.mode == "append" or bool(change.positions)


class DaysClosed(PublicationRefused):
    """``days`` are closed, by table."""

    def __init__(self, what: str, closed: Mapping[TableDay, BookEntry]) -> None:
        self.days = {table: frozenset(days) for table, days in by_table(closed).items()}
        super().__init__(f"{what} is refused: {closed_text(closed)}. Nothing was published.", hint=_reopening(closed))


def require_open(publication: Publication, books: Books) -> None:
    """Raises :class:`DaysClosed` with all days of ``publication`` that are closed."""
    if closed := books.closed_days(publication):
        raise DaysClosed("The rollback" if publication.kind == "rollback" else publication.id, closed)


def closed_text(closed: Mapping[TableDay, BookEntry]) -> str:
    """``fact_sales 2017-03-04..2017-03-05 is closed by ana on 2017-05-02: the quarter is reported``"""
    return "; ".join(f"{table} {format_ranges(days)} is {said}" for (table, said), days in _grouped(closed).items())


def _grouped(closed: Mapping[TableDay, BookEntry]) -> dict[tuple[str, str], list[date]]:
    found: dict[tuple[str, str], list[date]] = {}
    for (table, day), closing in closed.items():
        found.setdefault((table, closing.said), []).append(day)
    return found


def _reopening(closed: Mapping[TableDay, BookEntry]) -> str:
    if declared := next((key.table for key, closing in closed.items() if closing.is_declared), ""):
        return f"Move closed_before in the declaration of {declared} first, then reopen the days."
    return how_to_reopen(next(iter(closed.values())))


def how_to_reopen(closing: BookEntry) -> str:
    words = filter(None, ("backfill reopen", format_range(closing.days), closing.table, '--reason "..."'))
    return f"{' '.join(words)} opens them again; what waits is then built."


# ------------------------------------------------------------------ what is closed after one more entry


def after(closings: Closings, entry: BookEntry) -> tuple[BookEntry, ...]:
    """A closing is added; a reopening takes its days out of what it concerns."""
    if entry.word == "close":
        return (*closings, entry)
    return tuple(part for closing in closings for part in _without(closing, entry))


def _without(closing: BookEntry, entry: BookEntry) -> Iterator[BookEntry]:
    first, last = max(closing.first, entry.first), min(closing.last, entry.last)
    one_of_all = entry.table != EVERY_TABLE and closing.table == EVERY_TABLE
    if first > last or not (one_of_all or entry.table in (EVERY_TABLE, closing.table)):
        yield closing
        return
    if closing.first < first:
        yield closing.model_copy(update={"last": first - timedelta(days=1)})
    if one_of_all:
        reopened = closing.reopened | {entry.table}
        yield closing.model_copy(update={"first": first, "last": last, "reopened": reopened})
    if last < closing.last:
        yield closing.model_copy(update={"first": last + timedelta(days=1)})


def is_closed_already(closings: Closings, entry: BookEntry) -> BookEntry | None:
    """The one closing, if any, that covers a new one."""
    wide = (each for each in closings if each.first <= entry.first and entry.last <= each.last)
    return next((each for each in wide if _covers(each, entry)), None)


def _covers(closing: BookEntry, entry: BookEntry) -> bool:
    if entry.table == EVERY_TABLE:
        return closing.table == EVERY_TABLE and not closing.reopened
    return closing.concerns(entry.table)


def not_yet_said(closings: Closings, declared: Declared) -> dict[str, DayRange]:
    """Days that a declaration closes and the log does not know, by table."""
    known: dict[str, date] = {}
    for each in (each for each in closings if each.is_declared):
        known[each.table] = max(each.last, known.get(each.table, each.last))
    return {table: days for table, days in declared.closed_before.items() if known.get(table, date.min) < days.last}


def with_declared(books: Books, now: datetime) -> Books:
    """With what the log will know as soon as something is published."""
    said = [declared_entry(table, days, now) for table, days in not_yet_said(books.closings, books.declared).items()]
    return replace(books, closings=(*books.closings, *said)) if said else books


def declared_entry(table: str, days: DayRange, now: datetime) -> BookEntry:
    words = f"closed_before={days.last + timedelta(days=1)}"
    id = f"declared-{table}-{days.last}"
    return BookEntry(
        id=id, word="close", table=table, first=days.first, last=days.last, by=BY_DECLARATION, reason=words, at=now
    )


def writers_under_way(entry: BookEntry, writes: Collection[str]) -> list[str]:
    """Which of these tables a closing has to wait for."""
    return sorted(table for table in writes if entry.concerns(table))


def scope_text(entry: BookEntry) -> str:
    """``2017-03-01..2017-03-31 (31 days) of every table``"""
    return f"{format_range(entry.days)} ({format_count(len(entry.days), 'day')}) of {entry.table or 'every table'}"
