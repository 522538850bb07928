"""What is read of odd lines: of values, of names and of whole lines. Raw rows of years were made like this.

JSON and more: texts between single quotes, ``NaN``, halves of surrogate pairs. A value that is no text is kept as the
JSON that stands for it, and a number with a point or an exponent is what its digits say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product

from backfill_assets_tests.strategies.landed_sales import SALE, sale
from backfill_assets_tests.strategies.raw_by_python import Fields

VALUES: Mapping[str, str | None] = {
    '"a"': "a",
    '""': "",
    "null": None,
    "true": "true",
    "false": "false",
    "7": "7",
    "-7": "-7",
    "-0": "0",
    "0": "0",
    "1e5": "100000.0",
    "1E05": "100000.0",
    "1e+5": "100000.0",
    "1.50": "1.5",
    "-0.0": "-0.0",
    "0.0": "0.0",
    "0.00": "0.0",
    "0.001": "0.001",
    "0.0001": "0.0001",
    "0.00012": "0.00012",
    "9999999.99": "9999999.99",
    "12345678.9": "12345678.9",
    "12345678.90": "12345678.9",
    "-98765432109.1200": "-98765432109.12",
    "123456789012.5": "123456789012.5",
    "1.23456785E7": "12345678.5",
    "1.5e-3": "0.0015",
    "1e37": "1" + "0" * 37 + ".0",
    "1e38": "1.0E38",
    "1e-38": "0." + "0" * 37 + "1",
    "1e-39": "1.0E-39",
    "1e999999999999999999999": "1e999999999999999999999",
    "10000000.0": "10000000.0",
    "123456.7": "123456.7",
    "1e7": "10000000.0",
    "1E-3": "0.001",
    "2E-3": "0.002",
    "2e-323": "2.0E-323",
    "4.9E-324": "4.9E-324",
    "1E400": "1.0E400",
    "-1E400": "-1.0E400",
    "1e-400": "1.0E-400",
    "9007199254740993": "9007199254740993",
    "9007199254740993.0": "9007199254740993.0",
    "18446744073709551616": "18446744073709551616",
    "0.12345678901234567890": "0.1234567890123456789",
    "NaN": '"NaN"',
    "Infinity": '"Infinity"',
    "-Infinity": '"-Infinity"',
    "+Infinity": '"Infinity"',
    "-INF": '"-Infinity"',
    "+INF": '"Infinity"',
    '{"b": [1, 2.50, null] , "c":{}}': '{"b":[1,2.5,null],"c":{}}',
    "[ ]": "[]",
    "[[],{}]": "[[],{}]",
    '{"b":1,"b":2}': '{"b":1,"b":2}',
    "[NaN]": '["NaN"]',
    '{"b":1e10}': '{"b":10000000000.0}',
    '["\\u00e9\\/\\u0001\\u001f\\b\\u2028"]': '["é/\\u0001\\u001F\\b\u2028"]',
    '{"\\u0062":"\\ud800"}': '{"b":"\\uD800"}',
    '[{"b":[{"c":"]}"}]}]': '[{"b":[{"c":"]}"}]}]',
    '"\\ud83d\\ude00"': "\U0001f600",
    '"\\ude00\\ud83d"': "??",
    '"\\ud800"': "?",
    '"\\udc00x"': "?x",
    '"\\ud800\\ud800\\udc00"': "?\U00010000",
    '"\U0001f600"': "\U0001f600",
    '"\\u0000"': "\x00",
    '"\\\'"': "'",
    '"\\/\\b\\f\\n\\r\\t"': "/\x08\x0c\n\r\t",
    '"\x7f\x85\xa0\u2028\ufeff"': "\x7f\x85\xa0\u2028\ufeff",
    '"{"': "{",
    '"[1],{}]"': "[1],{}]",
    '"\\"}"': '"}',
    '"\\\\"': "\\",
    '",}"': ",}",
    '"\\u005d"': "]",
    "'a'": "a",
    "'a\"b'": 'a"b',
    "'a\\'b'": "a'b",
    "111111111111111111": "111111111111111111",
    "1111111111111111111": "1111111111111111111",
    "-999999999999999999": "-999999999999999999",
    "0.1234567890": "0.123456789",
    "1234567.123456": "1234567.123456",
    "1234567.1234567": "1234567.1234567",
    "0.000": "0.0",
    "1.10": "1.1",
    "100.0": "100.0",
    "1" * 200: "1" * 200,
    "[" * 900 + "]" * 900: "[" * 900 + "]" * 900,
}
NO_VALUES = (
    "True",
    "nul",
    "nulls",
    "+7",
    "07",
    "00",
    "-",
    "7.",
    ".7",
    "1e",
    "0x10",
    "nan",
    "-NaN",
    "+NaN",
    "infinity",
    "inf",
    "-inf",
    "INF",
    "[1,]",
    "[,1]",
    '{"b":1,}',
    '{"b"}',
    '["\\u00e9\\/\\u0001\\u001f\\b\t"]',
    "[1 2]",
    '["a" "b"]',
    "[1}",
    "{1:2}",
    '"\x00"',
    '"\\u00"',
    '"\\uZZZZ"',
    '"\\x"',
    '"\\a"',
    '"\\0"',
    '"a\\\nb"',
    '"\t"',
    '"\n"',
    '"\x1f"',
    "'a",
    "a",
    "`a`",
    "\xa07",
    "7\x0c",
    "\x0b7",
    "7//",
    "7/*c*/",
    "7#c",
    '"a""b"',
    '"a",',
    "[" * 900 + "]" * 899,
)
NAMES: Mapping[str, str | None] = {
    '"rate"': "rate",
    '"Rate"': "Rate",
    '"other"': "other",
    '"r\\u0061te"': "rate",
    "'rate'": "rate",
    "rate": None,
    '""': "",
    '"\\u0000"': "\x00",
    '"\t"': None,
    "null": None,
    '"rate" ': "rate",
    '"\\ud800"': "?",
}
"""What a field is called that is written so; None if it has no name."""
ROUND_AN_OBJECT = ("{x}\r", " \t{x} \t\r", "{x}\n")
EMPTY_OBJECTS = ("{}", "{ }")
NO_OBJECTS = (
    "\ufeff{x}",
    "\xa0{x}",
    "{x}\xa0",
    "{x}\u2028",
    "\x00{x}",
    "{x}\x00",
    "{x}\x1a",
    "\x0b{x}",
    "{x} {x}",
    "{x}{x}",
    "{x},{x}",
    "[{x}]",
    "{x}]",
    "{x}],[{x}",
    "{x}][{x}",
    "{x},{}]",
    "{x}}",
    "{x}{",
    '"{}"',
    "{x}#",
    "{x}//",
    "/**/{x}",
    "null",
    "[]",
    "7",
    "text",
    '"text"',
    "base64: {x}",
    "{",
    "{,}",
)
TWICE = ['"rate":"1"', '"rate":null', '"r\\u0061te":"2"', '"other":"3"', '"Rate":4', '"day":[5]']
RATE = {"currency": "USD", "rate": "1.5", "rate_day": "2017-03-01", "updated_at": "2017-03-01T15:00:00Z"}


def lines_of_rates() -> Iterator[tuple[str, Fields | None]]:
    """Each line with its fields; None if it is not one object of distinct fields."""
    for some in product(TWICE, repeat=3):
        pairs = json.loads(line := f"{{{','.join(some)}}}", object_pairs_hook=list)
        fields = {name: text if text is None or isinstance(text, str) else json.dumps(text) for name, text in pairs}
        yield line, fields if len(fields) == len(pairs) else None
    for value, text in VALUES.items():
        yield f'{{"currency":"USD","rate":{value}}}', {"currency": "USD", "rate": text}
        yield f'{{"unknown" : {value} , "currency":"USD"}}', {"unknown": text, "currency": "USD"}
    for value in NO_VALUES:
        yield f'{{"currency":"USD","rate":{value}}}', None
        yield f'{{"unknown" : {value} , "currency":"USD"}}', None
    for name, called in NAMES.items():
        yield (
            f'{{{name}:"1","rate_day":"2017-03-01"}}',
            None if called is None else {called: "1", "rate_day": "2017-03-01"},
        )
    whole = json.dumps(RATE, separators=(",", ":"))
    yield from ((around.replace("{x}", whole), RATE) for around in ROUND_AN_OBJECT)
    yield from ((line, {}) for line in EMPTY_OBJECTS)
    yield from ((around.replace("{x}", whole), None) for around in NO_OBJECTS)
    for comma, end in product((",", " , ", ",,", ""), ("", " ", ",", ", ")):
        is_one = comma.strip() == "," and not end.strip()
        yield f'{{"currency":"USD"{comma}"rate":"1"{end}}}', {"currency": "USD", "rate": "1"} if is_one else None


PERSONAL: Mapping[str, str | None] = {
    '"900 7"': "900 7",
    '""': "",
    "null": None,
    "900": "900",
    "900.50": "900.5",
    '{"household_id":"900 7"}': '{"household_id":"900 7"}',
    '["900 7"]': '["900 7"]',
    "'900 7'": "900 7",
    '"{[household_id"': "{[household_id",
}


def lines_of_sales() -> Iterator[tuple[str, Fields | None]]:
    """The same of lines with personal values, or what may be some."""
    for value, text in PERSONAL.items():
        yield json.dumps(SALE).replace('"900"', value), {**SALE, "household_id": text}
        for name in ("store_id", "extra", "Household-ID", "household_id "):
            yield f'{{"{name}":{value},"till":"7"}}', {name: text, "till": "7"}
    for text in ('{"household_id":"9"}', "household_id", "[their HouseHold-Id]", "[x", "\u017f{"):
        yield json.dumps(sale(store_id=text)), sale(store_id=text)
    others = {**SALE, "their householdId": "9", "a": None, "b": "[x]", "c": "\u0130"}
    yield json.dumps(others, separators=(",", ":")), others
    for line in (
        '{"household_id":"900 7","store_id',
        '[{"household_id":"900 7"}]',
        '{"household_id":"1","household_id":"2"}',
        "\U0001f600 {",
    ):
        yield line, None
