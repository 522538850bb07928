"""Lines that are not one plain object, as the one that Spark's JSON reader made of them. Pure.

Raw rows that Spark landed are compared with the lines read again, so its laxness stays; but decimals keep digits
that Spark lost in floats.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

_ESCAPED = r"\\(?:[\"'\\/bfnrt]|u[0-9a-fA-F]{4})"
_TOKEN = re.compile(
    rf"""[ \t\r\n]*(?:
    (?P<text>"(?:[^"\\\x00-\x1f]++|{_ESCAPED})*+"|'(?:[^'\\\x00-\x1f]++|{_ESCAPED})*+')
    |(?P<decimal>-?(?:0|[1-9][0-9]*)(?:[.][0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))
    |(?P<whole>-?(?:0|[1-9][0-9]*))
    |(?P<word>true|false|null)
    |(?P<endless>NaN|[+-]?Infinity|[+-]INF)
    |(?P<sign>[\[\]{{}}:,])
    )[ \t\r\n]*""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_TO_ESCAPE = re.compile(r'[\x00-\x1f"\\\ud800-\udfff\U00010000-\U0010ffff]')
_WRITTEN = {**{sign: f"\\{letter}" for letter, sign in _MEANT.items()}, '"': '\\"', "\\": "\\\\"}
_HALF_OF_PAIR = re.compile("[\ud800-\udfff]")
_CLOSING = {"{": "}", "[": "]"}
_MOST_DIGITS, _LONGEST_EXPONENT = 38, 20
Fields = dict[str, str | None]


def as_plain_object(line: str) -> str | None:
    """None if the line is not one object of distinct fields."""
    try:
        fields = _fields_of_json(line)
    except (ValueError, RecursionError):
        fields = _fields_of_other(line)
    if fields is None:
        return None
    return _whole_signs(json.dumps(fields, ensure_ascii=False, separators=(",", ":")))


def _fields_of_json(line: str) -> Fields | None:
    pairs = _JSON.decode(line)
    if not isinstance(pairs, _Pairs):
        return None
    fields = {_whole_signs(name): _text_or_null(value) for name, value in pairs}
    return fields if len(fields) == len(pairs) else None


def _fields_of_other(line: str) -> Fields | None:
    try:
        return _Reader(line).fields()
    except _NoObjectError:
        return None


def number_text(number: float) -> str:
    """What raw keeps of a number in a line."""
    if math.isfinite(number):
        return _decimal(repr(number))
    return "NaN" if math.isnan(number) else f"{'-' if number < 0 else ''}Infinity"


class _NoObjectError(Exception):
    pass


class _Reader:
    def __init__(self, line: str) -> None:
        self._line, self._at = line, 0
        self._kind, self._sign = "", ""
        self._next()

    def fields(self) -> Fields:
        fields: Fields = {}
        self._take("{")
        while not self._takes("}"):
            if fields:
                self._take(",")
            name = _whole_signs(self._name())
            if name in fields:
                raise _NoObjectError
            fields[name] = self._value()
        if self._kind:
            raise _NoObjectError
        return fields

    def _value(self) -> str | None:
        if self._sign == "null":
            self._next()
            return None
        return _whole_signs(self._text()) if self._kind == "text" else "".join(self._written())

    def _written(self) -> list[str]:
        found: list[str] = []
        closing: list[str] = []
        while True:
            if closing and closing[-1] == "}":
                found += (_quoted(self._name()), ":")
            if opened := self._opens():
                found.append(opened)
                closing.append(_CLOSING[opened])
                if not self._takes(closing[-1]):
                    continue
                found.append(closing.pop())
            else:
                found.append(self._scalar())
            while closing and self._takes(closing[-1]):
                found.append(closing.pop())
            if not closing:
                return found
            self._take(",")
            found.append(",")

    def _scalar(self) -> str:
        kind, sign = self._kind, self._sign
        if kind == "text":
            return _quoted(self._text())
        if kind not in _READ:
            raise _NoObjectError
        self._next()
        return _READ[kind](sign)

    def _name(self) -> str:
        if self._kind != "text":
            raise _NoObjectError
        name = self._text()
        self._take(":")
        return name

    def _text(self) -> str:
        text = _unescaped(self._sign[1:-1])
        self._next()
        return text

    def _opens(self) -> str:
        opened = self._sign if self._sign in _CLOSING else ""
        if opened:
            self._next()
        return opened

    def _take(self, sign: str) -> None:
        if not self._takes(sign):
            raise _NoObjectError

    def _takes(self, sign: str) -> bool:
        taken = self._sign == sign
        if taken:
            self._next()
        return taken

    def _next(self) -> None:
        if self._at == len(self._line):
            self._kind = self._sign = ""
            return
        found = _TOKEN.match(self._line, self._at)
        if found is None:
            raise _NoObjectError
        self._at = found.end()
        self._kind = str(found.lastgroup)
        self._sign = found[self._kind]


# ------------------------------------------------------------------ values


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    halves = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _MEANT.get(found[2], found[2]), text)
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _whole_signs(text: str) -> str:
    return _HALF_OF_PAIR.sub("?", text)


def _quoted(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(lambda found: _WRITTEN.get(found[0]) or _escaped(found[0]), text) + '"'


def _escaped(sign: str) -> str:
    halves = sign.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))


def _decimal(digits: str) -> str:
    """All digits, in Java's format: at least one decimal, no exponent if a ``decimal`` can hold it."""
    mantissa, _, exponent = digits.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    written = (whole + fraction).lstrip("0")
    if not written:
        return f"{sign}0.0"
    if len(exponent) > _LONGEST_EXPONENT:
        return digits
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(written))
    written = written.rstrip("0")
    if not -_MOST_DIGITS < point <= _MOST_DIGITS:
        return f"{sign}{written[0]}.{written[1:] or '0'}E{point - 1}"
    written = written.rjust(len(written) - point + 1, "0") if point < 1 else written.ljust(point + 1, "0")
    point = max(point, 1)
    return f"{sign}{written[:point]}.{written[point:]}"


def _endless(word: str) -> str:
    if word == "NaN":
        return '"NaN"'
    return '"-Infinity"' if word.startswith("-") else '"Infinity"'


def _whole(digits: str) -> str:
    return "0" if digits == "-0" else digits


_READ: Mapping[str, Callable[[str], str]] = {
    "decimal": _decimal,
    "whole": _whole,
    "word": str,
    "endless": _endless,
}


# ------------------------------------------------------------------ JSON as Python reads it


class _Pairs(list[tuple[str, Any]]):
    pass


class _Written(str):
    __slots__ = ()


_JSON = json.JSONDecoder(
    object_pairs_hook=_Pairs,
    parse_float=lambda digits: _Written(_decimal(digits)),
    parse_int=lambda digits: _Written(_whole(digits)),
    parse_constant=lambda word: _Written(_endless(word)),
)


def _text_or_null(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    if isinstance(value, _Pairs):
        return "{" + ",".join([f"{_quoted(name)}:{_json(each)}" for name, each in value]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_json(each) for each in value]) + "]"
    if isinstance(value, str):
        return value if isinstance(value, _Written) else _quoted(value)
    return "null" if value is None else str(value).lower()
