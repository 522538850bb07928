"""The head of the publication log: carried by every commit, so that nothing has to be searched for.

Engines (VACUUM, OPTIMIZE, ALTER) may remove the newest own commit: then the head is rebuilt from the rows, and so are
day states until the next index.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import not_
from typing import Literal, TypeVar

from pydantic import Field as ModelField

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.records import CurrentVersion, Outcome, Prepared, Publication, Record
from backfill_assets.publish import closed_days
from backfill_assets.publish.closed_days import BookEntry
from backfill_assets.publish.files import ENTRIES, LOG_TABLE, LogFiles, among
from backfill_assets.publish.rows import Row

FORMAT, WITHOUT_CLOSED_DAYS = 3, 2
"""Raised by what older processes would misread: 2 has days' origins, 3 closed days, while there are some."""
TURN = timedelta(seconds=10)
_REMEMBERED_OUTCOMES = 64
_REBUILT = "-rebuilt.parquet"
"""Suffix of names of files that do not exist: their content is read from the rows."""
_COLUMNS = ["sequence", "event", "publication", "outcome", "detail", "at"]
BOOKS, BOOKS_ASKED = "books", "books asked"
_EVENTS = ("prepared", "aborting", "closed", "delivered", "reclaiming", "reclaimed", "pinned", BOOKS, BOOKS_ASKED)
Entry = TypeVar("Entry")


class OpenEntry(Record):
    publication: str
    file: str
    writes: frozenset[str]
    reads: frozenset[str]
    aborting: bool = False
    switches: Mapping[str, str] = ModelField(default_factory=dict)
    """Current once it is done, by step."""
    has_notice: bool = False
    hands_over: Literal["", "adopt", "release"] = ModelField(default="", exclude_if=not_)
    """Adopted, or given back, once done."""


class HeadState(Record):
    open: Mapping[str, OpenEntry] = ModelField(default_factory=dict)
    versions: Mapping[str, int] = ModelField(default_factory=dict)
    index: str = ""
    """A file with the newest state of every day as of some entry; ``since`` lists the entries after it."""
    since: tuple[str, ...] = ()
    outcomes: Mapping[str, Outcome] = ModelField(default_factory=dict)
    reclaiming: Mapping[str, str] = ModelField(default_factory=dict)
    """Open intents, each with the file that lists what is being deleted."""
    promised: Mapping[str, datetime] = ModelField(default_factory=dict)
    """Until when publications can be rolled back, by the window in days that they promised."""
    due: Mapping[str, str] = ModelField(default_factory=dict)
    """Publications of undelivered notices, each with its file."""
    reclaimed: str = ""
    turns: Mapping[str, datetime] = ModelField(default_factory=dict)
    """Until when others wait for a publication that lost several rounds; oldest first."""
    current: Mapping[str, CurrentVersion] = ModelField(default_factory=dict)
    """Steps that are absent use their declared version."""
    released: Mapping[str, str] = ModelField(default_factory=dict, exclude_if=not_)
    """The publication that gave a table back: nothing is published to the table until it is adopted again."""
    books: tuple[BookEntry, ...] = ModelField(default=(), exclude_if=not_)
    """What closes days, oldest first."""
    books_asked: tuple[BookEntry, ...] = ModelField(default=(), exclude_if=not_)
    """What waits for another person's word."""
    format: int = WITHOUT_CLOSED_DAYS

    def news_of(self, tables: Collection[str]) -> tuple[object, ...]:
        """Equal values mean that no publication touched ``tables`` in between."""
        touching = {id: entry.aborting for id, entry in self.open.items() if entry.writes & set(tables)}
        return {table: self.versions.get(table) for table in tables}, touching

    def is_written(self, table: str) -> bool:
        return any(table in entry.writes for entry in self.open.values())

    def window_days(self, setting: int, now: datetime) -> int:
        return max(setting, *(int(days) for days, until in self.promised.items() if until >= now), 0)

    @property
    def switches(self) -> dict[str, str]:
        return {step: each.version for step, each in self.current.items()}

    # -------------------------------------------------------------- after one more entry

    def opening(self, publication: Publication, window_days: int, now: datetime, file: str) -> HeadState:
        entry = OpenEntry(
            publication=publication.id,
            file=file,
            writes=publication.locks,
            reads=publication.reads,
            switches={step: switch.version for step, switch in publication.switches.items()},
            has_notice=publication.notice is not None,
            hands_over=publication.kind if publication.kind in ("adopt", "release") else "",
        )
        running = {days: until for days, until in self.promised.items() if until >= now}
        return self._with(
            open={**self.open, publication.id: entry},
            promised={**running, str(window_days): now + timedelta(days=window_days)},
            turns={id: until for id, until in self.waiting(now).items() if id != publication.id},
        )

    def aborting(self, publication: str) -> HeadState:
        entry = self.open[publication].model_copy(update={"aborting": True})
        return self._with(open={**self.open, publication: entry})

    def closing(
        self,
        publication: str,
        outcome: Outcome,
        versions: Mapping[str, int],
        index: str,
        since: Sequence[str],
        file: str,
    ) -> HeadState:
        """A notice becomes due by the append that closes its publication as done."""
        entry, done = self.open[publication], outcome == "done"
        handed = entry.writes if done and entry.hands_over else frozenset()
        given_back = dict.fromkeys(handed, publication) if entry.hands_over == "release" else {}
        return self._with(
            open=_without(self.open, publication),
            versions={table: version for table, version in versions.items() if table not in given_back},
            released={**{table: by for table, by in self.released.items() if table not in handed}, **given_back},
            index=index,
            since=(*since, file) if done else tuple(since),
            outcomes=dict([*self.outcomes.items(), (publication, outcome)][-_REMEMBERED_OUTCOMES:]),
            due={**self.due, publication: entry.file} if done and entry.has_notice else self.due,
            current=_with_switches(self.current, entry) if done else self.current,
        )

    def delivering(self, publication: str) -> HeadState:
        return self._with(due=_without(self.due, publication))

    def pinning(self, versions: Mapping[str, int]) -> HeadState:
        return self._with(versions=versions)

    def intending(self, intent: str, file: str) -> HeadState:
        return self._with(reclaiming={**self.reclaiming, intent: file}, reclaimed=intent)

    def reclaiming_done(self, intent: str) -> HeadState:
        return self._with(reclaiming=_without(self.reclaiming, intent))

    def asking(self, publication: str, now: datetime) -> HeadState:
        return self._with(turns={**self.waiting(now), publication: now + TURN})

    def waiting(self, now: datetime) -> dict[str, datetime]:
        """Oldest first; a clock that is ahead gets one turn."""
        return {id: until for id, until in self.turns.items() if now < until <= now + TURN}

    def with_books(self, entries: Iterable[BookEntry]) -> HeadState:
        """Days are closed or reopened; what was asked for is then answered."""
        books, asked = self.books, self.books_asked
        for entry in entries:
            books = closed_days.after(books, entry)
            asked = tuple(each for each in asked if not each.is_about(entry))
        return self._with_books(books, asked)

    def asking_for(self, entry: BookEntry) -> HeadState:
        return self._with_books(self.books, (*self.books_asked, entry))

    def _with_books(self, books: tuple[BookEntry, ...], asked: tuple[BookEntry, ...]) -> HeadState:
        """Older processes would publish to closed days: they are kept out while there are any."""
        kept_out = FORMAT if books or asked else WITHOUT_CLOSED_DAYS
        return self._with(books=books, books_asked=asked, format=kept_out)

    def _with(self, **changes: object) -> HeadState:
        return self.model_copy(update=changes)


def _without(entries: Mapping[str, Entry], id: str) -> dict[str, Entry]:
    return {each: entry for each, entry in entries.items() if each != id}


def _with_switches(current: Mapping[str, CurrentVersion], entry: OpenEntry) -> dict[str, CurrentVersion]:
    """An empty version is the declared one."""
    switched = {
        step: CurrentVersion(version=version, publication=entry.publication) for step, version in entry.switches.items()
    }
    both = {**current, **switched}
    return {step: both[step] for step in sorted(both) if both[step].version}


def named_files(state: HeadState) -> Iterable[str]:
    yield from (state.index, *state.since, *state.reclaiming.values(), *state.due.values())
    yield from (entry.file for entry in state.open.values())


def parse_head(text: str) -> HeadState:
    if (found := json.loads(text).get("format", 1)) > FORMAT:
        raise LakehouseUnusable(
            f"A newer version of backfill-assets wrote this lakehouse: its log has format {found}, and this process"
            f" knows format {FORMAT}.",
            hint="Stop this process, install the newer version, and start it again. Nothing was changed.",
        )
    return HeadState.model_validate_json(text).model_copy(update={"format": max(found, WITHOUT_CLOSED_DAYS)})


# ------------------------------------------------------------------ the head, computed from the rows


def is_rebuilt(file: str) -> bool:
    return file.endswith(_REBUILT)


def rebuilt_head(files: LogFiles) -> HeadState:
    state, closed = HeadState(), -1
    for sequence, row in _entries(among(files.read(_COLUMNS), "event", _EVENTS).to_pylist()):
        state = _after(state, row, _rebuilt_name(ENTRIES, sequence))
        closed = sequence if row["event"] == "closed" else closed
    index = _rebuilt_name(f"{LOG_TABLE}/_index", closed) if closed >= 0 else ""
    return state.model_copy(update={"index": index, "since": ()})


def _entries(rows: Sequence[Row]) -> Iterator[tuple[int, Row]]:
    for sequence, of_entry in groupby(rows, key=lambda row: int(row["sequence"])):
        yield sequence, next(of_entry)


def _after(state: HeadState, row: Row, file: str) -> HeadState:
    id, detail = row["publication"], row["detail"]
    match row["event"]:
        case "prepared":
            prepared = Prepared.model_validate_json(detail)
            after = state.opening(prepared.publication, prepared.window_days, row["at"], file)
        case "aborting":
            after = state.aborting(id)
        case "closed":
            after = state.closing(id, row["outcome"], json.loads(detail), "", (), file)
        case "pinned":
            after = state.pinning(json.loads(detail))
        case "delivered":
            after = state.delivering(id)
        case "reclaiming":
            after = state.intending(id, file)
        case "books" | "books asked":
            entries = [BookEntry.model_validate(each) for each in json.loads(detail)]
            after = state.with_books(entries) if row["event"] == BOOKS else state.asking_for(*entries)
        case _:
            after = state.reclaiming_done(id)
    return after


def _rebuilt_name(folder: str, sequence: int) -> str:
    return f"{folder}/{sequence:020d}{_REBUILT}"
