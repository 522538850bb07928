"""Landed text and typed values in one form in plain Python, so that a row is found again on either side of typing."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation


def comparable(value: object, spark_type: str) -> object:
    """The value that ``value`` stands for, whether it is landed text or typed already; unreadable text as it is."""
    if not isinstance(value, str) or spark_type == "string":
        return value
    try:
        return _read(value, spark_type)
    except (ValueError, InvalidOperation):
        return value


def _read(text: str, spark_type: str) -> object:
    if spark_type == "bigint":
        return int(text)
    if spark_type == "date":
        return date.fromisoformat(text)
    if spark_type == "timestamp":
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Decimal(text)
