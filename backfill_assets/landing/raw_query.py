"""The query from landed lines to raw rows on their days, as Ibis expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import reduce
from operator import add, or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from backfill_assets.landing.line_reader import readable
from backfill_assets.landing.odd_lines import as_plain_object
from backfill_assets.landing.token_key import tokens_by
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import raw_contract
from backfill_assets.model.landed_format import VALUES
from backfill_assets.model.landed_values import (
    AS_HASHED,
    as_hashed,
    ibis_type,
    on_its_clock,
    parsed,
    raw_content_hash_of_read,
)
from backfill_assets.model.of_duckdb import of_duckdb
from backfill_assets.model.record_parts import words_of

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir
    from duckdb import DuckDBPyConnection

RECEIVED = "received"
PLACE = pa.schema([("source_file", pa.string()), ("source_line", pa.int64()), ("arrival_day", pa.date32())])
MAY_NEST = "may have structures"
TODAY = "day of reading"
_READ, _OBJECT, _NAMES, _SOUND, _OTHERS = "read", "object", "names", "sound", "others"
_FIELDS = "fields"
_EVENT, _PLAUSIBLE = "event day", "is plausible"
_GIVEN = ("bigint", "int", "boolean", "date", "timestamp")
"""Typed values of other types, except decimals, are parsed from text."""
_ODD = "odd_line_as_plain_object"
_READABLE = "readable_line"
_HMAC = "hmac_of_personal_value"
_KNOWN_TOKENS = 1 << 16
_BLANK = r"[ \t\r\n]*"
_SIGN_OF_PAIR = "u[dD][89abAB][0-9a-fA-F]{2}" + r"\\" + "u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPED = rf'\\(?:["\\/bfnrt]|u[0-9abcefABCEF][0-9a-fA-F]{{3}}|u[dD][0-7][0-9a-fA-F]{{2}}|{_SIGN_OF_PAIR})'
_TEXT = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPED})*"'
_DECIMAL = "(?:0|[1-9][0-9]{0,6})[.](?:0|[0-9]{0,2}[1-9][0-9]{0,5})|[1-9][0-9]{7,10}[.][0-9]{1,4}"
"""Decimals that survive DuckDB's 64-bit floats unchanged."""
_NUMBER = f"-?(?:0|[1-9][0-9]{{0,17}}|{_DECIMAL})"
_FIELD = rf"{_BLANK}{_TEXT}{_BLANK}:{_BLANK}(?:{_TEXT}|null|true|false|{_NUMBER}){_BLANK}"
PLAIN_OBJECT = rf"{_BLANK}[{{](?:{_FIELD}(?:,{_FIELD})*|{_BLANK})[}}]{_BLANK}"
"""Nearly all lines: DuckDB reads them like :func:`as_plain_object`, far faster."""


def register(connection: DuckDBPyConnection, token_key_file: str = "") -> None:
    _register(connection, _ODD, "VARCHAR", _as_plain_objects)
    _register(connection, _READABLE, "BLOB", lambda lines: readable(lines.combine_chunks()))
    if token_key_file:
        register_tokens(connection, Path(token_key_file))


def text_of_line(value: ir.BinaryValue) -> ir.StringValue:
    return cast("ir.StringValue", of_duckdb(_READABLE, "string", value))


def raw_rows_to_write(records: ir.Table, source: Source) -> ir.Table:
    return _raw_rows(records, source, lambda rows: {AS_HASHED: as_hashed(source, rows)})


def raw_rows(records: ir.Table, source: Source) -> ir.Table:
    """A row in ``raw_schema(source)`` for each of ``records``.

    They have ``value``, a JSON object's text, and :data:`PLACE`; other formats have ``fields``, ``others`` and
    :data:`MAY_NEST`; events have ``source.record_fields``. With :data:`TODAY` a null arrival day becomes the event day
    if possible, else today.

    JSON values other than text stay JSON, with numbers' digits. With personal fields, a token replaces each value that
    may hold one under another name or within a structure; of a line that is no object of distinct fields, length and
    token are kept.
    """
    return _raw_rows(records, source, lambda _: {})


def _raw_rows(records: ir.Table, source: Source, beside: Callable[[ir.Table], Mapping[str, ir.Value]]) -> ir.Table:
    import ibis

    read = _fields(records, source)
    if source.personal_fields:
        read = _without_structures(read, source)
    landed = read.select(
        **{column: _landed_field(read, source, name) for name, column in _columns(source).items()},
        rescued=_rescued(read, source),
        unparsed_line=_unparsed_line(read, source),
        record_kind=ibis.literal(RECEIVED),
        source_file=read.source_file,
        source_line=read.source_line,
        arrival_day=read.arrival_day,
        superseded_by_day=ibis.null("date"),
        **{name: read[name] for name in read.columns if name in (TODAY, VALUES)},
    )
    typed = landed.mutate({_typed(name): _value(landed, source, name) for name in _read_texts(source)})
    placed = _placed(typed, source)
    hashed = raw_content_hash_of_read(source, placed, lambda name: placed[_typed(name)])
    rows = placed.mutate(content_hash=hashed)
    return rows.select(*raw_columns(source), **beside(rows))


def values_read(source: Source) -> pa.Schema:
    import ibis

    read = _read_texts(source)
    kinds = {
        name: source.type_of(column)
        for name, column in _columns(source).items()
        if name in source.value_fields and name not in source.personal_fields and column in read
    }
    given = {name: kind for name, kind in kinds.items() if kind in _GIVEN or kind.startswith("decimal")}
    return pa.schema([(name, ibis.dtype(ibis_type(kind)).to_pyarrow()) for name, kind in given.items()])


def _read_texts(source: Source) -> list[str]:
    return list(dict.fromkeys([*source.parsed_columns, *_event_day_fields(source)]))


def _value(landed: ir.Table, source: Source, column: str) -> ir.Value:
    import ibis

    read = parsed(landed[column], source.type_of(column))
    if VALUES not in landed.columns:
        return read
    given = landed[VALUES]
    (name,) = (name for name, each in _columns(source).items() if each == column)
    return ibis.coalesce(given[name], read) if name in given.names else read


def raw_columns(source: Source) -> tuple[str, ...]:
    return tuple(raw_contract(source).fields())


def _typed(name: str) -> str:
    return f"{name} typed"


def _columns(source: Source) -> dict[str, str]:
    return dict(zip(source.fields, source.columns, strict=True))


# ------------------------------------------------------------------ fields


def _fields(lines: ir.Table, source: Source) -> ir.Table:
    import ibis

    if _FIELDS in lines.columns:
        return lines.mutate(**{_SOUND: lines[_FIELDS].notnull(), _OBJECT: lines[_FIELDS]})
    plain = of_duckdb("regexp_full_match", "boolean", lines.value, PLAIN_OBJECT)
    read = lines.mutate(**{_READ: plain.ifelse(lines.value, of_duckdb(_ODD, "string", lines.value))})
    parts = read.mutate(
        **{
            _OBJECT: of_duckdb("json_transform", _struct(source), read[_READ], _declared(source)),
            _NAMES: of_duckdb("json_keys", "array<string>", read[_READ]),
        }
    )
    count = parts[_NAMES].length()
    only_declared = count == _present(parts[_OBJECT], source)
    # Not "or": DuckDB evaluates both of its sides for each line.
    sound = only_declared.ifelse(True, (count == parts[_NAMES].unique().length()).fill_null(False))
    return parts.mutate(
        **{
            _SOUND: sound,
            _OBJECT: sound.ifelse(parts[_OBJECT], ibis.null(_struct(source))),
            _OTHERS: (sound & ~only_declared).ifelse(_others(parts, source), ibis.null(_PAIRS)),
        }
    )


def _declared(source: Source) -> str:
    return json.dumps(dict.fromkeys(source.value_fields, "VARCHAR"), ensure_ascii=False)


def _struct(source: Source) -> dt.DataType:
    import ibis.expr.datatypes as dt

    return dt.Struct(dict.fromkeys(source.value_fields, "string"))


def _present(fields: Any, source: Source) -> ir.IntegerValue:
    return cast("ir.IntegerValue", reduce(add, (fields[name].notnull().cast("int64") for name in source.value_fields)))


def _others(parts: ir.Table, source: Source) -> ir.Value:
    pairs = of_duckdb("map_entries", _PAIRS, of_duckdb("json_transform", "map<string, string>", parts[_READ], _MAP))
    return cast("ir.ArrayValue", pairs).filter(lambda pair: pair.key.notin(source.value_fields))


def _landed_field(read: ir.Table, source: Source, name: str) -> ir.Value:
    value = _of_record(read, name) if name in source.record_fields else read[_OBJECT][name]
    return token(value) if name in source.personal_fields else cast("ir.Value", value)


def _of_record(read: ir.Table, name: str) -> ir.Value:
    """Null for landed files, which have no records."""
    import ibis

    return read[name] if name in read.columns else ibis.null("string")


def _without_structures(parts: ir.Table, source: Source) -> ir.Table:
    import ibis

    given = {name: parts[_OBJECT][name] for name in source.value_fields}
    fields = {name: each if name in source.personal_fields else _hidden(each, source) for name, each in given.items()}
    may_nest = parts[MAY_NEST] if MAY_NEST in parts.columns else _may_nest(parts.value)
    return parts.mutate(**{_OBJECT: may_nest.ifelse(ibis.struct(fields), parts[_OBJECT])})


def _hidden(value: ir.StringValue, source: Source) -> ir.Value:
    return (_is_structure(value) & _mentions_personal(value, source)).ifelse(token(value), value)


def _may_nest(line: ir.StringValue) -> ir.BooleanValue:
    within = of_duckdb("ltrim", "string", line, "{").contains("{")
    return cast("ir.BooleanValue", within | line.contains("[") | line.contains("\\"))


def _rescued(read: ir.Table, source: Source) -> ir.Value:
    import ibis

    others = cast("ir.ArrayValue", read[_OTHERS])
    kept = others
    if source.personal_fields:
        kept = others.map(lambda pair: _without_personal_value(pair, source))
    written = of_duckdb("to_json", "string", of_duckdb("map_from_entries", "map<string, string>", kept)).cast("string")
    return (others.length() > 0).ifelse(written, ibis.null("string"))


def _unparsed_line(read: ir.Table, source: Source) -> ir.Value:
    import ibis

    line = read.value
    if source.personal_fields:
        length = line.length().cast("string")
        line = ibis.literal("withheld: ") + length + " characters, HMAC-SHA-256 " + token(line)
    return cast("ir.Value", read[_SOUND].ifelse(ibis.null("string"), line))


def _without_personal_value(pair: ir.StructValue, source: Source) -> ir.StructValue:
    import ibis

    name, value = pair["key"], pair["value"]
    named = _mentions_personal(name, source) | _mentions_personal(value, source)
    return ibis.struct({"key": name, "value": (named | _is_structure(value)).ifelse(token(value), value)})


def _is_structure(value: ir.StringValue) -> ir.BooleanValue:
    return value.contains("{") | value.contains("[")


def _mentions_personal(text: ir.StringValue, source: Source) -> ir.BooleanValue:
    """Finds a name in any case, with any characters between its parts."""
    letters = text.lower().re_replace("[^a-z0-9]", "")
    names = [re.sub("[^a-z0-9]", "", name.lower()) for name in words_of(source.personal_fields)]
    return reduce(or_, (letters.contains(name) for name in names))


# ------------------------------------------------------------------ days


def placed_anew(raw: ir.Table, source: Source) -> ir.Table:
    named = _event_day_fields(source)
    typed = raw.mutate({_typed(name): parsed(raw[name], source.type_of(name)) for name in named})
    return _placed(typed, source).select(*raw.columns)


def _event_day_fields(source: Source) -> list[str]:
    return [] if source.replaced_whole else [source.event_day_field]


def _placed(landed: ir.Table, source: Source) -> ir.Table:
    import ibis

    if source.replaced_whole:
        return landed.mutate(day_is_arrival=ibis.literal(False), day=landed.arrival_day)
    event = on_its_clock(source, landed[_typed(source.event_day_field)])
    read = landed.mutate(**{_EVENT: event.cast("date")})
    if TODAY in read.columns:
        own = _is_plausible(source, read[_EVENT], read[TODAY]).ifelse(read[_EVENT], ibis.null("date"))
        read = read.mutate(arrival_day=ibis.coalesce(read.arrival_day, own, read[TODAY]))
    judged = read.mutate(**{_PLAUSIBLE: _is_plausible(source, read[_EVENT], read.arrival_day).fill_null(False)})
    return judged.mutate(
        day_is_arrival=~judged[_PLAUSIBLE], day=judged[_PLAUSIBLE].ifelse(judged[_EVENT], judged.arrival_day)
    )


def _is_plausible(source: Source, day: ir.DateValue, arrival: ir.DateValue) -> ir.BooleanValue:
    import ibis

    placement = source.placement
    in_time = day <= arrival + ibis.interval(days=placement.days_ahead)
    return in_time if placement.earliest_day is None else in_time & (day >= ibis.literal(placement.earliest_day))


# ------------------------------------------------------------------ tokens of personal values

# HMAC-SHA256 by a registered function: a key in an expression would show up wherever queries do.


def register_tokens(connection: DuckDBPyConnection, key_file: Path) -> None:
    tokens = tokens_by(key_file, _KNOWN_TOKENS)
    _register(connection, _HMAC, "VARCHAR", lambda values: tokens(values.combine_chunks()))


def token(value: ir.StringValue) -> ir.StringValue:
    """64 hexadecimal digits; null for null and for the empty text."""
    return cast("ir.StringValue", of_duckdb(_HMAC, "string", value))


# ------------------------------------------------------------------ functions of DuckDB

_MAP = '"MAP(VARCHAR,VARCHAR)"'
_PAIRS = "array<struct<key: string, value: string>>"


def _register(
    connection: DuckDBPyConnection, name: str, of: str, function: Callable[[pa.ChunkedArray], pa.Array]
) -> None:
    make = cast("Callable[..., object]", connection.create_function)
    make(name, function, [of], "VARCHAR", type="arrow", null_handling="special")


def _as_plain_objects(lines: pa.ChunkedArray) -> pa.Array:
    return pa.array(map(as_plain_object, lines.to_pylist()), pa.string())
