"""The checks of contracts over Arrow columns: what ``model/contract_columns.py`` asks of Spark, asked of Arrow.

Where the two would judge a value differently, or Spark would convert it first, there is no rendering.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.quality.arrow_hashes import NotRendered

_COMPARISONS: Mapping[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = MappingProxyType(
    {
        "eq": pc.equal,
        "ne": pc.not_equal,
        "gt": pc.greater,
        "ge": pc.greater_equal,
        "lt": pc.less,
        "le": pc.less_equal,
    }
)
_MOST_DIGITS = 38
_DIGITS_OF_INT = 10
_LINE_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"
"""What ``$`` is for Java."""
_ANY_CHARACTER = r"[^\n\r\x{85}\x{2028}\x{2029}]"
"""What ``.`` is for Java."""
_PATTERN_PART = re.compile(
    r"""(?P<same>[A-Za-z0-9_ ,:;@#%&=<>!~'"/-]      # a character
        | \\[.\\/^$|?*+(){}\[\]-] | \\d            # an escaped one, or a digit
        | \[\^?(?:[A-Za-z0-9_ .,:;@#%=<>!~'"/(){}|?*+$-] | \\[.\\/^$|?*+(){}\[\]-] | \\d)+\]
        | \((?:\?:)? | \) | \|
        | (?<![*+?}])(?:[*+?] | \{[0-9]+(?:,[0-9]*)?\}))
        | (?P<any>\.)""",
    re.VERBOSE,
)


def check(values: pa.Array, name: str, asked: Any) -> pa.Array:
    """Whether each value fulfils a check; null for null. Raises :class:`NotRendered` where only Spark can judge."""
    if name not in _CHECKS:
        raise NotRendered(f"The check {name}.")
    return _CHECKS[name](values, asked)


def _compare(values: pa.Array, limit: Any, *, by: str) -> pa.Array:
    kind = values.type
    if pa.types.is_decimal128(kind) and _is_number(limit):
        return _compare_decimals(values, limit, by)
    if pa.types.is_float64(kind) and isinstance(limit, int | float) and _is_number(limit):
        return _compare_doubles(values, float(limit), by)
    if not _is_comparable(kind, limit):
        raise NotRendered(f"Comparing {kind} with {limit!r}.")
    return _COMPARISONS[by](values, pa.scalar(limit, pa.int64() if pa.types.is_integer(kind) else kind))


def _is_number(limit: Any) -> bool:
    return isinstance(limit, int | float | Decimal) and not isinstance(limit, bool) and bool(math.isfinite(limit))


def _is_comparable(kind: pa.DataType, limit: Any) -> bool:
    if pa.types.is_signed_integer(kind):
        return type(limit) is int and abs(limit) < 2**63
    if pa.types.is_date32(kind):
        return isinstance(limit, date) and not isinstance(limit, datetime)
    if pa.types.is_boolean(kind):
        return isinstance(limit, bool)
    return bool(pa.types.is_string(kind)) and isinstance(limit, str)


def _compare_doubles(values: pa.Array, limit: float, by: str) -> pa.Array:
    """For Spark, NaN is greater than every other number."""
    found = _COMPARISONS[by](values, pa.scalar(limit, pa.float64()))
    return pc.or_(found, pc.is_nan(values)) if by in ("gt", "ge") else found


def _compare_decimals(values: pa.Array, limit: int | float | Decimal, by: str) -> pa.Array:
    """With a limit of as many decimals, which a value is compared with exactly."""
    kind = values.type
    if isinstance(limit, float) or not _keeps_digits(kind, limit):
        raise NotRendered(f"Comparing {kind} with {limit!r}.")
    scaled = Fraction(limit) * 10**kind.scale
    if scaled.denominator != 1 and by in ("eq", "ne"):
        return _always(values, by == "ne")
    # A whole number is at least 1.5 if it is at least 2, and greater than 1.5 if it is greater than 1.
    whole = math.ceil(scaled) if by in ("ge", "lt") else math.floor(scaled)
    if abs(whole) >= 10**kind.precision:
        return _always(values, by == "ne" or by in (("gt", "ge") if whole < 0 else ("lt", "le")))
    return _COMPARISONS[by](values, pa.scalar(exact_decimal(whole, kind.scale), kind))


def exact_decimal(unscaled: int, scale: int) -> Decimal:
    """``unscaled`` with ``scale`` digits behind the point, however many digits it has."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _always(values: pa.Array, fulfilled: bool) -> pa.Array:
    return pc.if_else(pc.is_valid(values), fulfilled, pa.scalar(None, pa.bool_()))


def _keeps_digits(kind: pa.DataType, limit: int | Decimal) -> bool:
    """Whether Spark compares all digits: of more than 38 it would cut some off."""
    if isinstance(limit, int):
        before, after = _DIGITS_OF_INT if abs(limit) < 2**31 else 20, 0
    else:
        _, digits, exponent = limit.as_tuple()
        after = max(-int(exponent), 0)
        before = max(len(digits) + int(exponent), 0)
    return bool(max(kind.precision - kind.scale, before) + max(kind.scale, after) <= _MOST_DIGITS)


def _in_range(values: pa.Array, asked: Mapping[str, Any]) -> pa.Array:
    least = check(values, "ge" if asked.get("include_min", True) else "gt", asked["min_value"])
    most = check(values, "le" if asked.get("include_max", True) else "lt", asked["max_value"])
    return pc.and_kleene(least, most)


def _one_of(values: pa.Array, allowed: Iterable[Any]) -> pa.Array:
    listed = list(allowed)
    kind = values.type
    if not (pa.types.is_string(kind) or pa.types.is_signed_integer(kind)):
        raise NotRendered(f"Looking for {kind} in a list.")
    if not all(_is_comparable(kind, each) for each in listed):
        raise NotRendered(f"Looking for {kind} in {listed}.")
    numbers = values if pa.types.is_string(kind) else values.cast(pa.int64())
    found = pc.is_in(numbers, value_set=pa.array(listed, numbers.type))
    return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))


def _none_of(values: pa.Array, forbidden: Iterable[Any]) -> pa.Array:
    return pc.invert(_one_of(values, forbidden))


def _matches(values: pa.Array, asked: Any) -> pa.Array:
    if not pa.types.is_string(values.type):
        raise NotRendered(f"A pattern of {values.type}.")
    given = str(getattr(asked, "pattern", asked))
    if getattr(asked, "flags", re.UNICODE.value) != re.UNICODE.value:
        raise NotRendered(f"A pattern with flags: {given}")
    try:
        return pc.match_substring_regex(values, re2_pattern(given))
    except pa.ArrowInvalid as error:
        raise NotRendered(str(error)) from error


def re2_pattern(given: str) -> str:
    """The pattern for RE2 that finds what Java finds by ``given``; of what the two read alike, and no more."""
    inner = given.removeprefix("^")
    ends = inner.endswith("$") and not inner.endswith("\\$")
    parts, at = [], 0
    inner = inner[:-1] if ends else inner
    while at < len(inner):
        part = _PATTERN_PART.match(inner, at)
        if part is None:
            raise NotRendered(f"The pattern {given}")
        parts.append(part["same"] or _ANY_CHARACTER)
        at = part.end()
    return f"^(?:{''.join(parts)}{_LINE_END if ends else ''})"


def _long(values: pa.Array, asked: Mapping[str, Any]) -> pa.Array:
    if not pa.types.is_string(values.type):
        raise NotRendered(f"The length of {values.type}.")
    lengths = pc.utf8_length(values)
    least, most = asked.get("min_value"), asked.get("max_value")
    found = _always(values, True)
    found = found if least is None else pc.and_kleene(found, pc.greater_equal(lengths, least))
    return found if most is None else pc.and_kleene(found, pc.less_equal(lengths, most))


_CHECKS: Mapping[str, Callable[[pa.Array, Any], pa.Array]] = MappingProxyType(
    {
        **{name: partial(_compare, by=name) for name in _COMPARISONS},
        "in_range": _in_range,
        "isin": _one_of,
        "notin": _none_of,
        "str_matches": _matches,
        "str_length": _long,
    }
)
