"""Landed values beside typed ones, where few rows are compared: each as the declared query types it, by one query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from duckdb import DuckDBPyConnection

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.examples.datasets.sea_temperatures import SEA
from backfill_assets.judge.engine import database
from backfill_assets.landing.typed_texts import LandedValues, overtaking
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_values import parsed, parsed_sql
from backfill_assets_tests.strategies.landed_texts import typed

pytestmark = pytest.mark.data

VALUES = [
    ("7", "bigint", 7),
    ("+007\r\n", "bigint", 7),
    ("many", "bigint", None),
    ("9" * 18, "bigint", 10**18 - 1),
    ("9" * 19, "bigint", None),
    ("2017-03-01", "date", date(2017, 3, 1)),
    ("2017-02-30", "date", None),
    ("0000-03-01", "date", "0000-03-01"),
    ("2017-03-01T10:00:00Z", "timestamp", datetime(2017, 3, 1, 10, tzinfo=UTC)),
    ("2017-03-01T01:30:00.5+02:00", "timestamp", datetime(2017, 2, 28, 23, 30, 0, 500_000, tzinfo=UTC)),
    (
        "2017-03-01T10:00:00.123456789+02:00",
        "timestamp",
        datetime(2017, 3, 1, 8, 0, 0, 123_456, tzinfo=UTC),
    ),
    ("2017-03-01T23:59:59.999999999Z", "timestamp", datetime(2017, 3, 1, 23, 59, 59, 999_999, tzinfo=UTC)),
    ("2017-03-01T24:00:00Z", "timestamp", None),
    ("0000-03-01T10:00:00Z", "timestamp", "0000-03-01 10:00:00.000000Z"),
    ("soon", "timestamp", None),
    ("1.50", "decimal(18,2)", Decimal("1.5")),
    ("1.505", "decimal(18,2)", None),
    ("2147483647", "int", 2**31 - 1),
    ("2147483648", "int", None),
    ("-032768", "smallint", None),
    ("-32768", "smallint", -(2**15)),
    ("+128", "tinyint", None),
    ("1.5e3", "double", 1500.0),
    ("-0.1", "double", -0.1),
    ("1e999", "double", None),
    ("-Infinity", "double", float("-inf")),
    ("1e39", "float", None),
    ("0.5\n", "float", 0.5),
    (".5", "double", None),
    ("0x1p3", "double", None),
    ("true", "boolean", True),
    ("false\n", "boolean", False),
    ("True", "boolean", None),
    ("1", "boolean", None),
    ("NaN", "decimal(18,2)", None),
    ("sNaN", "decimal(18,2)", None),
    ("Infinity", "decimal(18,2)", None),
    ("a", "string", "a"),
    ("", "string", ""),
    (None, "timestamp", None),
]


def source_of(kind: str) -> Source:
    return replace(SALES.source, fields=("text",), types={"text": kind}, personal_fields={})


def test_a_landed_text_is_worth_what_the_query_says() -> None:
    """As typed rows have it in Python. A text that is no value equals no value."""
    for kind in dict.fromkeys(kind for _, kind, _ in VALUES):
        rows = [{"text": text} for text, of, _ in VALUES if of == kind]
        landed = LandedValues(source_of(kind), rows, ("text",))
        found = [(row["text"], kind, landed.value(row, "text")) for row in rows]
        assert found == [each for each in VALUES if each[1] == kind]
    of_years = [(text, kind, value) for text, kind, value in VALUES if not (text or "").startswith("0000")]
    assert of_years == [(text, kind, typed(text, kind)) for text, kind, _ in of_years], "the model agrees"


_COLUMN = '"t0"."text"'


@pytest.mark.parametrize(
    "kind",
    [
        *("bigint", "int", "smallint", "tinyint", "decimal(18,2)", "decimal(38,0)", "decimal(6,6)"),
        *("double", "float", "boolean", "date", "timestamp"),
    ],
)
def test_it_is_the_declared_query_to_the_letter(kind: str) -> None:
    """What a command asks without Ibis is what Ibis makes of the one definition."""
    import ibis

    rows = ibis.table({"text": "string"}, name="texts")
    asked = str(ibis.to_sql(rows.select(found=parsed(rows.text, kind)), dialect="duckdb"))
    assert _closed_up(asked) == f'SELECT {parsed_sql(_COLUMN, kind)} AS "found" FROM "texts" AS "t0"'  # noqa: S608


def _closed_up(sql: str) -> str:
    """Ibis writes a query in many lines."""
    return re.sub(r"\s+", " ", sql).replace("( ", "(").replace(" )", ")")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has an entry for each time that DuckDB is opened."""
    opened: list[str] = []

    @contextmanager
    def counted(threads: int = 0) -> Iterator[DuckDBPyConnection]:
        opened.append("opened")
        with database(threads) as connection:
            yield connection

    monkeypatch.setattr("backfill_assets.landing.typed_texts.database", counted)
    return opened


def sea(sent_at: str | None, **columns: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SEA.source.columns), "sent_at": sent_at, "content_hash": 1, **columns}


def test_one_query_for_all_rows_and_none_without_a_question(asked: list[str]) -> None:
    """All columns of all rows, also of different types; text is its own value."""
    rows = [sea(f"2016-02-16T00:00:{second:02d}Z", celsius="7.5", buoy="B01") for second in range(50)]
    landed = LandedValues(SEA.source, rows, ("buoy", "sent_at", "celsius"))
    assert {landed.value(row, "buoy") for row in rows} == {"B01"} and asked == []
    moments = [landed.value(row, "sent_at") for row in rows]
    assert moments == [datetime(2016, 2, 16, 0, 0, second, tzinfo=UTC) for second in range(50)]
    assert {landed.value(row, "celsius") for row in rows} == {Decimal("7.5")}
    assert asked == ["opened"]


@pytest.mark.parametrize(
    ("sent_at", "content_hash", "wins"),
    [
        ("2016-02-16T00:00:00.5Z", 1, True),
        ("2016-02-15T23:00:00Z", 9, False),
        ("2016-02-16T00:00:00Z", 9, True),
        ("2016-02-16T00:00:00Z", 4, False),
        ("2016-02-16T01:00:00+01:00", 9, True),
        ("later", 9, False),
        (None, 9, False),
    ],
)
def test_a_landed_row_wins_by_version_and_then_by_content_hash(sent_at: str, content_hash: int, wins: bool) -> None:
    """The order in which bronze lets rows win; moments are compared, not their text."""
    row, winner = (
        sea(sent_at, content_hash=content_hash),
        {"sent_at": datetime(2016, 2, 16, tzinfo=UTC), "content_hash": 5},
    )
    assert overtaking(SEA.source, [sea("2016-01-01T00:00:00Z"), row])(row, winner) is wins


def test_an_identical_row_is_no_newer_one_and_needs_no_query(asked: list[str]) -> None:
    """What is traced most: a line that was delivered twice."""
    row = sea("2016-02-16T00:00:00Z", content_hash=5)
    overtakes = overtaking(SEA.source, [row])
    assert not overtakes(row, {"sent_at": datetime(2016, 2, 16, tzinfo=UTC), "content_hash": 5}) and asked == []
