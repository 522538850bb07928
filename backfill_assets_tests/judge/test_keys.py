"""The markers that arriving rows make necessary: known answers, and beside a model that looks at every two rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from backfill_assets.judge import keys
from backfill_assets.judge.engine import DayFiles
from backfill_assets.judge.keys import markers
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import raw_contract, raw_schema
from backfill_assets_tests.judge.written_rows import InAStore
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.data
SOURCE = Source(
    "till", "sold", ("till", "receipt"), "sent", ("till", "receipt", "sold", "sent"), supersession_window_days=3
)
DAYS = [date(2017, 3, day) for day in range(1, 13)]
Row = Mapping[str, Any]


def on(day: int, sent: str | None, till: str | None = "a", receipt: str | None = "1", **changes: Any) -> Row:
    """A version that was received; its hash is that of what was landed."""
    landed = {"till": till, "receipt": receipt, "sold": f"2017-03-{day:02}", "sent": sent}
    return {
        **landed,
        "record_kind": "received",
        "source_file": "till/2017-03-01/a.jsonl.gz",
        "source_line": day,
        "arrival_day": DAYS[0],
        "day_is_arrival": False,
        "content_hash": crc32(repr(landed).encode()),
        "superseded_by_day": None,
        "day": DAYS[day - 1],
        **changes,
    }


def deleted(row: Row) -> Row:
    return {**row, "record_kind": "deletion", "arrival_day": None}


def marker(day: int, newer: Row, **changes: Any) -> Row:
    """What says on ``day`` that ``newer`` is on another one."""
    nothing = dict.fromkeys((*SOURCE.columns, "source_file", "source_line", "arrival_day", "record_kind"))
    kept = {name: newer[name] for name in ("till", "receipt", "sent", "content_hash", "day_is_arrival")}
    placed = {"day": DAYS[day - 1], "superseded_by_day": newer["day"], "record_kind": "supersession"}
    return {**nothing, **kept, **placed, **changes}


def written(root: Path, source: Source, rows: Sequence[Row], lacks: Sequence[str] = ()) -> DayFiles:
    """``rows`` as files, up to four in each, without the columns that they ``lack``."""
    shape, files = to_arrow_schema(raw_schema(source).toNullable(), timezone="UTC"), dict[date, list[AddedFile]]()
    columns = pa.schema([field for field in shape if field.name not in ("day", *lacks)])
    for day in {row["day"] for row in rows}:
        of_day = [dict(row) for row in rows if row["day"] == day]
        for number in range(0, len(of_day), 4):
            path = root / f"day={day}" / f"{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(of_day[number : number + 4], columns), path)
            files.setdefault(day, []).append(AddedFile(f"{root.name}/day={day}/{path.name}", str(day), 0, 0, "{}"))
    return files


Look = Callable[..., list[Row]]


@contextmanager
def looking(made: type[Storage] = Storage) -> Iterator[Look]:
    """Writes rows that arrived and rows that were there, and finds the markers that they make necessary."""
    with TemporaryDirectory() as folder:
        numbers = count()

        def look(arrived: Sequence[Row], existing: Sequence[Row], source: Source = SOURCE) -> list[Row]:
            new, there = (written(Path(folder, str(next(numbers))), source, rows) for rows in (arrived, existing))
            return list(markers(made(folder), source, raw_contract(source), new, there))

        yield look


@pytest.fixture
def look() -> Iterator[Look]:
    with looking() as found:
        yield found


@pytest.fixture(params=[Storage, InAStore], ids=["folder", "store"])
def look_anywhere(request: pytest.FixtureRequest) -> Iterator[Look]:
    with looking(request.param) as found:
        yield found


def moves(found: Sequence[Row]) -> set[tuple[int, int, str]]:
    return {(row["day"].day, row["superseded_by_day"].day, row["sent"]) for row in found}


def test_the_day_that_loses_a_row_gets_a_marker(look_anywhere: Look) -> None:
    """The known answer: what a marker says, and that it says nothing about when or where anything arrived."""
    newer = on(4, "2", arrival_day=DAYS[6])
    assert look_anywhere([newer], [on(1, "1")]) == [
        {
            "till": "a",
            "receipt": "1",
            "sent": "2",
            "record_kind": "supersession",
            "day_is_arrival": False,
            "content_hash": newer["content_hash"],
            "superseded_by_day": DAYS[3],
            "day": DAYS[0],
        }
    ]


def test_an_older_version_that_arrives_last_loses_all_the_same(look: Look) -> None:
    """Overtaken on the way: the newer version was there before. Or both arrive at once."""
    assert moves(look([on(1, "1")], [on(4, "2")])) == {(1, 4, "2")}
    assert moves(look([on(1, "1"), on(4, "2")], [])) == {(1, 4, "2")}


def test_moments_are_compared_and_then_content_hashes(look: Look) -> None:
    """As text ``…00Z`` is greater than ``…00.5Z``; at equal moments exactly one of the two days loses."""
    source = replace(SOURCE, types={"sent": "timestamp"})
    older, later = on(1, "2017-03-20T00:00:00Z"), on(4, "2017-03-20T00:00:00.5Z")
    assert moves(look([later], [older], source)) == {(1, 4, "2017-03-20T00:00:00.500000Z")}
    for hashes in ((1, 2), (-1, 1), (2**63 - 1, -(2**63))):
        one, other = (on(day, "1", content_hash=each) for day, each in zip((1, 4), hashes, strict=True))
        [loses] = look([one], [other])
        assert (loses["content_hash"], loses["day"]) == max((hashes[0], DAYS[3]), (hashes[1], DAYS[0]))


def test_what_gets_no_marker(look: Look) -> None:
    """The same day, another key, too far away, and rows that are quarantined where they are."""
    assert look([on(1, "2")], [on(1, "1")]) == []
    assert look([on(4, "2", till="other")], [on(1, "1")]) == []
    assert look([on(5, "2")], [on(1, "1")]) == []
    assert len(look([on(4, "2")], [on(1, "1")])) == 1
    assert look([on(4, "2", day_is_arrival=True)], [on(1, "1")]) == []
    assert look([on(4, "2")], [on(1, "1", day_is_arrival=True)]) == []
    assert look([on(4, "2", receipt=None)], [on(1, "1", receipt=None)]) == []
    assert look([on(4, "2", receipt="")], [on(1, "1", receipt="")]) == []
    whole = replace(SOURCE, types={"sent": "bigint"})
    assert look([on(4, "later")], [on(1, "1")], whole) == [] == look([on(4, "2")], [on(1, "sooner")], whole)


def test_a_row_without_a_hash_takes_no_part(look: Look) -> None:
    """No ingest writes one; a foreign writer can, and none is older or newer than it."""
    assert look([on(4, "2", content_hash=None)], [on(1, "1")]) == []
    assert look([on(4, "2")], [on(1, "1", content_hash=None)]) == []


def test_what_is_there_is_looked_at_only_where_a_readable_version_of_its_key_arrived(look_anywhere: Look) -> None:
    """What two rows of history owe each other was settled when they arrived; and history is long."""
    source, history = replace(SOURCE, types={"sent": "bigint"}), [on(1, "1"), on(2, "2")]
    assert look_anywhere([on(3, "3", till="other")], history, source) == []
    assert look_anywhere([on(3, "later")], history, source) == []
    assert look_anywhere([on(3, "3", day_is_arrival=True)], history, source) == []
    assert len(look_anywhere([on(3, "3")], history, source)) == 3


def test_a_version_that_was_taken_back_supersedes_nothing(look: Look) -> None:
    """Its marker is deleted, and written again if it comes back; another copy of it keeps the marker."""
    older, newer = on(1, "1"), on(4, "2")
    [mark] = look([newer], [older])
    there = marker(1, newer)
    assert mark == {name: there[name] for name in mark}
    assert look([deleted(newer)], [older, newer, there]) == [{**mark, "record_kind": "deletion"}]
    assert look([deleted(newer)], [older, newer, there, {**newer, "source_line": 9}]) == []
    assert look([newer], [older, newer, there, deleted(newer), deleted(there)]) == [mark]


def test_the_deletion_of_a_marker_is_written_as_the_marker_is(look: Look) -> None:
    """It cancels an equal row, and an older marker has the key as the newer version had it."""
    source, newer = replace(SOURCE, types={"receipt": "bigint"}), on(4, "2", receipt="07")
    there = marker(1, newer)
    [deletion] = look([deleted(newer)], [on(1, "1", receipt="7"), newer, there], source)
    assert deletion == {**{name: there[name] for name in deletion}, "record_kind": "deletion"}


def test_a_marker_that_is_there_twice_is_deleted_twice(look_anywhere: Look) -> None:
    """Raw may have one twice from a retried ingest; with one of them left, neither version would count."""
    newer = on(4, "2")
    there = marker(1, newer)
    held = [on(1, "1"), newer, there, there]
    found = look_anywhere([deleted(newer)], held)
    assert [row["record_kind"] for row in found] == ["deletion", "deletion"]
    assert len(look_anywhere([deleted(newer)], [*held, deleted(there)])) == 1


def test_a_marker_is_written_once(look: Look) -> None:
    """A duplicate of the newer version, or of the older one, that arrives later changes nothing."""
    older, newer = on(1, "1"), on(4, "2")
    assert look([{**newer, "source_line": 9}, {**older, "source_line": 8}], [older, newer, marker(1, newer)]) == []


@pytest.mark.parametrize(
    ("kind", "older", "newer"),
    [
        ("date", "2017-03-01", "2017-03-04"),
        ("date", "0000-02-29", "0001-01-01"),
        ("bigint", "7", "12"),
        ("decimal(6,2)", "7.50", "12.25"),
        ("decimal(18,9)", "0.000000000", "0.000000001"),
        ("timestamp", "0000-02-29T23:59:59.999999Z", "0001-01-01T00:00:00.000000Z"),
        ("string", "a", "b"),
        ("string", "B", "a"),
        ("string", "\uffff", "\U00010000"),
    ],
)
def test_a_version_may_be_of_any_type(look: Look, kind: str, older: str, newer: str) -> None:
    """The marker's text is read as the version that it stands for."""
    source = replace(SOURCE, types={"sent": kind})
    assert moves(look([on(4, newer)], [on(1, older)], source)) == {(1, 4, newer)}


@pytest.mark.parametrize(
    ("kind", "texts", "key"),
    [
        ("bigint", ("7", "07"), "7"),
        ("bigint", ("+7", "007"), "7"),
        ("decimal(9,2)", ("7", "7.0"), "7.00"),
        ("timestamp", ("2017-03-01T10:00:00Z", "2017-03-01T10:00:00.000Z"), "2017-03-01T10:00:00Z"),
    ],
)
def test_keys_of_equal_values_are_one(look: Look, kind: str, texts: tuple[str, str], key: str) -> None:
    """As in bronze, however they were written; the marker has one text of it, whichever of both is newer."""
    source = replace(SOURCE, types={"receipt": kind})
    for older, newer in (texts, texts[::-1]):
        arrived, there = on(4, "2", receipt=newer), on(1, "1", receipt=older)
        [found] = look([arrived], [there], source)
        assert (found["receipt"], found["day"], found["superseded_by_day"]) == (key, DAYS[0], DAYS[3])
        assert look([arrived], [there, marker(1, arrived, receipt=key)], source) == []


def test_a_key_that_is_no_value_takes_no_part(look: Look) -> None:
    """Its row is quarantined, so that it supersedes no other one."""
    source = replace(SOURCE, types={"receipt": "bigint"})
    assert look([on(4, "2", receipt="x")], [on(1, "1", receipt="x")], source) == []


def test_a_source_whose_day_is_part_of_its_key_has_none(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate of another day is another rate; and nothing is read to find that out."""
    monkeypatch.setattr(keys, "database", None)
    assert look([on(4, "2")], [on(1, "1")], replace(SOURCE, supersession_window_days=0)) == []


def test_a_field_may_be_called_day(look: Look) -> None:
    """It is the day of the row, whose text is compared; as part of the key it is another one on each day."""
    of_key, of_version = replace(SOURCE, key_fields=("till", "day")), replace(SOURCE, version_field="day")
    fields = ("till", "receipt", "sold", "day")
    assert look([on(4, "2")], [on(1, "1")], replace(of_key, fields=(*fields, "sent"))) == []
    versions = replace(of_version, fields=fields, types={"day": "date"})
    [mark] = look([on(4, "2")], [on(1, "1")], versions)
    assert (mark["day"], mark["superseded_by_day"]) == (DAYS[0], DAYS[3])


@pytest.mark.parametrize("made", [Storage, InAStore])
def test_a_column_that_a_file_lacks_is_null(tmp_path: Path, made: type[Storage]) -> None:
    """Files from before it was declared: no row of theirs has a key then, and rows are on the days that they name."""
    new = written(tmp_path / "new", SOURCE, [on(4, "2")])
    for lacks, found in (("receipt", 0), ("sent", 0), ("day_is_arrival", 1)):
        there = written(tmp_path / lacks, SOURCE, [on(1, "1")], [lacks])
        assert len(list(markers(made(str(tmp_path)), SOURCE, raw_contract(SOURCE), new, there))) == found


def test_only_keys_on_several_days_reach_python_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of millions of keys, what is in memory is some rows and the versions of one."""
    monkeypatch.setattr(keys, "_ROWS_AT_ONCE", 2)
    rows = [on(day, str(day), receipt=str(number)) for number in range(5) for day in (1, 2, 3)]
    alone = [on(1, "1", till="alone", receipt=str(number)) for number in range(3)]
    there = written(tmp_path / "raw", SOURCE, [on(1, "0", till="there")] * 3)
    contract = raw_contract(SOURCE)
    new = written(tmp_path / "new", SOURCE, [*rows, *alone])
    found = list(keys.returning_versions(Storage(str(tmp_path)), SOURCE, contract, new, there))
    assert [(key, len(versions)) for key, versions in found] == [(("a", str(number)), 3) for number in range(5)]


# ------------------------------------------------------------------ beside a model


_TEXTS: Mapping[str, Sequence[str | None]] = {
    "string": ["7", "07", "x", "é", "", None],
    "bigint": ["7", "07", "+7", "12", "-3", "7\n", "x", "", None],
    "decimal(9,2)": ["7", "7.0", "12.25", "-0.00", "0", "7.001", "x", "", None],
    "date": ["2017-03-01", "0000-01-01", "2017-02-30", "", None],
    "timestamp": [
        "2017-03-01T10:00:00Z",
        "2017-03-01T10:00:00.000Z",
        "2017-03-01T10:00:00.120Z",
        "0999-03-20T00:00:00.000001Z",
        "2017-03-01T24:00:00Z",
        "2017-03-01",
        None,
    ],
}


@st.composite
def raw_rows(draw: st.DrawFn, source: Source) -> Row:
    """Any of few rows, so that there are copies, deletions of them, markers, and deletions of these."""
    day, receipt = draw(st.integers(1, 6)), draw(st.sampled_from(_TEXTS[source.type_of("receipt")]))
    sent = draw(st.sampled_from(_TEXTS[source.type_of("sent")]))
    row = on(day, sent, draw(st.sampled_from("abcdef")), receipt, content_hash=draw(st.sampled_from([-1, 5])))
    row = {**row, "day_is_arrival": draw(st.sampled_from([False] * 9 + [True]))}
    if draw(st.booleans()):
        row = marker(draw(st.sampled_from([other for other in range(1, 7) if other != day])), row)
    return deleted(row) if draw(st.sampled_from([False, False, True])) else row


@st.composite
def tables(draw: st.DrawFn) -> tuple[Source, list[Row], list[Row]]:
    kinds = {name: draw(st.sampled_from(sorted(_TEXTS))) for name in ("receipt", "sent")}
    source = replace(SOURCE, types={name: kind for name, kind in kinds.items() if kind != "string"})
    rows = st.lists(raw_rows(source), min_size=20, max_size=80)
    return source, draw(rows), draw(rows)


def value(text: str | None, kind: str) -> Any:
    """What a landed text says, None if nothing; of a day or a moment a text that is in order, for years from 0 on."""
    if text is None or kind == "string":
        return text
    text = text.removesuffix("\n")
    if kind == "bigint":
        return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else None
    if kind == "decimal(9,2)":
        return Decimal(text) if re.fullmatch(r"[+-]?\d{1,7}(\.\d{1,2}0*)?", text) else None
    try:
        moment = datetime.fromisoformat(re.sub("^0000", "2000", text).removesuffix("Z"))
    except ValueError:
        return None
    fraction = f"{moment.microsecond:06}" if kind == "timestamp" else ""
    return f"{text[:19]}{fraction}" if (kind == "timestamp") == text.endswith("Z") else None


class Told(NamedTuple):
    """What a row says, if it takes part."""

    key: tuple[Any, ...]
    at: Any
    content: int
    of: date
    """The day of the version, of a marker the one that it names."""
    day: date
    as_written: tuple[str, str] | None
    """The key of a marker."""

    @property
    def version(self) -> tuple[Any, ...]:
        return self[:4]


def told(source: Source, row: Row) -> Told | None:
    key = tuple(row[name] and value(row[name], source.type_of(name)) for name in source.key_columns)
    at = value(row["sent"], source.type_of("sent"))
    if row["day_is_arrival"] or at is None or any(each in (None, "") for each in key):
        return None
    as_written = None if row["source_file"] else (row["till"], row["receipt"])
    return Told(key, at, row["content_hash"], row["superseded_by_day"] or row["day"], row["day"], as_written)


def expected(source: Source, arrived: Sequence[Row], existing: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    """By looking at every two rows: the version and the day of each marker, and whether it is its deletion."""
    came = {row.key for each in arrived if (row := told(source, each))}
    rows = [(row, each) for each in (*arrived, *existing) if (row := told(source, each)) and row.key in came]
    left: Counter[Told] = Counter()
    for row, each in rows:
        left[row] += -1 if each["record_kind"] == "deletion" else 1
    standing = [row for row, times in left.items() if times > 0]
    received = [row for row in standing if not row.as_written]
    marked = {(row.version, row.day) for row in standing if row.as_written}
    lacking = {
        (newer.version, older.day)
        for newer, older in product(received, received)
        if newer.key == older.key and (older.at, older.content) < (newer.at, newer.content)
        if 1 <= abs((newer.day - older.day).days) <= source.supersession_window_days
    }
    taken_back = {row.version for row, each in rows if each["record_kind"] == "deletion" and not row.as_written}
    gone = taken_back - {row.version for row in received}
    due = Counter({(*each, False): 1 for each in lacking - marked})
    for row in standing:
        if row.as_written and row.version in gone:
            due[row.version, row.day, True] += left[row]
    return due


@settings(max_examples=drawn(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_the_markers_are_those_of_every_two_rows(found: tuple[Source, list[Row], list[Row]]) -> None:
    """Copies, deletions, markers, other spellings and what cannot be read, in any mixture."""
    source, arrived, existing = found
    with looking() as look:
        due = look(arrived, existing, source)
    kinds = {name: source.type_of(name) for name in ("till", "receipt", "sent")}
    ours = Counter(
        (
            (
                tuple(value(row[name], kinds[name]) for name in source.key_columns),
                value(row["sent"], kinds["sent"]),
                row["content_hash"],
                row["superseded_by_day"],
            ),
            row["day"],
            row["record_kind"] == "deletion",
        )
        for row in due
    )
    assert ours == expected(source, arrived, existing)


VERSIONS = st.builds(
    lambda till, day, sent, line: on(day, str(sent), till, source_line=line),
    st.sampled_from("abcd"),
    st.integers(1, 12),
    st.integers(0, 3),
    st.integers(1, 9),
)


@settings(max_examples=drawn(3), deadline=None)
@given(arrivals=st.lists(VERSIONS, min_size=8, max_size=24), data=st.data())
def test_markers_do_not_depend_on_order_or_chunks(arrivals: list[Row], data: st.DataObject) -> None:
    """Each day must be a function of its own raw day, so raw must come out the same however it was ingested.

    Four keys at once: each has the versions that it would have alone, and all take one look.
    """
    shuffled = data.draw(st.permutations(arrivals))
    cut = data.draw(st.integers(1, len(arrivals) - 1))
    with looking() as look:
        assert _ingested(look, shuffled[:cut], shuffled[cut:]) == _ingested(look, arrivals)


def _ingested(look: Look, *chunks: Sequence[Row]) -> set[tuple[Any, ...]]:
    raw: list[Row] = []
    found: list[Row] = []
    for chunk in chunks:
        due = look(chunk, raw)
        found += due
        raw += [*chunk, *due]
    assert len(found) == len({tuple(row.items()) for row in found})
    return {tuple(sorted(row.items())) for row in found}
