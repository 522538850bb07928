"""A landed text has the value here that it has in plain Python, and the hash that it has in Spark: odd texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.judge.compare import value_text
from backfill_assets.judge.engine import engine
from backfill_assets.model import canonical, landed_values
from backfill_assets.model.declaration import Source, landed_pattern
from backfill_assets_tests.strategies import values_by_python
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.landed_texts import typed

if TYPE_CHECKING:
    import ibis.expr.types as ir

NUMBERS = [
    *("0", "-0", "+0", "7", "07", "+7", "-7", "--7", "+-7", "007", "7.", ".7", "7.0", "7.5", "7.50", "7.501", "-0.00"),
    *("0.000000001", "9999.99", "10000", "9999.995", "9999.990", "1e2", "0x7", "1_000", "1,5", "NaN", "Infinity"),
    *("9" * 18, "9" * 19, "9" * 20, f"-{'9' * 18}", "9" * 38, "0" * 18 + "7", f"7.5{'0' * 60}", f"7.{'1' * 40}"),
    *("\u0667", "\uff17", "\xb2"),
    *(
        "127",
        "128",
        "-128",
        "-129",
        "32767",
        "32768",
        "-32768",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
    ),
    *(
        "0.1",
        "1e5",
        "1E+5",
        "-1.5e-3",
        "1e",
        "e1",
        "1e5.",
        "1e00005",
        "1d",
        "1f",
        "0x1p3",
        "nan",
        "-NaN",
        "inf",
        "+Infinity",
    ),
    *("1e308", "1.7976931348623157e308", "1.7976931348623159e308", "1e309", "-1e999", "1e9999", "9" * 309, "1" * 320),
    *("5e-324", "2.4703282292062328e-324", "2.4703282292062327e-324", "2.2250738585072011e-308", "1e-999", "-1e-999"),
    *(
        "3.4028235e38",
        "3.4028236e38",
        "1e39",
        "1e-45",
        "7e-46",
        "7.1e-46",
        "16777217",
        "1.00000005960464477540",
        "-0.0",
    ),
    *(
        "1.00000005960464477540",
        "9007199254740993",
        "0.1000000000000000055511151231257827021181583404541015625",
        "-Infinity",
    ),
    *("true", "false", "True", "TRUE", "t", "yes", "y", "truefalse"),
]
DAYS = [
    *("2017-03-01", "2017-02-28", "2017-02-29", "2017-02-30", "2016-02-29", "1900-02-29", "2000-02-29", "1582-10-10"),
    *("0000-01-01", "0000-02-29", "0001-02-29", "0000-00-00", "9999-12-31", "9999-12-32", "10000-01-01", "2017-13-01"),
    *("2017-3-1", "-2017-03-01", "+2017-03-01", "2017-03-01 BC", "2017-03-01 (BC)", "2017/03/01", "infinity", "epoch"),
]
TIMES = [
    *("T10:00:00Z", "T10:00:00.5Z", "T10:00:00.500000Z", "T10:00:00.000Z", "T10:00:00.1234567Z", "T10:00:00.Z"),
    *("T23:59:59.999999Z", "T00:00:00Z", "T24:00:00Z", "T24:00:00.000001Z", "T23:60:00Z", "T23:59:60Z", "T25:00:00Z"),
    *("T10:00:00", "T10:00:00+00:00", "T10:00:00z", "t10:00:00Z", " 10:00:00Z", "T10:00Z", "T\uff110:00:00Z"),
    *(
        "T10:00:00.123456789Z",
        "T10:00:00.999999999+00:00",
        "T10:00:00.1234567890Z",
        "T23:59:60+00:00",
        "T24:00:00+02:00",
    ),
]
OFFSETS = [
    *(
        "+00:00",
        "-00:00",
        "+00",
        "+0000",
        "+0530",
        "-03:30",
        "+02",
        " +02",
        "+2",
        "+02:",
        "+2:00",
        "+02:60",
        "+02:3",
        "+",
    ),
    *(
        "+17:59",
        "-17:59",
        "+18:00",
        "-18",
        "+18:01",
        "-1801",
        "+19",
        "+24:00",
        "+05:30:15",
        "+00:30",
        "-0030",
        "\u221202:00",
    ),
    *("Z+02", "+02Z", "UTC", "+02:00[Europe/Berlin]", " Europe/Berlin", "CET"),
]
LISTS = [
    *(
        "[]",
        "[ ]",
        "[1]",
        "[1,2]",
        "[ 1 ,\t2 ]\n",
        '["1","2"]',
        '[1,"2",null]',
        "[null]",
        "[null,null]",
        "[true,false]",
        "[1,]",
        "[,1]",
    ),
    *(
        "[1,,2]",
        "[1 2]",
        "[12",
        "12]",
        "[[1]]",
        "[[]]",
        '[{"a":1}]',
        "[1]]",
        "[]x",
        "[1]\r\n",
        " [1]",
        "[1] ",
        "[01]",
        "[1.0]",
        "[-1]",
    ),
    *(
        "[+1]",
        "[1.50]",
        "[1e2,-1.5E-3]",
        "[1e999]",
        "[1.]",
        "[NaN]",
        '["NaN","-Infinity"]',
        "[truefalse]",
        '["a""b"]',
        "['1']",
        "[a]",
    ),
    *(
        '[""]',
        '["a,b","]","[","\\\\",",1"]',
        '["\\"","\\/","\\b\\f\\n\\r\\t"]',
        '["\\u0041\\u00e9\\u2028"]',
        '["\\ud83d\\ude00"]',
    ),
    *(
        '["\\ud83d"]',
        '["\\ude00x"]',
        '["\\x"]',
        '["\\u12"]',
        '["a\nb"]',
        '["a\tb"]',
        '["\u00e9\U0001f600"]',
        '["\\u0000"]',
        "[9007199254740993]",
    ),
    *(
        '["2017-03-01T10:00:00+02:00","2017-03-01T08:00:00Z"]',
        '["2017-03-01"]',
        '["1","x"]',
        "[ null , 1 ]",
        '["null"]',
        "[-0.0,0]",
    ),
    *(
        f"[{'1,' * 5000}1]",
        f'["{"a" * 20000}"]',
        f'["{chr(92)}n{"b" * 9}"]',
        "[1\x1f]",
        "[\u00a01]",
        "[\x0b1]",
        "[9223372036854775808]",
    ),
]
TEXTS: Sequence[str | None] = [
    None,
    "",
    " ",
    "\n",
    "x",
    "\x00",
    *NUMBERS,
    *DAYS,
    *LISTS,
    *(f"{day}{time}" for day in DAYS for time in TIMES),
    *(f"2017-03-01T{time}{offset}" for time in ("01:20:03", "23:59:60", "20:20:03.12345678") for offset in OFFSETS),
    *(f"{day}T12:00:00{offset}" for day in DAYS for offset in ("+14:00", "-18:00", "+0000")),
    *(
        f"{year}-{end}+00:01"
        for year in ("0001", "0002", "9998", "9999")
        for end in ("01-01T00:00:00", "12-31T23:59:59")
    ),
]
BESIDE = [" ", "\n", "\r", "\r\n", "\n\r", "\n\n", "\t", "\v", "\f", "\x00", "\x1f", "\x7f", "\x85", "\xa0", "\u2028"]
"""What may stand before or behind a text."""
NAME = "a\\b-c"
_LANDED = 5
"""Where among what is made of a text the landed text of its value is."""
KINDS = (
    *(
        "array<string>",
        "array<bigint>",
        "array<double>",
        "array<timestamp>",
        "string",
        "bigint",
        "int",
        "smallint",
        "tinyint",
        "boolean",
        "double",
        "float",
    ),
    *("decimal(6,2)", "decimal(18,9)", "decimal(38,0)", "decimal(38,6)", "date", "timestamp"),
)

Values = Mapping[str, Sequence[tuple[object, ...]]]
"""By type, all that is made of each text."""


def source_of(kind: str) -> Source:
    """A source of texts of one type, each beside a name that says where the parts of a key end."""
    return replace(SALES.source, fields=("text", "name"), types={"text": kind}, personal_fields={})


def by_spark(spark: SparkSession, texts: Sequence[str | None]) -> Values:
    rows = spark.createDataFrame([(n, text, None) for n, text in enumerate(texts)], "n int, text string, name string")
    named = rows.withColumn("name", F.lit(NAME)).withColumn("unparsed_line", F.lit(None).cast("string"))
    columns = [F.struct(*spark_values(source_of(kind), kind)).alias(str(n)) for n, kind in enumerate(KINDS)]
    found = named.select("n", *columns).orderBy("n").collect()
    return {kind: [tuple(row[str(number)]) for row in found] for number, kind in enumerate(KINDS)}


def spark_values(source: Source, kind: str) -> list[Column]:
    """What watchdogs have Spark compute again."""
    value = canonical.parsed(F.col("text"), kind)
    values = [
        F.xxhash64(value, value.isNull(), F.col("text")),
        canonical.canonical_text(F.col("text"), kind),
        canonical.raw_content_hash(source),
        canonical.content_hash_as_before(source),
        canonical.in_newer_form(source),
    ]
    return [each.alias(str(number)) for number, each in enumerate(values)]


def python_values(text: str | None, kind: str) -> tuple[object, ...]:
    source, texts = source_of(kind), {"text": text, "name": NAME}
    content_hash = values_by_python.content_hash(texts, source)
    return (
        values_by_python.canonical_text(text, kind),
        content_hash,
        values_by_python.content_hash(texts, source, as_before=True),
        values_by_python.in_newer_form(texts, source),
        values_by_python.landed_text(values_by_python.value_of(text, kind), kind),
        values_by_python.key_value(text, kind),
        values_by_python.key_text(text, kind),
        values_by_python.joined_key(texts, source, ("text", "name", "text")),
        content_hash,
    )


def by_duckdb(texts: Sequence[str | None]) -> Values:
    import ibis

    columns = {"n": range(len(texts)), "text": pa.array(texts, pa.string()), "name": [NAME] * len(texts)}
    rows = ibis.memtable(pa.table(columns)).mutate(unparsed_line=ibis.null("string"))
    found: dict[str, Sequence[tuple[object, ...]]] = {}
    with engine() as connection:
        for kind in KINDS:
            values = rows.select("n", **ibis_values(source_of(kind), rows, kind)).order_by("n")
            found[kind] = [tuple(row.values())[1:] for row in connection.to_pyarrow(values).to_pylist()]
    return found


def ibis_values(source: Source, rows: ir.Table, kind: str) -> dict[str, ir.Value]:
    value = landed_values.parsed(rows.text, kind)
    values = [
        landed_values.hashed(value, value.isnull(), rows.text),
        landed_values.canonical_text(rows.text, kind),
        landed_values.raw_content_hash(source, rows),
        landed_values.content_hash_as_before(source, rows),
        landed_values.in_newer_form(source, rows),
        landed_values.landed_text(value, kind),
        landed_values.key_value(rows.text, kind),
        landed_values.key_text(source, rows, "text"),
        landed_values.joined_key(source, rows, ["text", "name", "text"]),
        landed_values.content_hash_of_read(source, rows, lambda _: value),
    ]
    return {f"value {number}": each for number, each in enumerate(values)}


def by_python(texts: Sequence[str | None], kind: str) -> Sequence[str | None]:
    return [_written(typed(text, kind)) for text in texts]


def _written(value: object) -> str | None:
    return f"{value:%Y-%m-%dT%H:%M:%S.%fZ}".rjust(27, "0") if isinstance(value, datetime) else value_text(value)


def require_equal(spark: SparkSession, texts: Sequence[str | None]) -> None:
    here, there = by_duckdb(texts), by_spark(spark, texts)
    for kind in KINDS:
        of_kind = list(zip(texts, here[kind], there[kind], strict=True))
        assert [(text, ours) for text, ours, theirs in of_kind if ours[: len(theirs)] != theirs] == [], kind
        assert [(text, ours) for text, ours, _ in of_kind if ours[1:] != python_values(text, kind)] == [], kind
        if kind.startswith(("array", "double", "float")):  # No key, and no version, has a text to be found by.
            continue
        by_value = zip(texts, by_python(texts, kind), (values[_LANDED] for values in here[kind]), strict=True)
        differ = [(text, ours, theirs) for text, ours, theirs in by_value if not _are_equal(ours, theirs, kind)]
        assert [each for each in differ if not (each[0] or "").startswith("0000")] == [], kind


def _are_equal(ours: object, theirs: object, kind: str) -> bool:
    is_number = kind.startswith("decimal") and ours is not None and theirs is not None
    return Decimal(str(ours)) == Decimal(str(theirs)) if is_number else ours == theirs


def test_odd_texts_have_the_value_that_spark_and_python_give_them(spark: SparkSession) -> None:
    sound = ("7", "7.5", "2017-03-01", "2017-03-01T10:00:00Z", "2017-03-01T10:00:00.5Z", "x")
    beside = (each for text in sound for sign in BESIDE for each in (f"{text}{sign}", f"{sign}{text}"))
    require_equal(spark, [*TEXTS, *beside])


def texts_of(kind: str) -> st.SearchStrategy[str]:
    """What is written as ``kind`` asks for, and what nearly is."""
    well = st.from_regex(landed_pattern(kind), fullmatch=True, alphabet=st.characters(codec="ascii"))
    one_off = st.builds(
        lambda text, place, sign: text[: place % (len(text) + 1)] + sign + text[place % (len(text) + 1) + 1 :],
        well,
        st.integers(0, 40),
        st.sampled_from([*'0123456789+-.TZ: \u0663[],"\\nu', *BESIDE]),
    )
    return st.one_of(well, one_off)


@settings(max_examples=drawn(2), deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(st.one_of([texts_of(kind) for kind in KINDS if kind != "string"]), min_size=150, max_size=300))
def test_any_text_has_the_value_that_spark_and_python_give_it(spark: SparkSession, texts: list[str]) -> None:
    require_equal(spark, texts)


@pytest.mark.data
@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (
            "timestamp",
            ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2017-03-01T10:00:00Z", "2017-03-01T10:00:00.5Z"],
        ),
        ("bigint", ["-3", "7", "12"]),
        ("decimal(6,2)", ["-3", "7", "12"]),
    ],
)
def test_moments_and_numbers_are_in_the_order_of_their_values(kind: str, texts: list[str]) -> None:
    """A text of a moment has as many signs as any other, and years from 0 on."""
    import ibis

    rows = ibis.memtable({"text": texts, "n": range(len(texts))})
    with engine() as connection:
        ordered = rows.select("n", at=landed_values.typed_value(rows.text, kind)).order_by("n")
        found = connection.to_pyarrow(ordered).column("at").to_pylist()
    assert None not in found and found == sorted(found)
    assert kind != "timestamp" or len({len(text) for text in found}) == 1
