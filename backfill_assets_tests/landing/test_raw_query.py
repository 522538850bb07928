"""Raw rows by the declared query, column by column: of hand-picked lines, of generated ones, and on which days."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.engine import database
from backfill_assets.landing import raw_query
from backfill_assets.landing.odd_lines import as_plain_object
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.landed_values import AS_HASHED, raw_content_hash
from backfill_assets.model.measure import ContentHash, hashes_written_of, unbelieved_day
from backfill_assets.spark.worker_queries import with_hashes
from backfill_assets_tests.landing.lines_read import lines_of_rates, lines_of_sales
from backfill_assets_tests.stories.toll_passages import SOURCE as TOLLS
from backfill_assets_tests.stories.toll_passages import passage
from backfill_assets_tests.strategies.any_source import Duty, dataset
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.landed_sales import SALE, land_key, sale
from backfill_assets_tests.strategies.raw_by_python import Fields, LineReading

pytestmark = pytest.mark.data
KEY = "0123456789abcdef0123456789abcdef"
RATES, OF_SALES = FX_RATES.source, replace(SALES.source, first_day=date(2016, 12, 24))
ARRIVED, TODAY = date(2017, 3, 2), date(2017, 3, 3)
PASSAGES = replace(TOLLS, first_day=None, days_ahead=10_000)
"""Whose moments may be of any day."""
Row = Mapping[str, Any]
LINES = pa.schema([("value", pa.string()), *raw_query.PLACE])
_COLUMNS = LINES.append(pa.field(raw_query.TODAY, pa.date32()))


def by_duckdb(
    source: Source, lines: pa.Table, key_file: str = "", of_rows: Callable[[Any], Any] | None = None
) -> list[Row]:
    """The rows of ``lines``, or what is asked ``of_rows`` and has their lines."""
    with database(threads=1) as connection:
        raw_query.register(connection, key_file)
        connection.register("lines", lines)
        found: list[Row] = (
            connection.execute(asked(source, lines.schema, of_rows or as_they_are)).to_arrow_table().to_pylist()
        )
    return sorted(found, key=lambda row: row["source_line"])


def as_they_are(rows: Any) -> Any:
    return rows


@cache
def asked(source: Source, columns: pa.Schema, of_rows: Callable[[Any], Any]) -> str:
    """Compiled once for all lines."""
    import ibis

    lines = ibis.table(ibis.Schema.from_pyarrow(columns), name="lines")
    return str(ibis.to_sql(of_rows(raw_query.raw_rows(lines, source)), dialect="duckdb"))


def test_the_hash_beside_a_staged_row_is_of_what_is_staged(tmp_path: Path) -> None:
    """Of other texts than those that were hashed it is computed from them; of the same it is carried."""
    import ibis

    table = CATALOG.table("raw_sales")
    beside = next(each for each in hashes_written_of(table) if isinstance(each, ContentHash)).name
    spoiled: Mapping[str, Any] = {
        "": None,
        "sales_value": ibis.literal("77.77"),
        "currency": ibis.null("string"),
        "unparsed_line": ibis.literal("another"),
        "content_hash": ibis.literal(7).cast("int64"),
    }
    # Of each that is spoiled three sales and a line that is none; it is so in the first and the last.
    lines = numbered([*(json.dumps(sale(quantity=str(n))) for n in range(1, 4)), "no JSON"] * len(spoiled))
    records = ibis.table(ibis.Schema.from_pyarrow(lines.schema), name="lines")
    rows = raw_query.raw_rows_to_write(records, OF_SALES)
    other = {
        name: rows.source_line.isin([4 * at + 1, 4 * at + 4]).ifelse(text, rows[name])
        for at, (name, text) in enumerate(spoiled.items())
        if name
    }
    found = with_hashes(rows.mutate(other), table)
    with database(threads=1) as connection:
        raw_query.register(connection, land_key(tmp_path, KEY))
        connection.register("lines", lines)
        query = ibis.to_sql(
            found.mutate(afresh=raw_content_hash(OF_SALES, found)).order_by("source_line"), dialect="duckdb"
        )
        made = connection.execute(query).to_arrow_table().to_pylist()
    agree = [(row[beside] == row["afresh"], row[beside] == row["content_hash"]) for row in made]
    # Whether the hash beside a row is that of what it has, and that which it carries.
    sound, sales_value, currency, unparsed_line, content_hash = (agree[at : at + 4] for at in range(0, len(agree), 4))
    assert sound == [(True, True)] * 4
    assert AS_HASHED not in made[0]
    assert sales_value[:3] == [(True, False), (True, True), (True, True)]
    assert currency[0] == (True, False)
    assert unparsed_line == [(True, False), *[(True, True)] * 2, (True, False)]
    assert content_hash == [(True, False), *[(True, True)] * 2, (True, False)]


def numbered(lines: Iterable[str], today: date | None = None) -> pa.Table:
    """With ``today``, nobody knows when they arrived."""
    rows = [
        {"value": line, "source_file": "a", "source_line": number, "arrival_day": None if today else ARRIVED}
        for number, line in enumerate(lines, start=1)
    ]
    return pa.Table.from_pylist([{**row, raw_query.TODAY: today} for row in rows], _COLUMNS if today else LINES)


def require_as_by_python(
    source: Source, lines: Iterable[tuple[str, Fields | None]], key_file: str = "", today: date | None = None
) -> None:
    """The rows of the query are those of plain Python, which is told what the fields of each line are."""
    reading, read = LineReading(source, KEY.encode(), today), dict(lines)
    rows = by_duckdb(source, numbered(read, today), key_file)
    assert [row["source_line"] for row in rows] == list(range(1, len(read) + 1))
    differ = []
    for row, (line, fields) in zip(rows, read.items(), strict=True):
        expected = reading.row(line, fields, None if today else ARRIVED) | {"source_file": "a"}
        assert [*row] == [*raw_schema(source).names] and row.keys() - expected.keys() == {"source_line"}
        differ += [(line[:90], name, value, row[name]) for name, value in expected.items() if row[name] != value]
    assert differ == []


def test_odd_lines_are_read_as_they_always_were() -> None:
    """What is one object, what its values are, and which text is kept of the others."""
    require_as_by_python(RATES, lines_of_rates())


def test_fields_that_are_columns_under_another_name() -> None:
    """They are read by the name that they are landed with; what is landed by the other name is an unknown field."""
    source = dataset(Duty).source
    plain = {"reasons": "a", "day": "2017-03-01", "round": "1"}
    lines: list[Fields] = [
        plain,
        {**plain, "work_day": "2017-03-02"},
        {**plain, "day": "2017-02-30"},
        {"place": "a", "day": None},
    ]
    require_as_by_python(source, ((json.dumps(each), each) for each in lines))
    found = by_duckdb(source, numbered(map(json.dumps, lines)))
    assert [row["work_day"] for row in found] == ["2017-03-01", "2017-03-01", "2017-02-30", None]
    assert [row["day"] for row in found] == [date(2017, 3, 1), date(2017, 3, 1), ARRIVED, ARRIVED]


def test_personal_values_become_tokens(tmp_path: Path) -> None:
    """Also under another name, within a structure, and in a line that is no object."""
    require_as_by_python(OF_SALES, lines_of_sales(), land_key(tmp_path, KEY))


def passed(moment: str) -> dict[str, str]:
    return {**passage(0), "passed_at": moment}


ON_ITS_DAY: Mapping[str | None, date] = {
    "2017-03-02T23:59:59Z": date(2017, 3, 2),
    "2017-03-03T00:00:00.000001Z": date(2017, 3, 3),
    "2016-12-24T00:00:00Z": date(2016, 12, 24),
    "2017-03-02T01:30:00+02:00": date(2017, 3, 1),
    "2017-03-01T12:00:00Z\n": date(2017, 3, 1),
}
EARLIER: Mapping[str | None, date] = {"2016-12-23T23:59:59Z": date(2016, 12, 23)}
"""Before the first day of the source, if it has one."""
LATER: Mapping[str | None, date] = {"2017-03-04T00:00:00Z": date(2017, 3, 4)}
"""Possible if it arrived a day later."""
YEAR_0 = "0000-01-01T00:00:00Z"
ON_ARRIVAL = [
    *("2017-02-30T12:00:00Z", "2017-03-01 12:00", "", None, YEAR_0, "9999-12-31T23:59:59Z"),
    *(" 2017-03-01T12:00:00Z", "2017-03-01T24:00:00Z"),
]


@pytest.mark.parametrize("today", [None, TODAY])
@pytest.mark.parametrize("first_day", [date(2016, 12, 24), None])
def test_a_row_is_on_the_day_that_it_names_if_that_is_possible(
    tmp_path: Path, first_day: date | None, today: date | None
) -> None:
    """Or else where it arrived. If that is not known, it arrived on the day that it names, or else today."""
    possible = {**ON_ITS_DAY, **({} if first_day else EARLIER), **(LATER if today else {})}
    # The year 0 is possible where no day is the first, and Python has no such day.
    texts = [text for text in (*ON_ITS_DAY, *EARLIER, *LATER, *ON_ARRIVAL) if first_day or text != YEAR_0]
    lines = [json.dumps(sale(transaction_timestamp=text)) for text in texts]
    source, key_file = replace(OF_SALES, first_day=first_day), land_key(tmp_path, KEY)
    found = by_duckdb(source, numbered(lines, today), key_file)
    for text, row in zip(texts, found, strict=True):
        day = possible.get(text, today or ARRIVED)
        arrived = day if today else ARRIVED
        placed = row["day"], row["day_is_arrival"], row["arrival_day"]
        assert placed == (day, text not in possible, arrived), text
    require_as_by_python(source, ((line, json.loads(line)) for line in lines), key_file, today)


HERE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    # The first and the last moment of a day, in UTC; and those beside one.
    "Europe/Berlin": {
        "2017-03-25": ("2017-03-25T22:59:59.999999Z",),
        "2017-03-26": ("2017-03-25T23:00:00Z", "2017-03-26T21:59:59.999999Z"),  # 23 hours
        "2017-03-27": ("2017-03-26T22:00:00Z",),
        "2017-10-29": ("2017-10-28T22:00:00Z", "2017-10-29T22:59:59.999999Z"),  # 25 hours
        "2017-07-01": ("2017-07-01T00:00:00+02:00", "2017-07-01T23:59:59.999999999+02:00"),
        "1945-06-01": ("1945-05-31T21:00:00Z", "1945-06-01T20:59:59Z"),  # three hours from UTC, for some weeks
        "1890-01-01": ("1889-12-31T23:06:32Z", "1890-01-01T23:06:31Z"),  # by the sun, seconds and all
    },
    "America/Los_Angeles": {"1969-12-31": ("1969-12-31T08:00:00Z", "1970-01-01T07:59:59Z")},
    "Pacific/Apia": {"2011-12-31": ("2011-12-30T10:00:00Z", "2011-12-31T09:59:59Z")},  # the day before never was
    "Africa/Cairo": {"2010-09-10": ("2010-09-09T22:00:00Z", "2010-09-10T20:59:59Z")},  # the clock changes at midnight
}


def test_the_day_of_a_moment_is_that_of_the_clocks_of_its_zone() -> None:
    """Known answers: days of 23 and 25 hours, before 1970, and one that was left out."""
    for zone, days in HERE.items():
        there = {moment: day for day, moments in days.items() for moment in moments}
        rows = by_duckdb(replace(PASSAGES, event_zone=zone), numbered(json.dumps(passed(moment)) for moment in there))
        assert [(str(row["day"]), row["day_is_arrival"]) for row in rows] == [(day, False) for day in there.values()]


def test_what_is_possible_is_judged_by_the_day_there() -> None:
    """Arrival days are of UTC. A moment of which the day there is too early or too late is named by that day."""
    source = replace(PASSAGES, event_zone="Asia/Tokyo", first_day=date(2017, 3, 2), days_ahead=0)
    placed = {
        "2017-03-01T15:00:00Z": (date(2017, 3, 2), False),
        "2017-03-01T14:59:59Z": (ARRIVED, True),
        "2017-03-02T14:59:59Z": (date(2017, 3, 2), False),
        "2017-03-02T15:00:00Z": (ARRIVED, True),
    }
    lines = [json.dumps(passed(moment)) for moment in placed]
    assert [(row["day"], row["day_is_arrival"]) for row in by_duckdb(source, numbered(lines))] == [*placed.values()]
    today = by_duckdb(source, numbered(lines, date(2017, 3, 2)))
    assert [row["arrival_day"] for row in today] == [date(2017, 3, 2)] * 4
    doubted = by_duckdb(
        source, numbered(lines), of_rows=lambda rows: rows.select("source_line", day=unbelieved_day(source, rows))
    )
    assert [row["day"] for row in doubted] == [None, date(2017, 3, 1), None, date(2017, 3, 3)]


zones = st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"])
moments = st.integers(-4_000_000_000, 2_000_000_000).map(
    lambda second: (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).isoformat()
)
"""From 1843 to 2033."""


@settings(max_examples=drawn(3), deadline=None)
@given(zones, st.lists(moments, min_size=50, max_size=100, unique=True))
def test_generated_moments_are_on_the_day_that_python_has_of_them(zone: str, some: list[str]) -> None:
    """By the time zones of this machine, which are not DuckDB's own."""
    source = replace(PASSAGES, event_zone=zone)
    lines = {json.dumps(passed(moment)): passed(moment) for moment in some}
    require_as_by_python(source, lines.items())


texts = st.text(max_size=6) | st.sampled_from(["1.5", "household_id", "{", "[", '"', "\\", "\ud83d", "\x00"])
decimals = st.builds(lambda digits, scale: digits / 10**scale, st.integers(-(10**12), 10**12), st.integers(0, 9))
plain = st.none() | st.booleans() | st.integers() | decimals | texts | st.sampled_from([float("inf"), float("nan")])
values = st.recursive(
    plain, lambda some: st.lists(some, max_size=3) | st.dictionaries(texts, some, max_size=3), max_leaves=5
)
names = st.sampled_from([*RATES.fields, "rate", "RATE", "household-id"]) | texts


def written(pairs: list[tuple[str, Any]], ascii_: bool, separators: tuple[str, str]) -> str:
    between, behind = separators
    names = (json.dumps(name, ensure_ascii=ascii_) for name, _ in pairs)
    values = (json.dumps(value, ensure_ascii=ascii_) for _, value in pairs)
    return "{" + between.join(f"{name}{behind}{value}" for name, value in zip(names, values, strict=True)) + "}"


objects = st.builds(
    written,
    st.lists(st.tuples(names, values), max_size=4),
    st.booleans(),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\r: ")]),
)
nearly = st.builds(
    lambda text, place, sign: text[: place % (len(text) + 1)] + sign + text[place % (len(text) + 1) + 1 :],
    objects,
    st.integers(0, 80),
    st.sampled_from([*"{}[]:,\"'\\ 0e.-\t\r\n\x00\xa0", "NaN", ""]),
)
lines = (objects | nearly).map(lambda text: text.encode(errors="replace").decode())


@settings(max_examples=drawn(2), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(lines, min_size=60, max_size=120))
@example(['{"\\\\u00a9": 1}', '{"\\\\\\u001f": 1}'])  # a backslash before what looks like an escape
def test_generated_lines_are_read_as_plain_python_reads_them(
    tmp_path_factory: pytest.TempPathFactory, some: list[str]
) -> None:
    """Plain ones by DuckDB, and all others by what is tested in ``test_odd_lines.py``."""
    read = {line: json.loads(found) if (found := as_plain_object(line)) else None for line in some}
    require_as_by_python(RATES, read.items())
    key_file = land_key(tmp_path_factory.mktemp("key"), KEY)
    require_as_by_python(replace(RATES, personal_fields={"rate": "rate_token"}), read.items(), key_file)


def test_the_columns_and_types_are_those_of_raw() -> None:
    import ibis

    for source in (RATES, OF_SALES):
        asked = raw_query.raw_rows(ibis.table(ibis.Schema.from_pyarrow(LINES), name="lines"), source)
        assert asked.columns == tuple(raw_schema(source).names)
        sql = ibis.to_sql(asked, dialect="duckdb")
        assert KEY not in sql and sql == ibis.to_sql(asked, dialect="duckdb")


def test_without_a_key_there_is_no_row(tmp_path: Path) -> None:
    """A personal value must never be kept as it is, and a token of nothing would join with every other."""
    with pytest.raises(LakehouseUnusable, match="hmac_of_personal_value"):
        by_duckdb(OF_SALES, numbered([json.dumps(SALE)]))
    with pytest.raises(LakehouseUnusable, match="fewer than 16"):
        by_duckdb(OF_SALES, numbered([json.dumps(SALE)]), land_key(tmp_path, "short"))
