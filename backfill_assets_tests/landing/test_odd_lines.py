"""What is read of a line that is more than plain: known answers, and the same as DuckDB reads where both can."""

from __future__ import annotations

import json
import re
from decimal import Context, Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.landing.odd_lines import as_plain_object
from backfill_assets.landing.raw_query import PLAIN_OBJECT

READ = {
    "{}": {},
    ' {"a" : "b\\n" , "c":null}\r': {"a": "b\n", "c": None},
    "{'a':'b\"\\''}": {"a": "b\"'"},
    '{"a":[1, 2.50, {"b":"\\u00e9\\/\\u001f"}], "c":{}}': {"a": '[1,2.5,{"b":"é/\\u001F"}]', "c": "{}"},
    '{"a":{"b":1,"b":2}}': {"a": '{"b":1,"b":2}'},
    '{"a":1e10,"b":12345678.90,"c":0.0001,"d":0.001,"e":-0.0,"f":-0}': {
        "a": "10000000000.0",
        "b": "12345678.9",
        "c": "0.0001",
        "d": "0.001",
        "e": "-0.0",
        "f": "0",
    },
    '{"a":NaN,"b":-Infinity,"c":1e400,"d":[NaN]}': {
        "a": '"NaN"',
        "b": '"-Infinity"',
        "c": "1.0E400",
        "d": '["NaN"]',
    },
    '{"a":["\\ud83d\\ude00","\\ud800", "\U0001f600"]}': {"a": '["\\uD83D\\uDE00","\\uD800","\\uD83D\\uDE00"]'},
    '{"a":"\\ud83d\\ude00","b":"\\ud800","c":"\\ude00\\ud83d"}': {"a": "\U0001f600", "b": "?", "c": "??"},
}
BROKEN = [
    *(
        "",
        " ",
        "null",
        "7",
        '"a"',
        "[]",
        '[{"a":1}]',
        "{",
        "}",
        "{}}",
        "{}{}",
        "{},{}",
        "{} x",
        '{"a"}',
        '{"a":}',
        "{,}",
    ),
    *(
        '{"a":1,}',
        '{"a":[1,]}',
        '{"a":[,1]}',
        '{"a":{"b":1,}}',
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        '{"a" "b"}',
        "{a:1}",
    ),
    *(
        '{"a":nan}',
        '{"a":inf}',
        '{"a":INF}',
        '{"a":-NaN}',
        '{"a":01}',
        '{"a":1.}',
        '{"a":+1}',
        '{"a":"\t"}',
        '{"a":"\\x"}',
    ),
    *('\ufeff{"a":1}', '{"a":\xa01}', '{"a":[1}', '{"a":[1 2]}', '{"a":{1:2}}', '{"a":"b"//\n}', '{"a":[[]'),
]


@pytest.mark.parametrize("line", READ)
def test_an_odd_object_has_only_texts_and_nulls(line: str) -> None:
    """Raw rows of years were made like this; but numbers were 64-bit floats."""
    assert json.loads(as_plain_object(line) or "null") == READ[line]


@pytest.mark.parametrize("line", BROKEN)
def test_what_is_not_one_object_is_none(line: str) -> None:
    assert as_plain_object(line) is None


def test_a_value_may_nest_as_deep_as_its_line_is_long() -> None:
    """It must neither end the process nor be slow."""
    value = '{"b":[' * 100_000 + "]}" * 100_000
    assert json.loads(as_plain_object(f'{{"a":{value}}}') or "") == {"a": value}
    assert as_plain_object(f'{{"a":{value[:-1]}}}') is None
    assert as_plain_object('{"a":"' + "x" * 1_000_000) is None


decimals = st.builds(lambda digits, scale: digits / 10**scale, st.integers(-(10**14), 10**14), st.integers(0, 8))
texts = st.text(max_size=5) | st.sampled_from(["a", "A", '"', "\\", "\x00", "\x1f", "\U0001f600"])
pairs = st.lists(st.tuples(texts, st.none() | st.booleans() | st.integers() | decimals | texts), max_size=4)
plain_lines = st.builds(
    lambda some, ascii_, between: between.join(
        [
            "{",
            ",".join(f"{json.dumps(name, ensure_ascii=ascii_)}{between}:{json.dumps(value)}" for name, value in some),
            "}",
        ]
    ),
    pairs,
    st.booleans(),
    st.sampled_from(["", " ", "\t\r\n"]),
).filter(lambda line: re.fullmatch(PLAIN_OBJECT, line))


@given(plain_lines)
def test_plain_lines_are_read_alike_by_duckdb(line: str) -> None:
    """They are never looked at here: DuckDB reads them."""
    asked = "SELECT json_keys($1), map_values(json_transform($1, '\"MAP(VARCHAR,VARCHAR)\"'))"
    [names, texts] = duckdb.execute(asked, [line]).fetchone() or ()
    here = as_plain_object(line)
    assert (here is None) == (len(set(names)) < len(names))
    if here is not None:
        assert json.loads(here) == dict(zip(names, texts, strict=True))


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda some: st.lists(some, max_size=3) | st.dictionaries(texts, some, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(texts, nested, min_size=1, max_size=4), st.booleans())
def test_json_is_read_alike_in_both_ways(fields: dict[str, Any], ascii_: bool) -> None:
    """A field between single quotes is no JSON: all of its line is read in the slow way."""
    line = json.dumps(fields, ensure_ascii=ascii_)
    fast, slow = as_plain_object(line), as_plain_object(f"{line[:-1]},'beside':''}}")
    assert {**json.loads(fast or ""), "beside": ""} == json.loads(slow or "")


@given(st.integers(-(10**40), 10**40), st.integers(-45, 45), st.booleans())
def test_a_number_is_what_its_digits_say(digits: int, exponent: int, with_point: bool) -> None:
    """To the last of them: an amount that a 64-bit float has rounded is no amount. One text for equal numbers."""
    written = f"{digits}.00e{exponent}" if with_point else f"{digits}e{exponent}"
    text = json.loads(as_plain_object(f'{{"a":{written}}}') or "")["a"]
    number = Decimal(digits).scaleb(exponent, Context(prec=100))
    assert Decimal(text) == number
    assert re.fullmatch("-?[0-9]+[.]([0-9]*[1-9]|0)(E-?[0-9]+)?", text)
    assert ("E" in text) == (digits != 0 and not -38 <= number.adjusted() < 38)


def test_a_line_of_a_source_is_plain() -> None:
    """The whole way by Python takes ten times as long."""
    for line in (
        json.dumps({"a": "b", "c": "é\n\U0001f600", "d": None, "e": 1, "f": 1.5, "g": True}),
        '{"a":"b","c":"9999999.99"}\r',
        "{}",
        '{"a":0.5,"b":-12.25,"c":1000000.0,"d":"\\u00e9"}',
        '{"a":12345678.90,"b":-98765432109.1234}',
    ):
        assert re.fullmatch(PLAIN_OBJECT, line)
    for odd in ('{"a":[1]}', '{"a":1e5}', '{"a":NaN}', '{"a":"\\ud800"}', '{"a":0.0001}', '{"a":1,}'):
        assert not re.fullmatch(PLAIN_OBJECT, odd)
