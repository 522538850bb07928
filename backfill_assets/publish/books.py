"""Closes and reopens days: one entry of the log, after which no publication that was under way changes them.

Where the settings ask for another person, the first one's word waits on the log for the second one's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.publish.closed_days import (
    EVERY_TABLE,
    BookEntry,
    Declared,
    after,
    declared_entry,
    how_to_reopen,
    is_closed_already,
    not_yet_said,
    scope_text,
    writers_under_way,
)
from backfill_assets.publish.finish import Finish
from backfill_assets.publish.head import BOOKS, BOOKS_ASKED, HeadState
from backfill_assets.publish.log import Head
from backfill_assets.publish.rows import Row


@dataclass(frozen=True)
class BookSaid:
    """``waits`` for another person: nothing is closed or reopened yet."""

    entry: BookEntry
    waits: bool = False


def say(publisher: Finish, entry: BookEntry, *, needs_another: bool = False) -> BookSaid:
    """Close or reopen. An entry that is open for a table concerned is finished first: it was prepared before.

    Raises :class:`InvalidRequest` for days that are not closed, or closed by a declaration, and for a person who has
    asked for the same already.
    """
    retry = Retry(f"{'Closing' if entry.word == 'close' else 'Reopening'} {scope_text(entry)}")
    while True:
        head = publisher.log.head()
        require_sensible(head.state, entry, publisher.declared)
        said = _with_approval(head.state, entry) if needs_another else BookSaid(entry)
        if not said.waits and _finish_writers(publisher, head, [said.entry]):
            retry.lost("publications of its tables are under way")
        elif _append(publisher, head, said):
            return said
        else:
            retry.lost("other writers append to the log")


def _append(publisher: Finish, head: Head, said: BookSaid) -> bool:
    if said.waits:
        asked = head.state.asking_for(said.entry)
        return publisher.log.append(head, [_row(BOOKS_ASKED, [said.entry])], lambda file: asked)
    return _append_books(publisher, head, [said.entry])


def _append_books(publisher: Finish, head: Head, entries: list[BookEntry]) -> bool:
    books = head.state.with_books(entries)
    return publisher.log.append(head, [_row(BOOKS, entries)], lambda file: books)


def _row(event: str, entries: list[BookEntry]) -> Row:
    first = entries[0]
    detail = json.dumps([json.loads(each.model_dump_json()) for each in entries])
    # The column of tables is of days: what is closed is in the detail alone.
    said = {"publication": first.id, "kind": first.word, "launched_by": first.by, "reason": first.reason}
    return {"event": event, **said, "detail": detail}


def _finish_writers(publisher: Finish, head: Head, entries: Iterable[BookEntry]) -> bool:
    """A closing comes after all that was prepared before it."""
    closings = [each for each in entries if each.word == "close"]
    blocking = [
        entry for entry in head.state.open.values() if any(writers_under_way(each, entry.writes) for each in closings)
    ]
    for entry in blocking:
        publisher.finish(entry.publication)
    return bool(blocking)


def require_sensible(state: HeadState, entry: BookEntry, declared: Declared) -> None:
    if entry.word == "close":
        if known := is_closed_already(state.books, entry):
            raise InvalidRequest(f"{scope_text(entry)} is {known.said}.", hint=how_to_reopen(known))
        return
    for table, days in declared.closed_before.items():
        if entry.table in (EVERY_TABLE, table) and entry.first <= days.last and days.first <= entry.last:
            raise InvalidRequest(
                f"{table} is closed until {days.last} by its declaration.",
                hint=f"Move closed_before in the declaration of {table} first, then reopen the days.",
            )
    if after(state.books, entry) == state.books:
        raise InvalidRequest(
            f"{scope_text(entry)} is not closed.", hint="backfill status lists the days that are closed."
        )


def _with_approval(state: HeadState, entry: BookEntry) -> BookSaid:
    """The second person's word counts, with the first one's reason beside it."""
    asked = next((each for each in state.books_asked if each.is_about(entry)), None)
    if asked is None:
        return BookSaid(entry, waits=True)
    if asked.by.casefold() == entry.by.casefold():
        raise InvalidRequest(
            f"{entry.by} has asked for this already, on {asked.at:%Y-%m-%d}: another person has to say the same.",
            hint=f"Ask someone else than {entry.by} to type the same command.",
        )
    return BookSaid(entry.model_copy(update={"by": asked.by, "approved_by": entry.by, "reason": asked.reason}))


def say_declared(publisher: Finish, head: Head) -> bool:
    """Write down what declarations close, before anything is published by them; False if the log knows it."""
    unsaid = not_yet_said(head.state.books, publisher.declared)
    entries = [declared_entry(table, days, clock.now()) for table, days in unsaid.items()]
    if not entries:
        return False
    if not _finish_writers(publisher, head, entries):
        _append_books(publisher, head, entries)
    return True
