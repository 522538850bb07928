"""Raw rows by DuckDB are those by Spark, column by column: of hand-picked lines and of generated ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.engine import database
from backfill_assets.landing import raw_query
from backfill_assets.landing.line_reader import LINES
from backfill_assets.landing.raw_rows import rows_of_lines
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import raw_schema
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.landed_sales import SALE, land_key, sale

KEY = "0123456789abcdef0123456789abcdef"
RATES, OF_SALES = FX_RATES.source, replace(SALES.source, first_day=date(2016, 12, 24))
ARRIVED, TODAY = date(2017, 3, 2), date(2017, 3, 3)
Row = Mapping[str, Any]

VALUES = [
    *(
        '"a"',
        '""',
        "null",
        "true",
        "false",
        "True",
        "nul",
        "nulls",
        "7",
        "-7",
        "-0",
        "+7",
        "07",
        "0",
        "00",
        "-",
        "7.",
        ".7",
    ),
    *(
        "1e5",
        "1E05",
        "1e+5",
        "1e",
        "1.50",
        "-0.0",
        "0.0",
        "0.00",
        "0.001",
        "0.0001",
        "0.00012",
        "9999999.99",
        "12345678.9",
    ),
    *("10000000.0", "123456.7", "1e7", "1E-3", "2E-3", "2e-323", "4.9E-324", "1E400", "-1E400", "1e-400"),
    *("9007199254740993", "9007199254740993.0", "18446744073709551616", "0.12345678901234567890", "1" * 200, "0x10"),
    *(
        "NaN",
        "nan",
        "-NaN",
        "+NaN",
        "Infinity",
        "-Infinity",
        "+Infinity",
        "infinity",
        "inf",
        "-inf",
        "INF",
        "-INF",
        "+INF",
    ),
    *(
        '{"b": [1, 2.50, null] , "c":{}}',
        "[ ]",
        "[[],{}]",
        "[1,]",
        "[,1]",
        '{"b":1,}',
        '{"b":1,"b":2}',
        '{"b"}',
        "[NaN]",
    ),
    *(
        '{"b":1e10}',
        '["\\u00e9\\/\\u0001\\u001f\\b\t"]',
        '["\\u00e9\\/\\u0001\\u001f\\b\\u2028"]',
        '{"\\u0062":"\\ud800"}',
    ),
    *(
        f"{'[' * 900}{']' * 900}",
        f"{'[' * 900}{']' * 899}",
        '[{"b":[{"c":"]}"}]}]',
        "[1 2]",
        '["a" "b"]',
        "[1}",
        "{1:2}",
    ),
    *('"\\ud83d\\ude00"', '"\\ude00\\ud83d"', '"\\ud800"', '"\\udc00x"', '"\\ud800\\ud800\\udc00"', '"\U0001f600"'),
    *(
        '"\\u0000"',
        '"\x00"',
        '"\\u00"',
        '"\\uZZZZ"',
        '"\\x"',
        '"\\a"',
        '"\\\'"',
        '"\\0"',
        '"a\\\nb"',
        '"\\/\\b\\f\\n\\r\\t"',
    ),
    *(
        '"\t"',
        '"\n"',
        '"\x1f"',
        '"\x7f\x85\xa0\u2028\ufeff"',
        '"{"',
        '"[1],{}]"',
        '"\\"}"',
        '"\\\\"',
        '",}"',
        '"\\u005d"',
    ),
    *("'a'", "'a\"b'", "'a\\'b'", "'a", "a", "`a`", "\xa07", "7\x0c", "\v7", "7//", "7/*c*/", "7#c", '"a""b"', '"a",'),
    *(
        "1" * 18,
        "1" * 19,
        f"-{'9' * 18}",
        "0.1234567890",
        "1234567.123456",
        "1234567.1234567",
        "0.000",
        "1.10",
        "100.0",
    ),
]
NAMES = [
    '"rate"',
    '"Rate"',
    '"other"',
    '"r\\u0061te"',
    "'rate'",
    "rate",
    '""',
    '"\\u0000"',
    '"\t"',
    "null",
    '"rate" ',
    '"\\ud800"',
]
AROUND = [
    *("{x}\r", " \t{x} \t\r", "\ufeff{x}", "\xa0{x}", "{x}\xa0", "{x}\u2028", "\x00{x}", "{x}\x00", "{x}\x1a", "\v{x}"),
    *(
        "{x} {x}",
        "{x}{x}",
        "{x},{x}",
        "[{x}]",
        "{x}]",
        "{x}],[{x}",
        "{x}][{x}",
        "{x},{{}}]",
        "{x}}}",
        "{x}{{",
        '"{{}}"',
    ),
    *(
        "{x}#",
        "{x}//",
        "/**/{x}",
        "{x}\n",
        "null",
        "[]",
        "7",
        "text",
        '"text"',
        "base64: {x}",
        "{{",
        "{{}}",
        "{{ }}",
        "{{,}}",
    ),
]
TWICE = ['"rate":"1"', '"rate":null', '"r\\u0061te":"2"', '"other":"3"', '"Rate":4', '"day":[5]']
RATE = '{"currency":"USD","rate":"1.5","rate_day":"2017-03-01","updated_at":"2017-03-01T15:00:00Z"}'
LINES_OF_RATES = [
    *(f"{{{','.join(some)}}}" for some in product(TWICE, repeat=3)),
    *(f'{{"currency":"USD","rate":{value}}}' for value in VALUES),
    *(f'{{"unknown" : {value} , "currency":"USD"}}' for value in VALUES),
    *(f'{{{name}:"1","rate_day":"2017-03-01"}}' for name in NAMES),
    *(around.replace("{{", "{").replace("}}", "}").replace("{x}", RATE) for around in AROUND),
    *(
        f'{{"currency":"USD"{comma}"rate":"1"{end}}}'
        for comma, end in product((",", ",,", " , ", ""), ("", ",", ", ", " "))
    ),
]
PERSONAL = [
    '"900 7"',
    '""',
    "null",
    "900",
    "900.50",
    '{"household_id":"900 7"}',
    '["900 7"]',
    "'900 7'",
    '"{[household_id"',
]
LINES_OF_SALES = [
    *(json.dumps(SALE).replace('"900"', value) for value in PERSONAL),
    *(
        f'{{"{name}":{value},"till":"7"}}'
        for name in ("store_id", "extra", "Household-ID", "household_id ")
        for value in PERSONAL
    ),
    *(
        json.dumps(sale(store_id=text))
        for text in ('{"household_id":"9"}', "household_id", "[their HouseHold-Id]", "[x", "\u017f{")
    ),
    *(json.dumps({**SALE, "their householdId": "9", "a": None, "b": "[x]", "c": "\u0130"}, separators=(",", ":")),),
    *(
        '{"household_id":"900 7","store_id',
        '[{"household_id":"900 7"}]',
        '{"household_id":"1","household_id":"2"}',
        "\U0001f600 {",
    ),
]
MOMENTS = [
    *("2017-03-02T23:59:59Z", "2017-03-03T00:00:00.000001Z", "2017-03-04T00:00:00Z", "2016-12-24T00:00:00Z"),
    *("2016-12-23T23:59:59Z", "2017-02-30T12:00:00Z", "2017-03-01 12:00", "", None, "2017-03-02T01:30:00+02:00"),
    *(
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2017-03-01T12:00:00Z\n",
        " 2017-03-01T12:00:00Z",
        "2017-03-01T24:00:00Z",
    ),
]


def by_duckdb(source: Source, lines: pa.Table, key_file: Path | None, today: date | None = None) -> Iterator[Row]:
    import ibis

    asked = raw_query.raw_rows(ibis.table(ibis.Schema.from_pyarrow(LINES), name="lines"), source, today)
    with database(threads=1) as connection:
        raw_query.register(connection)
        if key_file:
            raw_query.register_tokens(connection, key_file)
        connection.register("lines", lines)
        yield from connection.execute(ibis.to_sql(asked, dialect="duckdb")).to_arrow_table().to_pylist()


def numbered(texts: Sequence[str], arrived: date | None = ARRIVED) -> pa.Table:
    rows = [("a", number, text, arrived) for number, text in enumerate(texts, start=1)]
    columns = dict(zip(("source_file", "source_line", "value", "arrival_day"), zip(*rows, strict=True), strict=True))
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in LINES}, LINES)


def require_equal(
    spark: SparkSession, source: Source, texts: Sequence[str], key_file: Path | None = None, today: date | None = None
) -> None:
    lines = numbered(texts, None if today else ARRIVED)
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in lines.to_pylist()],
        "value string, source_file string, source_line bigint, arrival_day date",
    )
    there = rows_of_lines(spark, source, frame, str(key_file), today).collect()
    require_same_rows(texts, there, by_duckdb(source, lines, key_file, today))


def require_same_rows(texts: Sequence[str], there: Sequence[Any], here: Iterator[Row]) -> None:
    of_line = {row["source_line"]: row for row in here}
    expected = {row.source_line: row.asDict() for row in there}
    assert of_line.keys() == expected.keys()
    assert all(list(of_line[number]) == list(row) for number, row in expected.items())
    differ = [
        (texts[number - 1][:90], column, value, of_line[number][column])
        for number, row in expected.items()
        for column, value in row.items()
        if of_line[number][column] != value
    ]
    assert differ == []


def test_odd_lines_are_read_as_spark_reads_them(spark: SparkSession) -> None:
    """What is one object, what its values are, and which text is kept of the others."""
    require_equal(spark, RATES, LINES_OF_RATES)


def test_personal_values_become_the_same_tokens(spark: SparkSession, tmp_path: Path) -> None:
    """Also under another name, within a structure, and in a line that is no object."""
    require_equal(spark, OF_SALES, LINES_OF_SALES, Path(land_key(tmp_path, KEY)))


@pytest.mark.parametrize("today", [None, TODAY])
def test_a_row_is_on_the_same_day(spark: SparkSession, tmp_path: Path, today: date | None) -> None:
    lines = [json.dumps(sale(transaction_timestamp=moment)) for moment in MOMENTS]
    require_equal(spark, OF_SALES, lines, Path(land_key(tmp_path, KEY)), today)
    any_day = [line for line in lines if "0000-01" not in line]
    require_equal(spark, replace(OF_SALES, first_day=None), any_day, Path(land_key(tmp_path, KEY)), today)


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


@settings(max_examples=drawn(3), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(lines, min_size=100, max_size=200))
def test_generated_lines_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, some: list[str]
) -> None:
    require_equal(spark, RATES, some)
    key_file = Path(land_key(tmp_path_factory.mktemp("key"), KEY))
    require_equal(spark, replace(RATES, personal_fields={"rate": "rate_token"}), some, key_file)


def test_the_columns_and_types_are_those_of_raw(tmp_path: Path) -> None:
    import ibis

    for source in (RATES, OF_SALES):
        asked = raw_query.raw_rows(ibis.table(ibis.Schema.from_pyarrow(LINES), name="lines"), source)
        assert asked.columns == tuple(raw_schema(source).names)
        sql = ibis.to_sql(asked, dialect="duckdb")
        assert KEY not in sql and sql == ibis.to_sql(asked, dialect="duckdb")


def test_without_a_key_there_is_no_row(tmp_path: Path) -> None:
    """A personal value must never be kept as it is, and a token of nothing would join with every other."""
    with pytest.raises(LakehouseUnusable, match="hmac_of_personal_value"):
        list(by_duckdb(OF_SALES, numbered([json.dumps(SALE)]), None))
    with pytest.raises(LakehouseUnusable, match="fewer than 16"):
        list(by_duckdb(OF_SALES, numbered([json.dumps(SALE)]), Path(land_key(tmp_path, "short"))))
