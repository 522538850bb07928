"""The canonical text of each type of Parquet, in DuckDB's SQL: what raw keeps of a value, and what is parsed again.

| type | text |
|---|---|
| boolean, whole numbers | ``true``, ``-7`` |
| decimal | all of its digits: ``12.30`` |
| double, float | the least digits that give it again, with a point: ``0.1``, ``1.0``, ``NaN``, ``-Infinity`` |
| date | ``2017-03-01`` |
| moment | in microseconds and UTC: ``2017-03-01T10:00:00.000000Z``; one without a zone as its clock showed it |
| bytes | the text that they are, or base64 |
| list, struct, map | JSON without blanks, of the texts of its parts: ``[1,null]``, ``{"a":"x"}`` |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from backfill_assets.model.landed_values import MICROSECONDS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

_WITHOUT_ZONE = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
_NUMBERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint")
_PLAIN = (*_NUMBERS, "uhugeint", "decimal", "boolean")
"""Types whose texts are JSON."""
_OF_PARTS = ("list", "struct", "map")
_MACRO_OF: Mapping[str, str] = MappingProxyType(
    {
        "double": "double_text",
        "float": "double_text",
        "timestamp with time zone": "moment_text",
        "blob": "bytes_text",
    }
)
_MACROS = f"""
CREATE TEMP MACRO moment_text(moment) AS CASE WHEN isfinite(moment)
    THEN strftime(make_timestamp(epoch_us(moment)), '{MICROSECONDS}') ELSE CAST(moment AS VARCHAR) END;
CREATE TEMP MACRO exponent_text(mantissa, exponent) AS CASE
    WHEN exponent BETWEEN -38 AND -1 THEN '0.' || repeat('0', -exponent - 1) || replace(mantissa, '.', '')
    WHEN exponent BETWEEN 0 AND 37 THEN rpad(replace(mantissa, '.', ''), exponent + 1, '0') || '.0'
    ELSE mantissa || CASE WHEN contains(mantissa, '.') THEN 'E' ELSE '.0E' END || exponent END;
CREATE TEMP MACRO digits_text(digits) AS CASE WHEN contains(digits, 'e')
    THEN CASE WHEN starts_with(digits, '-') THEN '-' ELSE '' END || exponent_text(
        ltrim(split_part(digits, 'e', 1), '-'), CAST(split_part(digits, 'e', 2) AS INTEGER))
    ELSE digits END;
CREATE TEMP MACRO double_text(number) AS CASE
    WHEN isfinite(number) THEN digits_text(CAST(number AS VARCHAR))
    WHEN isnan(number) THEN 'NaN'
    WHEN number > 0 THEN 'Infinity'
    WHEN number < 0 THEN '-Infinity' END;
CREATE TEMP MACRO bytes_text(bytes) AS coalesce(TRY(decode(bytes)), 'base64: ' || base64(bytes));
"""
"""Exponents as in ``landing/odd_lines.py``: a number is one text, in whichever format it landed."""


def register_texts(connection: DuckDBPyConnection) -> None:
    """Make known to DuckDB what :func:`text_of` asks of it."""
    connection.execute(_MACROS)


def text_of(value: str, kind: DuckDBPyType, zone: str) -> str:
    """The text of ``value``, an expression of this type; null for null. ``zone`` is that of moments without one."""
    if kind.id == "varchar":
        return value
    if kind.id in _MACRO_OF:
        return f"{_MACRO_OF[kind.id]}({value})"
    if kind.id in _WITHOUT_ZONE:
        bare = f"replace(CAST({value} AS VARCHAR), ' ', 'T')"
        return f"moment_text(timezone({literal(zone)}, CAST({value} AS TIMESTAMP)))" if zone else bare
    if kind.id in _OF_PARTS:
        return f"CASE WHEN {value} IS NOT NULL THEN {_of_parts(value, kind, zone)} END"
    return f"CAST({value} AS VARCHAR)"


def literal(text: str) -> str:
    """``text`` in SQL."""
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def _of_parts(value: str, kind: DuckDBPyType, zone: str) -> str:
    parts = cast("dict[str, DuckDBPyType]", dict(kind.children))
    each = f"part_{value.count('part_')}"
    if kind.id == "list":
        return f"'[' || {_joined(value, each, _json(each, parts['child'], zone))} || ']'"
    if kind.id == "map":
        name = f"to_json({text_of(f'{each}.key', parts['key'], zone)})"
        of_map = f"{name} || ':' || {_json(f'{each}.value', parts['value'], zone)}"
        return f"'{{' || {_joined(f'map_entries({value})', each, of_map)} || '}}'"
    fields = (
        literal(f"{json.dumps(name, ensure_ascii=False)}:")
        + f" || {_json(f'struct_extract_at({value}, {at})', part, zone)}"
        for at, (name, part) in enumerate(parts.items(), start=1)
    )
    return "'{' || " + " || ',' || ".join(fields) + " || '}'"


def _joined(items: str, each: str, text: str) -> str:
    return f"array_to_string(list_transform({items}, lambda {each}: {text}), ',')"


def _json(value: str, kind: DuckDBPyType, zone: str) -> str:
    """The JSON that stands for a part of a value."""
    text = text_of(value, kind, zone)
    if kind.id in ("double", "float"):
        text = f"CASE WHEN isfinite({value}) THEN {text} ELSE to_json({text}) END"
    elif kind.id not in (*_PLAIN, *_OF_PARTS):
        text = f"to_json({text})"
    return f"coalesce({text}, 'null')"
