"""Landed text, its value, and their canonical text, by Ibis.

``content_hash`` is XXH64 over the canonical ``name=value`` of landed fields but nulls: equal for a raw and its typed
row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from backfill_assets.model.contract import BINARY
from backfill_assets.model.declaration import ENDLESS, MOMENT_IN_UTC, Source, item_of, landed_pattern
from backfill_assets.model.landed_lists import is_list, list_text, texts_of
from backfill_assets.model.landed_structures import has_structure
from backfill_assets.model.of_duckdb import of_duckdb
from backfill_assets.model.placement import IN_UTC
from backfill_assets.model.structure_values import (
    any_is_wrong,
    text_of_parts,
    texts_of_parts,
    type_of_parts,
    value_of_parts,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

HASH_OF_VALUES, HASH_OF_NAMED_TEXTS = "spark_xxhash64", "spark_xxhash64_of_named"
AS_HASHED = "as hashed"
_HASH, _LINE = "content_hash", "unparsed_line"
_HOUR = 11
_LINE_END = r"(\r\n|[\r\n])?"
"""Java's ``$`` allows one behind the text, and Spark's cast trims it."""
_ANY_LINE_END = r"(\r\n|[\r\n\x{85}\x{2028}\x{2029}])?"
_IBIS_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "bigint": "int64",
        "int": "int32",
        "smallint": "int16",
        "tinyint": "int8",
        "double": "float64",
        "float": "float32",
        "timestamp": "timestamp('UTC')",
    }
)
_DUCKDB_TYPES: Mapping[str, str] = MappingProxyType({"float": "REAL", "timestamp": "TIMESTAMPTZ"})
_LONGEST_BEFORE = len("2017-03-01T10:00:00.000000Z")
MICROSECONDS = "%Y-%m-%dT%H:%M:%S.%fZ"


# ------------------------------------------------------------------ values


def parsed(text: ir.StringValue, spark_type: str) -> ir.Value:
    """The value, or null; nothing is rounded: ``12.345`` is no decimal(18,2), ``1e999`` no double. A double is the
    nearest one; -0.0 becomes 0.0.
    """
    import ibis

    if spark_type == "string":
        return text
    allowed = _is_like(text, f"{landed_pattern(spark_type)}{_LINE_END}")
    if spark_type == "timestamp":
        # DuckDB reads 24:00:00 as the next midnight.
        allowed = allowed & (text.substr(_HOUR, 2) < "24")
    kind = ibis_type(spark_type)
    if spark_type == "boolean":
        return allowed.ifelse(text.startswith("t"), ibis.null(kind))
    if has_structure(spark_type):
        return _parsed_structure(text, spark_type, allowed)
    if item := item_of(spark_type):
        return _parsed_list(text, item, allowed & is_list(text))
    value = text.try_cast(kind)
    if spark_type in BINARY:
        allowed = allowed & (~value.isinf() | text.contains(ENDLESS))
        value = value + ibis.literal(0.0, kind)
    return allowed.ifelse(value, ibis.null(kind))


def _parsed_list(text: ir.StringValue, item: str, allowed: ir.BooleanValue) -> ir.Value:
    import ibis

    kind = ibis_type(f"array<{item}>")
    texts = texts_of(allowed.ifelse(text, None))
    values = texts.map(lambda each: parsed(each, item))
    wrong = texts.filter(lambda each: each.notnull() & parsed(each, item).isnull()).length() > 0
    return cast("ir.Value", (~wrong).ifelse(values, ibis.null(kind)))


def _parsed_structure(text: ir.StringValue, spark_type: str, allowed: ir.BooleanValue) -> ir.Value:
    import ibis

    texts = texts_of_parts(allowed.ifelse(text, None), spark_type)
    sound = texts.notnull() & ~any_is_wrong(texts, spark_type, parsed)
    return sound.ifelse(value_of_parts(texts, spark_type, parsed), ibis.null(ibis_type(spark_type)))


def parsed_sql(text: str, spark_type: str) -> str:
    """:func:`parsed` as SQL, for keys and versions: importing Ibis takes long."""
    allowed = f"REGEXP_FULL_MATCH({text}, '{landed_pattern(spark_type)}{_LINE_END}')"
    kind = _DUCKDB_TYPES.get(spark_type, spark_type.upper().replace(",", ", "))
    value = f"TRY_CAST({text} AS {kind})"
    if spark_type == "timestamp":
        start = f"CASE WHEN ({_HOUR} + 1) >= 1 THEN {_HOUR} + 1 ELSE {_HOUR} + 1 + LENGTH({text}) END"
        allowed += f" AND (SUBSTRING({text}, {start}, 2) < '24')"
    if spark_type == "boolean":
        value = f"STARTS_WITH({text}, 't')"
    if spark_type in BINARY:
        allowed += f" AND (NOT (ISINF({value})) OR CONTAINS({text}, '{ENDLESS}'))"
        value += " + 0.0"
    return f"CASE WHEN {allowed} THEN {value} ELSE CAST(NULL AS {kind}) END"


def ibis_type(spark_type: str) -> str:
    return type_of_parts(spark_type, lambda leaf: _IBIS_TYPES.get(leaf, leaf))


def canonical(value: ir.Value, spark_type: str) -> ir.StringValue:
    """Decimals with all digits, moments as microseconds since 1970 UTC, doubles (engines write them differently) as the
    XXH64 of their bytes, with one zero and one NaN.
    """
    if has_structure(spark_type):
        return text_of_parts(value, spark_type, canonical)
    if item := item_of(spark_type):
        return list_text(cast("ir.ArrayValue", value), lambda each: canonical(each, item), quoted=item == "string")
    if spark_type in BINARY:
        return cast("ir.StringValue", value.isnull().ifelse(None, hashed(value).cast("string")))
    if spark_type == "timestamp":
        return cast("ir.StringValue", of_duckdb("epoch_us", "int64", value).cast("string"))
    return _day_text(value) if spark_type == "date" else cast("ir.StringValue", value.cast("string"))


def canonical_text(text: ir.StringValue, spark_type: str) -> ir.StringValue:
    return text if spark_type == "string" else _text_of(parsed(text, spark_type), text, spark_type)


def landed_text(value: ir.Value, spark_type: str) -> ir.StringValue:
    """A text that parses to ``value``; equal for equals."""
    if spark_type == "timestamp":
        return cast("ir.StringValue", value.cast("timestamp").strftime(MICROSECONDS))
    return canonical(value, spark_type)


def _text_of(value: ir.Value, text: ir.StringValue, spark_type: str) -> ir.StringValue:
    import ibis

    return cast("ir.StringValue", ibis.coalesce(canonical(value, spark_type), text))


def _day_text(value: ir.Value) -> ir.StringValue:
    """A cast writes the year 0 as BC."""
    return cast("ir.StringValue", value.strftime("%Y-%m-%d"))


def on_its_clock(source: Source, value: ir.Value) -> ir.Value:
    """An event day's local time, by DuckDB's rules, equal on all workers."""
    if source.type_of(source.event_day_field) != "timestamp":
        return value
    if source.event_zone == IN_UTC:
        # A cast reads the session's time zone first and takes ten times as long.
        return cast("ir.Value", of_duckdb("make_timestamp", "timestamp", of_duckdb("epoch_us", "int64", value)))
    return cast("ir.Value", of_duckdb("timezone", "timestamp", source.event_zone, value))


# ------------------------------------------------------------------ keys

_PART = re.compile(r"((?:\\.|[^\\-])*)-", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def key_value(text: ir.StringValue, spark_type: str) -> ir.StringValue:
    """A key's value, or null; moments lose trailing zeros."""
    if spark_type == "string":
        return text
    written = landed_text(parsed(text, spark_type), spark_type)
    return written.re_replace("[.]?0*Z$", "Z") if spark_type == "timestamp" else written


def key_text(source: Source, rows: ir.Table, name: str) -> ir.StringValue:
    """:func:`key_value`, or the landed text."""
    import ibis

    text, kind = _landed(rows, name), source.type_of(name)
    return text if kind == "string" else cast("ir.StringValue", ibis.coalesce(key_value(text, kind), text))


def joined_key(source: Source, rows: ir.Table, parts: Sequence[str]) -> ir.StringValue:
    r"""Several key columns as one text; null if one is empty or missing.

    A dash joins them; a backslash escapes dashes and backslashes in all but the last: ``10-1`` and ``2`` give
    ``10\-1-2``.
    """
    import ibis

    *first, last = (key_text(source, rows, name) for name in parts)
    whole = reduce(lambda found, text: found + "-" + text, [*map(_escaped, first), last])
    present = reduce(and_, (_landed(rows, name).length() > 0 for name in parts))
    return cast("ir.StringValue", present.ifelse(whole, ibis.null("string")))


def parts_of_key(key: str, count: int) -> list[str] | None:
    """Inverts :func:`joined_key`; None if ``key`` has fewer parts."""
    parts, at = [], 0
    for _ in range(count - 1):
        part = _PART.match(key, at)
        if part is None:
            return None
        parts.append(_ESCAPED.sub(r"\1", part[1]))
        at = part.end()
    return [*parts, key[at:]]


def _escaped(text: ir.StringValue) -> ir.StringValue:
    return text.replace("\\", "\\\\").replace("-", "\\-")


def _landed(rows: ir.Table, name: str) -> ir.StringValue:
    return cast("ir.StringValue", rows[name])


# ------------------------------------------------------------------ content hashes


def content_hash_of_text(source: Source, rows: ir.Table) -> ir.IntegerValue:
    return _content_hash(source, lambda name: canonical_text(_landed(rows, name), source.type_of(name)))


def content_hash_of_values(source: Source, rows: ir.Table) -> ir.IntegerValue:
    return _content_hash(source, lambda name: canonical(rows[name], source.type_of(name)))


def content_hash_of_read(source: Source, rows: ir.Table, value: Callable[[str], ir.Value]) -> ir.IntegerValue:
    """:func:`content_hash_of_text` from parsed values; null where the text is none."""

    def text(name: str) -> ir.StringValue:
        landed, kind = _landed(rows, name), source.type_of(name)
        return landed if kind == "string" else _text_of(value(name), landed, kind)

    return _content_hash(source, text)


def raw_content_hash(source: Source, rows: ir.Table) -> ir.IntegerValue:
    """Includes lines that are no JSON objects."""
    return _or_of_line(rows, content_hash_of_text(source, rows))


def raw_content_hash_of_read(source: Source, rows: ir.Table, value: Callable[[str], ir.Value]) -> ir.IntegerValue:
    return _or_of_line(rows, content_hash_of_read(source, rows, value))


def as_hashed(source: Source, rows: ir.Table) -> ir.StructValue:
    import ibis

    return cast("ir.StructValue", ibis.struct({name: rows[name] for name in (*_hashed_of(source), _HASH)}))


def hash_of_staged(source: Source, rows: ir.Table, afresh: ir.IntegerValue) -> ir.IntegerValue:
    """``afresh``, unless the texts are those in :data:`AS_HASHED`."""
    hashed = cast("ir.StructValue", rows[AS_HASHED])
    same = reduce(and_, (rows[name].identical_to(hashed[name]) for name in _hashed_of(source)))
    return cast("ir.IntegerValue", same.ifelse(hashed[_HASH], afresh))


def _hashed_of(source: Source) -> tuple[str, ...]:
    return (*source.columns, _LINE)


def content_hash_as_before(source: Source, rows: ir.Table) -> ir.IntegerValue:
    """For rows landed when :data:`MOMENT_IN_UTC` was a moment's only form."""

    def text(name: str) -> ir.StringValue:
        landed, kind = _landed(rows, name), source.type_of(name)
        read = canonical_text(landed, kind)
        if kind != "timestamp":
            return read
        return cast("ir.StringValue", _is_before(landed).ifelse(read, landed))

    return _or_of_line(rows, _content_hash(source, text))


def in_newer_form(source: Source, rows: ir.Table) -> ir.BooleanValue:
    """Whether a moment is not in :data:`MOMENT_IN_UTC`; never null."""
    import ibis

    moments = [name for name in source.columns if source.type_of(name) == "timestamp"]
    return ~reduce(and_, (_as_before(_landed(rows, name)) for name in moments), ibis.literal(True))


def hashed(*values: ir.Value) -> ir.IntegerValue:
    """Spark's ``xxhash64`` in order; nulls are skipped."""
    return cast("ir.IntegerValue", of_duckdb(HASH_OF_VALUES, "int64", *values))


def _as_before(text: ir.StringValue) -> ir.BooleanValue:
    plainly = text.endswith("Z") & (text.length() <= _LONGEST_BEFORE)
    return (plainly | _is_before(text)).fill_null(True)


def _is_before(text: ir.StringValue) -> ir.BooleanValue:
    return _is_like(text, f"{MOMENT_IN_UTC}{_ANY_LINE_END}")


def _or_of_line(rows: ir.Table, of_fields: ir.IntegerValue) -> ir.IntegerValue:
    unparsed = rows.unparsed_line
    return cast("ir.IntegerValue", unparsed.notnull().ifelse(hashed(unparsed), of_fields))


def _content_hash(source: Source, text: Callable[[str], ir.StringValue]) -> ir.IntegerValue:
    # Nulls are skipped; the name in front makes two fields that swap their values differ.
    import ibis

    texts = ibis.struct({name: text(name) for name in source.columns})
    return cast("ir.IntegerValue", of_duckdb(HASH_OF_NAMED_TEXTS, "int64", texts))


def _is_like(text: ir.StringValue, pattern: str) -> ir.BooleanValue:
    return cast("ir.BooleanValue", of_duckdb("regexp_full_match", "boolean", text, pattern))


# ------------------------------------------------------------------ values that compare as text


def typed_value(text: ir.StringColumn, spark_type: str) -> ir.Value:
    """The value, sorted as its type, or null; days, and moments with six decimals, are text."""
    value = parsed(text, spark_type)
    return landed_text(value, spark_type) if spark_type in ("date", "timestamp") else value
