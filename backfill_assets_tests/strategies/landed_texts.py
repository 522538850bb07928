"""What a landed text is worth, in plain Python: a model to compare the declared query with."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

from backfill_assets.model.declaration import landed_pattern

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
    if spark_type == "bigint":
        return int(text)
    if spark_type == "date":
        return date.fromisoformat(text)
    if spark_type == "timestamp":
        return datetime.fromisoformat(text).astimezone(UTC)
    return Decimal(text)
