"""Closed days: what was said of them, by whom and why."""

from __future__ import annotations

from collections.abc import Iterable

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.catalog import Catalog
from backfill_assets.publish.books import BookSaid, say
from backfill_assets.publish.closed_days import EVERY_TABLE, BookEntry, BookWord, Closings, Declared, scope_text
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.outcome import Person
from backfill_assets.report.answer import Answer, Fact, Grid, Id, Line, Part, Tone
from backfill_assets.settings import ApprovalRule
from backfill_assets.state.history import BookWritten
from backfill_assets.text import format_range

_EVERY = "every table"
_DONE = {"close": "Closed", "reopen": "Reopened"}


def books_entry(
    catalog: Catalog, word: BookWord, days: DayRange, table: str | None, reason: str, by: Person
) -> BookEntry:
    """Raises :class:`InvalidRequest` for a table that takes rows in, and without a reason."""
    if not reason.strip():
        raise InvalidRequest("Why is not said.", hint='Others read it: --reason "the quarter is reported"')
    declared, now = Declared.of(catalog.steps), clock.now()
    if table and table in declared.takes_rows:
        raise InvalidRequest(
            f"{table} takes rows in at any time, and what it takes in waits.",
            hint=f"Name a table that is made of it: backfill {word} {format_range(days)} TABLE",
        )
    return BookEntry(
        id=f"{now:%Y%m%dt%H%M%S}-{word}-{clock.token(4)}",
        word=word,
        table=catalog.step(table).name if table else EVERY_TABLE,
        first=days.first,
        last=days.last,
        by=by.name,
        reason=" ".join(reason.split()),
        at=now,
        takes_rows=declared.takes_rows,
        cadences=declared.cadences,
    )


def say_of_books(publisher: Publisher, entry: BookEntry, rule: ApprovalRule) -> Answer:
    """Where others approve campaigns, another person says the same of days."""
    return said_answer(say(publisher, entry, needs_another=rule is not ApprovalRule.ANYONE))


def said_answer(said: BookSaid) -> Answer:
    entry = said.entry
    facts: list[Part] = [
        Fact("days", format_range(entry.days)),
        Fact("tables", entry.table or _EVERY),
        Fact("by", entry.by),
        *([Fact("approved by", entry.approved_by)] if entry.approved_by else []),
        Fact("reason", entry.reason),
        Fact("entry", Id(entry.id)),
    ]
    if said.waits:
        words = "It waits for another person, who says the same. Until then nothing is changed."
        return Answer("Asked for", (*facts, Line(words, Tone.WARN)), next=(_same(entry),))
    if entry.word == "reopen":
        words = "What has waited is stale now, and built by repairs."
        return Answer(_DONE[entry.word], (*facts, Line(words)), next=("backfill status stale:",))
    words = "Nothing publishes there now. Raw goes on taking rows, which wait."
    back = " ".join(filter(None, ("backfill reopen", format_range(entry.days), entry.table)))
    return Answer(_DONE[entry.word], (*facts, Line(words)), next=(f'{back} --reason "..."',))


def _same(entry: BookEntry) -> str:
    return " ".join(filter(None, ("backfill", entry.word, format_range(entry.days), entry.table, '--reason "..."')))


def asked_line(entry: BookEntry) -> Line:
    asked = f"{entry.by} has asked to {entry.word} {scope_text(entry)}: {entry.reason}."
    return Line(f"{asked} It waits for another person.", Tone.WARN, _same(entry))


def books_grid(written: Iterable[BookWritten]) -> Grid:
    rows = [
        (
            Id(each.entry.id),
            each.entry.at,
            f"asked to {each.entry.word}" if each.asked else _DONE[each.entry.word].lower(),
            format_range(each.entry.days),
            each.entry.table or _EVERY,
            each.entry.by,
            each.entry.approved_by,
            each.entry.reason,
        )
        for each in written
    ]
    columns = ("entry", "when", "what", "which days", "tables", "by", "approved by", "reason")
    return Grid("books", columns, rows, title="Closed and reopened", drop=("approved by",))


def closed_grid(closings: Closings) -> Grid:
    rows = [
        (
            format_range(each.days),
            f"{_EVERY} but {', '.join(sorted(each.reopened))}" if each.reopened else each.table or _EVERY,
            each.by,
            each.at,
            each.reason,
        )
        for each in closings
    ]
    return Grid("closed", ("which days", "tables", "closed by", "when", "reason"), rows, title="Closed days")
