"""The canonical text of each Parquet type, in DuckDB's SQL: what raw keeps of a value, and parses again.

| type | text |
|---|---|
| boolean, whole numbers | ``true``, ``-7`` |
| decimal | all of its digits: ``12.30`` |
| double, float | the fewest digits that give it again, with a point: ``0.1``, ``1.0``, ``NaN``, ``-Infinity`` |
| date | ``2017-03-01`` |
| moment | UTC with microseconds: ``2017-03-01T10:00:00.000000Z``; without a zone, the local time |
| bytes | decoded text, or base64 |
| list, struct, map | JSON without blanks, of the texts of its parts: ``[1,null]``, ``{"a":"x"}`` |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from backfill_assets.model.landed_values import MICROSECONDS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

_WITHOUT_ZONE = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns")
_NUMBERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint")
_PLAIN = (*_NUMBERS, "uhugeint", "decimal", "boolean")
_OF_PARTS = ("list", "struct", "map")
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "int64": "BIGINT",
        "int32": "INTEGER",
        "bool": "BOOLEAN",
        "date32[day]": "DATE",
        "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
    }
)
_WITHIN: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "int64": ("tinyint", "smallint", "integer", "bigint"),
        "int32": ("tinyint", "smallint", "integer"),
        "bool": ("boolean",),
        "date32[day]": ("date",),
    }
)
"""Types whose values are all values of a declared type, within :data:`_BOUNDS`."""
_BOUNDS: Mapping[str, str] = MappingProxyType(
    {
        "int64": "-999999999999999999 AND 999999999999999999",
        "date32[day]": "DATE '0001-01-01' AND DATE '9999-12-31'",
        "timestamp[us, tz=UTC]": "TIMESTAMPTZ '0001-01-01 00:00:00Z' AND TIMESTAMPTZ '9999-12-31 23:59:59.999999Z'",
    }
)
"""Landed text has at most 18 digits, and years of four."""
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
"""Exponents are those of ``landing/odd_lines.py``: a number has one text in all formats."""


def register_texts(connection: DuckDBPyConnection) -> None:
    connection.execute(_MACROS)


def text_of(value: str, kind: DuckDBPyType, zone: str) -> str:
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


def value_of(value: str, kind: DuckDBPyType, zone: str, declared: pa.DataType) -> str:
    """Null unless its text would parse to exactly ``value``."""
    if not _is_within(kind, declared, zone):
        return no_value(declared)
    if kind.id in _WITHOUT_ZONE:
        value = f"timezone({literal(zone)}, CAST({value} AS TIMESTAMP))"
    bounds = _BOUNDS.get(str(declared))
    found = f"CASE WHEN {value} BETWEEN {bounds} THEN {value} END" if bounds else value
    return f"CAST({found} AS {_name_of(declared)})"


def no_value(declared: pa.DataType) -> str:
    return f"CAST(NULL AS {_name_of(declared)})"


def _is_within(kind: DuckDBPyType, declared: pa.DataType, zone: str) -> bool:
    if pa.types.is_decimal(declared):
        if kind.id != "decimal":
            return False
        precision, scale = (int(cast("int", size)) for _, size in kind.children)
        # Without a digit before the point DuckDB writes .25, which is no landed decimal.
        return bool(scale <= declared.scale and 0 < precision - scale <= declared.precision - declared.scale)
    if pa.types.is_timestamp(declared):
        return kind.id == "timestamp with time zone" or (bool(zone) and kind.id in _WITHOUT_ZONE)
    return kind.id in _WITHIN.get(str(declared), ())


def _name_of(declared: pa.DataType) -> str:
    return _NAMES.get(str(declared)) or f"DECIMAL({declared.precision}, {declared.scale})"


def literal(text: str) -> str:
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
    text = text_of(value, kind, zone)
    if kind.id in ("double", "float"):
        text = f"CASE WHEN isfinite({value}) THEN {text} ELSE to_json({text}) END"
    elif kind.id not in (*_PLAIN, *_OF_PARTS):
        text = f"to_json({text})"
    return f"coalesce({text}, 'null')"
