"""What a landed text stands for, in plain Python: an independent answer for values, their one text, keys and hashes.

Days and moments are numbers, in days and microseconds since 1970, for Python has no year 0.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any

import numpy as np

from backfill_assets.model.declaration import Source, landed_pattern
from backfill_assets_tests.strategies.landed_texts import BITS, binary, whole
from backfill_assets_tests.strategies.xxh64 import chained, chained_bytes

Landed = str | None
_EPOCH, _ORDINAL = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""After so many years the calendar is the same again."""
_MICROSECOND, _DAY_OF_MICROSECONDS = timedelta(microseconds=1), 86_400_000_000
_LINE_END = re.compile(r"(\r\n|[\r\n])\Z")
_BEFORE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z")
_ANY_LINE_END = re.compile(r"(\r\n|[\r\n\x85\u2028\u2029])\Z")
_EXACT = Context(prec=60)
_FORMATS = {"double": "<d", "float": "<f"}
"""The eight or four bytes that a number is hashed by."""


# ------------------------------------------------------------------ values


def value_of(text: Landed, kind: str) -> Any:
    """The value of ``text``, or None; one end of a line behind it is cut off."""
    if text is None or kind == "string":
        return text
    told = _LINE_END.sub("", text)
    if not re.fullmatch(landed_pattern(kind), told, re.ASCII):
        return None
    if kind.startswith("array<"):
        return _items(text, kind[len("array<") : -1])
    of_kind: dict[str, Callable[[str], Any]] = {
        **{whole_kind: partial(whole, bits=bits) for whole_kind, bits in BITS.items()},
        **{each: partial(binary, spark_type=each) for each in ("double", "float")},
        "boolean": lambda text: text == "true",
        "date": _days,
        "timestamp": _microseconds,
    }
    try:
        return of_kind.get(kind, _decimal_of(kind))(told)
    except ValueError:
        return None


def _items(text: str, kind: str) -> list[Any] | None:
    """The values of a list in JSON; None if one of its items has none, or parts, or half of a surrogate pair."""
    try:
        found = json.loads(text, parse_float=_Digits, parse_int=_Digits, parse_constant=_refused)
    except ValueError:
        return None
    texts = [_item_text(each) for each in found]
    values = [value_of(each, kind) for each in texts]
    wrong = (
        each is _NO_ITEM or (each is not None and value is None) for each, value in zip(texts, values, strict=True)
    )
    return None if any(wrong) else values


class _Digits(str):
    """A number as it is written."""

    __slots__ = ()


_NO_ITEM = "\ud800"


def _item_text(item: Any) -> Landed:
    if item is None or isinstance(item, bool):
        return None if item is None else str(item).lower()
    is_text = isinstance(item, str) and not re.search("[\ud800-\udfff]", item)
    return item if is_text else _NO_ITEM


def _refused(word: str) -> Any:
    raise ValueError(word)


def _decimal_of(kind: str) -> Callable[[str], Decimal]:
    """All digits behind the point that the type has; a zero has no sign."""
    scale = int(kind.rstrip(")").rpartition(",")[2]) if kind.startswith("decimal") else 0
    return lambda text: _EXACT.plus(_EXACT.quantize(Decimal(text), Decimal(1).scaleb(-scale)))


def _days(text: str) -> int:
    year = int(text[:4])
    within = f"{year or _CYCLE_YEARS:04d}{text[4:]}"
    return date.fromisoformat(within).toordinal() - _ORDINAL - (0 if year else _CYCLE_DAYS)


def _microseconds(text: str) -> int:
    """Digits behind the microseconds are cut off."""
    year, cut = int(text[:4]), re.sub(r"([.][0-9]{6})[0-9]+", r"\1", text[4:])
    # As far from UTC as the text says, which may be out of the years that Python has.
    clock, away = re.fullmatch(r"(.*?)(Z|[+-][0-9:]+)", cut[6:]).groups()  # type: ignore[union-attr]
    moment = datetime.fromisoformat(f"2000-01-01{clock}+00:00") - datetime(2000, 1, 1, tzinfo=UTC)
    day = _days(f"{year:04d}{cut[:6]}")
    return day * _DAY_OF_MICROSECONDS + moment // _MICROSECOND - _offset(away) // _MICROSECOND


def _offset(away: str) -> timedelta:
    if away == "Z":
        return timedelta()
    hours, minutes = away[1:3], away[3:].lstrip(":") or "0"
    east = timedelta(hours=int(hours), minutes=int(minutes))
    return -east if away.startswith("-") else east


# ------------------------------------------------------------------ texts of values


def canonical(value: Any, kind: str) -> Landed:
    """The one text that a value is hashed by."""
    if value is None:
        return None
    if kind.startswith("array<"):
        return f"[{','.join(_within_list(each, kind[len('array<') : -1]) for each in value)}]"
    if kind.startswith("decimal"):
        return f"{value:f}"
    if kind in _FORMATS:
        return str(chained_bytes([struct.pack(_FORMATS[kind], math.nan if math.isnan(value) else value + 0.0)]))
    if kind == "boolean":
        return str(value).lower()
    return _day_text(value) if kind == "date" else str(value)


def _within_list(value: Any, kind: str) -> str:
    told = canonical(value, kind)
    if told is not None and kind == "string":
        return '"' + told.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "null" if told is None else told


def canonical_text(text: Landed, kind: str) -> Landed:
    """That of a landed text; one that is no value counts as it stands."""
    value = value_of(text, kind)
    return text if value is None else canonical(value, kind)


def landed_text(value: Any, kind: str) -> Landed:
    """A text that the value is read from, with six digits behind the seconds of a moment."""
    if kind != "timestamp" or value is None:
        return canonical(value, kind)
    day, rest = divmod(value, _DAY_OF_MICROSECONDS)
    clock = _EPOCH + rest * _MICROSECOND
    return f"{_day_text(day)}T{clock:%H:%M:%S.%f}Z"


def shown(value: Any, kind: str) -> str:
    """As a reason shows a value: moments without zeros at their end."""
    if kind in _FORMATS:
        return str(value) if kind == "double" else _single_text(np.float32(value))
    if kind != "timestamp":
        return str(canonical(value, kind))
    return re.sub("[.]?0*$", "", str(landed_text(value, kind)).rstrip("Z").replace("T", " "))


def _single_text(value: np.float32) -> str:
    """The shortest digits that are read as it, with an exponent where a double of this size has one."""
    if math.isfinite(value) and "e" not in str(float(value)):
        return np.format_float_positional(value, trim="0")
    return str(value)


def _day_text(days: int) -> str:
    ordinal = days + _ORDINAL
    return str(date.fromordinal(ordinal)) if ordinal > 0 else f"0000{str(date.fromordinal(ordinal + _CYCLE_DAYS))[4:]}"


# ------------------------------------------------------------------ keys


def key_value(text: Landed, kind: str) -> Landed:
    """The value of a part of a key as one text, the way most sources write it."""
    if kind == "string":
        return text
    told = landed_text(value_of(text, kind), kind)
    return re.sub("[.]?0*Z$", "Z", told) if kind == "timestamp" and told is not None else told


def key_text(text: Landed, kind: str) -> Landed:
    """The same; text that is no value counts as it stands."""
    told = key_value(text, kind)
    return text if told is None else told


def joined_key(texts: Mapping[str, Landed], source: Source, parts: tuple[str, ...]) -> Landed:
    """Parts with dashes between; but for the last one, a dash or a backslash in a part has a backslash before it."""
    if not all(texts[name] for name in parts):
        return None
    *first, last = (str(key_text(texts[name], source.type_of(name))) for name in parts)
    return "-".join([*(re.sub(r"([\\-])", r"\\\1", each) for each in first), last])


# ------------------------------------------------------------------ hashes


def content_hash(texts: Mapping[str, Landed], source: Source, *, as_before: bool = False) -> int:
    """Of a landed row; ``as_before`` it is the one of when moments were read in one form."""

    def told(name: str) -> Landed:
        text, kind = texts[name], source.type_of(name)
        unread = as_before and kind == "timestamp" and text is not None and not is_in_first_form(text)
        return text if unread else canonical_text(text, kind)

    found = {name: told(name) for name in source.columns}
    return chained(f"{name}={text}" for name, text in found.items() if text is not None)


def is_in_first_form(text: str) -> bool:
    """Whether a moment is written in the form that was always read."""
    return _BEFORE.fullmatch(_ANY_LINE_END.sub("", text)) is not None


def in_newer_form(texts: Mapping[str, Landed], source: Source) -> bool:
    """Whether a moment of a landed row is written in another form."""
    moments = [texts[name] for name in source.columns if source.type_of(name) == "timestamp"]
    # One that ends as the first form does, and is no longer, cannot be of another form and a moment.
    return any(
        text is not None
        and not (text.endswith("Z") and len(text) <= len("2017-03-01T10:00:00.000000Z"))
        and not is_in_first_form(text)
        for text in moments
    )
