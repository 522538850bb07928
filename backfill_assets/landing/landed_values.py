"""Landed text and typed values in one form in plain Python, so that a row is found again on either side of typing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from backfill_assets.model.declaration import Source


def comparable(value: object, spark_type: str) -> object:
    """``value`` as a comparable Python value, from landed text or from a typed value; unreadable text unchanged."""
    if not isinstance(value, str) or spark_type == "string":
        return value
    try:
        return _read(value, spark_type)
    except (ValueError, InvalidOperation):
        return value


def overtakes(source: Source, raw: Mapping[str, Any], winner: Mapping[str, Any]) -> bool:
    """Whether a raw row is greater by (version, content hash) than a typed row; not if its version is unreadable."""
    kind = source.type_of(source.version_field)
    was, now = (comparable(row[source.version_field], kind) for row in (winner, raw))
    return type(was) is type(now) and bool((now, raw["content_hash"]) > (was, winner["content_hash"]))


def _read(text: str, spark_type: str) -> object:
    if spark_type == "bigint":
        return int(text)
    if spark_type == "date":
        return date.fromisoformat(text)
    if spark_type == "timestamp":
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    number = Decimal(text)
    if not number.is_finite():  # NaN is not compared with a number, and one kind of it is no key of a dictionary.
        raise InvalidOperation
    return number
