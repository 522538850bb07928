"""Closed days: no publication changes their rows, whenever it was prepared and whatever process it is of."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import Cadence, DayRange
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.examples.datasets.sea_temperatures import SEA, SeaReading
from backfill_assets.lakehouse.records import DayChange, Kind, Mode, Position, Publication, TableChange
from backfill_assets.publish.books import BookSaid, say
from backfill_assets.publish.closed_days import BookEntry, Books, BookWord, DaysClosed, Declared, after, require_open
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.files import LogFiles
from backfill_assets.publish.head import FORMAT, WITHOUT_CLOSED_DAYS, HeadState, parse_head, rebuilt_head
from backfill_assets.publish.publisher import Publisher
from backfill_assets.state.history import books_written
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake

NOW = datetime(2017, 5, 2, tzinfo=UTC)
MARCH = DayRange(date(2017, 3, 1), date(2017, 3, 31))
WEEKLY = Declared(frozenset({"raw"}), {"weeks": Cadence.WEEKLY, "months": Cadence.MONTHLY})


def entry(
    word: BookWord = "close", table: str = "", days: DayRange = MARCH, by: str = "ana", id: str = "", **told: object
) -> BookEntry:
    made = BookEntry(
        id=id or f"{word}-{table}-{days}",
        word=word,
        table=table,
        first=days.first,
        last=days.last,
        by=by,
        reason="reported",
        at=NOW,
        takes_rows=WEEKLY.takes_rows,
        cadences=WEEKLY.cadences,
    )
    return made.model_copy(update=told)


def closed_in(*entries: BookEntry, tables: str) -> str:
    """The closed days of tables, of those at either end of March."""
    books = Books(_after(*entries))
    days = [date(2017, 2, 27), date(2017, 3, 1), date(2017, 3, 15), date(2017, 3, 31), date(2017, 4, 1)]
    found = {table: [day for day in days if books.closing(table, day)] for table in tables.split()}
    return " ".join(f"{table}:{','.join(f'{day:%d}' for day in each)}" for table, each in found.items() if each)


def _after(*entries: BookEntry) -> tuple[BookEntry, ...]:
    books: tuple[BookEntry, ...] = ()
    for each in entries:
        books = after(books, each)
    return books


ALL = "fact:01,15,31 report:01,15,31"
APRIL = date(2017, 4, 1)
TO_15 = DayRange(date(2017, 3, 2), date(2017, 3, 15))
BOOKS = {
    "every table but what takes rows in": ([entry()], ALL),
    "one table": ([entry(table="fact")], "fact:01,15,31"),
    "reopened": ([entry(), entry("reopen")], ""),
    "reopened in part": ([entry(), entry("reopen", days=TO_15)], "fact:01,31 report:01,31"),
    "reopened for one table": ([entry(), entry("reopen", "fact", TO_15)], "fact:01,31 report:01,15,31"),
    "of one table, reopened for every one": ([entry(table="fact"), entry("reopen")], ""),
    "of one table, reopened for another": ([entry(table="fact"), entry("reopen", "report")], "fact:01,15,31"),
    "closed again": ([entry(), entry("reopen"), entry(table="report", days=TO_15)], "report:15"),
    "reopened where nothing is closed": (
        [entry(days=TO_15), entry("reopen", days=DayRange.of(date(2017, 4, 1)))],
        "fact:15 report:15",
    ),
}


@pytest.mark.parametrize("books", BOOKS)
def test_what_is_closed_after_some_entries(books: str) -> None:
    entries, expected = BOOKS[books]
    assert closed_in(*entries, tables="raw fact report") == expected


def test_a_week_or_a_month_is_closed_with_one_of_its_days() -> None:
    one = entry(days=DayRange.of(date(2017, 3, 1)))
    assert closed_in(one, tables="fact weeks months") == "fact:01 weeks:27,01 months:01,15,31"
    unknown = Books((one.model_copy(update={"cadences": {}}),), WEEKLY)
    assert unknown.closing("weeks", date(2017, 2, 27)), "a table that was declared since"
    assert not unknown.closing("raw", date(2017, 3, 1))


def of_day(kind: Kind = "replace", mode: Mode = "replace", table: str = "fact", **of_table: object) -> Publication:
    days = tuple(DayChange(day=day, content=None) for day in (date(2017, 3, 1), date(2017, 3, 2), date(2017, 4, 1)))
    change = TableChange(table=table, mode=mode, table_schema="", days=days)
    return Publication(id="p", kind=kind, tables=(change.model_copy(update=of_table),))


READ = (Position(id="landed:x", before=1, after=0),)
ALLOWED = {
    "rows of raw": of_day("append", "append"),
    "rows of raw that are taken back": of_day("rollback", table="landed", positions=READ),
    "raw by its name on the log": of_day(table="raw"),
    "the same rows": of_day("compact"),
    "rows that are there, of others": of_day("adopt"),
}


@pytest.mark.parametrize("publication", ALLOWED)
def test_raw_takes_rows_and_what_changes_none_goes_on(publication: str) -> None:
    require_open(ALLOWED[publication], Books((entry(),)))


@pytest.mark.parametrize("kind", ["replace", "rollback", "release"])
def test_all_closed_days_are_refused_at_once_and_the_error_names_who_why_and_what_next(kind: Kind) -> None:
    with pytest.raises(DaysClosed) as refused:
        require_open(of_day(kind), Books((entry(),)))
    assert refused.value.days == {"fact": {date(2017, 3, 1), date(2017, 3, 2)}}
    assert "fact 2017-03-01..2017-03-02 is closed by ana on 2017-05-02: reported" in refused.value.message
    assert (refused.value.hint or "").startswith("backfill reopen 2017-03-01..2017-03-31 --reason")


def test_older_processes_are_kept_out_while_days_are_closed() -> None:
    state = HeadState().with_books([entry()])
    assert state.format == FORMAT > WITHOUT_CLOSED_DAYS
    assert parse_head(state.model_dump_json()).books == state.books
    opened = parse_head(state.model_dump_json()).with_books([entry("reopen")])
    assert opened.format == WITHOUT_CLOSED_DAYS and "books" not in json.loads(opened.model_dump_json())
    with pytest.raises(LakehouseUnusable, match="format 4, and this process knows format 3"):
        parse_head(json.dumps({"format": FORMAT + 1}))


# ------------------------------------------------------------------ on a log


def close(lake: Lake, word: BookWord = "close", table: str = "", day: date = D1, by: str = "ana") -> BookSaid:
    return say(lake.publisher(), entry(word, table, DayRange.of(day), by, takes_rows=frozenset({"raw"})))


@pytest.mark.protocol
def test_a_close_between_look_and_publication_refuses_it_and_its_other_days(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["a"], D2: ["a"]}})
    staged = lake.request("p2", {"t": {D1: ["b"], D2: ["b"]}})
    close(lake)
    with pytest.raises(DaysClosed, match=r"p2 is refused: t .* is closed by ana"):
        lake.publisher().publish(staged)
    with pytest.raises(DaysClosed, match="The rollback is refused"):
        roll_back(lake.publisher(), "p1", id="undo", steps=())
    assert lake.rows("t") == {D1: ["a"], D2: ["a"]}
    lake.publish("p3", {"t": {D2: ["c"]}})
    lake.append("p4", "raw", {D1: ["r"]})
    assert (lake.rows("t"), lake.rows("raw")) == ({D1: ["a"], D2: ["c"]}, {D1: ["r"]})
    close(lake, "reopen")
    lake.publish("p5", {"t": {D1: ["d"]}})
    assert lake.rows("t") == {D1: ["d"], D2: ["c"]}
    told = [(each.entry.word, each.entry.by) for each in books_written(lake.storage)]
    assert told == [("reopen", "ana"), ("close", "ana")]


@pytest.mark.protocol
def test_a_close_while_prepare_loses_a_race_is_seen(lake: Lake) -> None:
    """The log moves on after PREPARE has looked: what it decided does not count on the next version."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    staged = lake.request("p2", {"t": {D1: ["b"]}})
    others: list[BookSaid] = []

    def closes(at: CrashPoint, about: str) -> None:
        if at == CrashPoint.TABLES_READ and not others:
            others.append(close(lake))

    with pytest.raises(DaysClosed):
        Publisher(lake.storage, reached=closes).publish(staged)
    assert lake.rows("t") == {D1: ["a"]}


@pytest.mark.protocol
def test_what_was_prepared_before_is_finished_first(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.die(CrashPoint.PREPARED, lake.request("p2", {"t": {D1: ["b"]}}))
    close(lake)
    assert not lake.head.open and lake.rows("t") == {D1: ["b"]}, "else it would come after the closing"


@pytest.mark.protocol
def test_the_head_that_is_rebuilt_from_rows_knows_what_is_closed(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    close(lake)
    close(lake, table="t", day=D2)
    close(lake, "reopen")
    say(lake.publisher(), entry(days=DayRange.of(D3), by="ben"), needs_another=True)
    rebuilt = rebuilt_head(LogFiles.of(lake.storage, lake.table("_publications")))
    now = lake.head
    assert (rebuilt.books, rebuilt.books_asked, rebuilt.format) == (now.books, now.books_asked, now.format)
    assert [each.days for each in now.books] == [DayRange.of(D2)] and now.books_asked[0].by == "ben"


@pytest.mark.protocol
def test_another_person_says_the_same_where_the_settings_ask_for_it(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    asked = [entry(days=DayRange.of(D1), by=by, id=by) for by in ("ana", "ana", "ben")]
    assert say(lake.publisher(), asked[0], needs_another=True).waits
    lake.publish("p2", {"t": {D1: ["b"]}})
    with pytest.raises(InvalidRequest, match="ana has asked for this already"):
        say(lake.publisher(), asked[1], needs_another=True)
    said = say(lake.publisher(), asked[2], needs_another=True)
    assert (said.waits, said.entry.by, said.entry.approved_by) == (False, "ana", "ben")
    assert not lake.head.books_asked
    with pytest.raises(DaysClosed, match="closed by ana, approved by ben"):
        lake.publish("p3", {"t": {D1: ["c"]}})


@pytest.mark.protocol
def test_what_a_declaration_closes_is_on_the_log_before_its_first_publication(lake: Lake) -> None:
    """So a process with an older declaration is refused, too; reopening asks for the declaration first."""
    knows = lake.publisher()
    knows.declared = Declared(closed_before={"t": DayRange(D1, D2)})
    lake.publish("p1", {"t": {D1: ["a"]}})
    knows.publish(lake.request("p2", {"u": {D1: ["a"]}}, lake.pin({"u": {D1: ["a"]}})))
    with pytest.raises(DaysClosed, match="is closed by its declaration") as refused:
        lake.publish("p3", {"t": {D1: ["b"]}})
    assert "Move closed_before in the declaration of t" in (refused.value.hint or "")
    reopening = entry("reopen", "t", DayRange.of(D1))
    with pytest.raises(InvalidRequest, match=r"closed until .* by its declaration"):
        say(knows, reopening)
    say(lake.publisher(), reopening)
    lake.publish("p4", {"t": {D1: ["b"]}})
    assert lake.rows("t") == {D1: ["b"]}


def test_a_dataset_closes_its_tables_but_those_that_take_rows_in() -> None:
    """A table of its own may be closed for longer."""
    first = SEA.first_day
    sea, month = replace(SEA, closed_before=first + timedelta(days=31)), DayRange(first, first + timedelta(days=30))
    sea.row("v1", "")(SeaReading)
    steps = sea.dataset().steps
    assert {step.name: step.closed for step in steps} == {
        "raw_sea_temperatures": None,
        "bronze_sea_temperatures": month,
    }
    declared = Declared.of(steps)
    assert declared.takes_rows == {"raw_sea_temperatures"}
    assert declared.closed_before == {"bronze_sea_temperatures": month}
    sea.table("fact_sea", closed_before=first + timedelta(days=40))(SeaReading)
    assert sea._step_of(SeaReading).closed == DayRange(first, first + timedelta(days=39))
    assert SEA.dataset().steps[1].closed is None


@pytest.mark.protocol
def test_closing_twice_and_reopening_what_is_open_say_so(lake: Lake) -> None:
    close(lake)
    for table in ("", "t"):
        with pytest.raises(InvalidRequest, match="is closed by ana on"):
            close(lake, table=table)
    with pytest.raises(InvalidRequest, match="is not closed"):
        close(lake, "reopen", day=D2)
