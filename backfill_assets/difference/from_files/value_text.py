"""A value as text, as Spark casts it to a string."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from backfill_assets.quality.arrow_hashes import is_micros

_HAVE_TEXT = (pa.types.is_string, pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_decimal128)


def has_text(kind: pa.DataType) -> bool:
    """Whether the text of values of ``kind`` is known here; Java writes doubles in a way of its own."""
    if pa.types.is_list(kind):
        return has_text(kind.value_type)
    return is_micros(kind) or pa.types.is_date32(kind) or any(is_one(kind) for is_one in _HAVE_TEXT)


def value_text(value: Any, kind: pa.DataType) -> str | None:
    """The text of a value of ``kind``; None of null."""
    if value is None:
        return None
    if isinstance(value, list):
        items = (value_text(item, kind.value_type) for item in value)
        return f"[{', '.join('null' if item is None else item for item in items)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        whole = f"{value.year:04}-{value:%m-%d %H:%M:%S}"
        return f"{whole}.{value.microsecond:06}".rstrip("0") if value.microsecond else whole
    if isinstance(value, date):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
