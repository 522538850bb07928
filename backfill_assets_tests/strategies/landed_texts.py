"""What a landed text is worth, in plain Python: a model to compare the declared query with."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np

from backfill_assets.model.declaration import landed_pattern

BITS = {"bigint": 64, "int": 32, "smallint": 16, "tinyint": 8}
_LINE_END = re.compile(r"(\r\n|[\r\n])\Z")


def typed(text: str | None, spark_type: str) -> object:
    """The value as Python has it; None for no value, and for a moment out of Python's years, 1 to 9999."""
    if text is None or spark_type == "string":
        return text
    text = _LINE_END.sub("", text)
    if not re.fullmatch(landed_pattern(spark_type), text):
        return None
    try:
        return _read(text, spark_type)
    except ValueError:
        return None


def _read(text: str, spark_type: str) -> object:
    if bits := BITS.get(spark_type):
        return whole(text, bits)
    if spark_type == "boolean":
        return text == "true"
    if spark_type in ("double", "float"):
        return binary(text, spark_type)
    if spark_type == "date":
        return date.fromisoformat(text)
    if spark_type == "timestamp":
        return datetime.fromisoformat(text).astimezone(UTC)
    return Decimal(text)


def whole(text: str, bits: int) -> int:
    """Raises ``ValueError`` for a number that has more bits."""
    number = int(text)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(text)
    return number


def binary(text: str, spark_type: str) -> float:
    """The nearest double or float, a zero without sign; raises ``ValueError`` for a number beyond the greatest."""
    number = float(text) if spark_type == "double" else _single(text)
    if number in (float("inf"), float("-inf")) and "Inf" not in text:
        raise ValueError(text)
    return number + 0.0


def _single(text: str) -> float:
    """The float nearest to the text itself, not to the double that is nearest to it: it is rounded once."""
    with np.errstate(over="ignore"):
        about = np.float32(float(text))
        beside = [about, *(np.nextafter(about, np.float32(end)) for end in (-np.inf, np.inf))]
    if math.isnan(about) or "Inf" in text:
        return float(about)
    exact = Fraction(text)
    # Behind the greatest one there would be another, which stands for all that is beyond.
    values = {each: Fraction(math.copysign(2**128, each) if math.isinf(each) else float(each)) for each in beside}
    return float(min(values, key=lambda each: (abs(values[each] - exact), int(each.view(np.uint32)) & 1)))
