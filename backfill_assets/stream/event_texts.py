"""The canonical texts of decoded values, those of ``landing/parquet_texts.py``: a value has one text in all formats."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from backfill_assets.landing.odd_lines import number_text

_ENDLESS = ("NaN", "Infinity", "-Infinity")
"""JSON has no such numbers."""


def object_text(fields: Mapping[str, Any]) -> str:
    """An object of texts, null where there is no value."""
    return json.dumps({name: text_of(value) for name, value in fields.items()}, ensure_ascii=False)


def text_of(value: Any) -> str | None:
    if value is None:
        return None
    write: Callable[[Any], str] = next((text for kind, text in _TEXTS if isinstance(value, kind)), str)
    return write(value)


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        text = value.isoformat()
        return text.rstrip("0") if value.microsecond else text
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64: {base64.b64encode(value).decode()}"


def _json(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_quoted(str(name))}:{_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return "[" + ",".join(map(_json, value)) + "]"
    text = text_of(value)
    if text is None:
        return "null"
    is_plain = isinstance(value, int | float | Decimal) and text not in _ENDLESS
    return text if is_plain else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_TEXTS: Sequence[tuple[Any, Callable[[Any], str]]] = (
    (str, str),
    (bool, lambda value: str(value).lower()),
    (float, number_text),
    (Decimal, "{:f}".format),
    (datetime, _moment),
    (bytes, _bytes),
    ((Mapping, list, tuple), _json),
)
"""Of other values it is what Python writes."""
