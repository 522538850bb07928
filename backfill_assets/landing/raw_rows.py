"""From lines that Spark holds to raw rows: each as text, on the day it belongs to."""

from __future__ import annotations

import re
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.lakehouse.storage import literal_path as _literal_path
from backfill_assets.landing.token_key import SHORTEST_KEY
from backfill_assets.model.canonical import all_well_written, parsed, raw_content_hash
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import raw_schema

_NESTS, _WELL_WRITTEN, _ONLY_DECLARED, _EVENT = "may nest", "well written", "only declared", "day of the event"
_WITH_ONE_BEHIND = 2


def rows_of_lines(
    spark: SparkSession, source: Source, lines: DataFrame, token_key_file: str, today: date | None = None
) -> DataFrame:
    """One row in :func:`~backfill_assets.model.landed.raw_schema` for each of ``lines``, which are never null.

    A line that is not one JSON object with distinct fields is kept whole. Values that the source did not write as text
    are kept as the JSON that stands for them, decimals as 64-bit floats.

    If the source has personal fields, such a line can have their values in any form: its length and its token are kept.
    A token replaces each value that may hold a personal field under another name or within a structure.

    ``lines`` has ``value``, ``source_file``, ``source_line`` and ``arrival_day``. With ``today``, an arrival day may be
    null: it is the day of the event if that is possible today, or else today.
    """
    located = _fields(lines, source)
    keyed = located
    if source.personal_fields:
        keyed = with_token_pads(located.withColumn(_NESTS, _may_nest()), spark, _literal_path(token_key_file))
    return (
        keyed.select(*_landed_columns(source), *_kept_whole(source), "source_file", "source_line", "arrival_day")
        .withColumn(_WELL_WRITTEN, all_well_written(source))
        .withColumn(_EVENT, _event_day(source, F.col(_WELL_WRITTEN)))
        .withColumn("arrival_day", _arrival_day(source, F.col(_EVENT), today))
        .withColumns(_placed(source, F.col(_EVENT)))
        .withColumn("content_hash", raw_content_hash(source, F.col(_WELL_WRITTEN)))
        .withColumn("record_kind", F.lit("received"))
        .withColumn("superseded_by_day", F.lit(None).cast("date"))
        .select(*raw_schema(source).names)
    )


def readable_text(value: Column) -> Column:
    """The text of a line; of one that is no UTF-8 its bytes, as base64, which is no JSON object and is kept whole."""
    text = value.cast("string")
    return F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("base64: "), F.base64(value.cast("binary"))))


def _fields(lines: DataFrame, source: Source) -> DataFrame:
    """``object``: the fields of a line, null if it is not one JSON object with distinct fields.

    Beside it whether all of them are declared. The brackets make the parser read the whole line: by itself it stops at
    the end of the first object. A bracket of the line's own would end it as well, so such a line is parsed once more
    with an object behind it, which is to be found.
    """
    parsed_line = lines.withColumn("objects", _objects(F.lit("]")))
    only = F.get("objects", F.lit(0))
    keys = F.map_keys(only)
    with_declared = parsed_line.withColumn(_ONLY_DECLARED, _only_declared(keys, source))
    distinct = F.col(_ONLY_DECLARED) | (F.size(keys) == F.size(F.array_distinct(keys)))
    ends = F.when(F.contains("value", F.lit("]")), F.size(_objects(F.lit(",{}]"))) == _WITH_ONE_BEHIND).otherwise(
        F.lit(True)
    )
    return with_declared.withColumn("object", F.when((F.size("objects") == 1) & distinct & ends, only)).drop("objects")


def _only_declared(keys: Column, source: Source) -> Column:
    """Whether ``keys`` are declared fields, each once: counted, as nearly all lines fulfil it.

    To name the other keys, or those that are there twice, Spark interprets an expression that it cannot compile, which
    costs a fifth of all that is done with a line.
    """
    declared = (F.array_contains(keys, name).cast("int") for name in source.fields)
    return F.size(keys) == reduce(Column.__add__, declared)


def _objects(end: Column) -> Column:
    return F.from_json(F.concat(F.lit("["), F.col("value"), end), "array<map<string,string>>")


def _landed_columns(source: Source) -> list[Column]:
    return [_landed_field(source, name) for name in source.fields]


def _landed_field(source: Source, name: str) -> Column:
    # Not getItem: Spark would look a value up again wherever it is named, and looks through half of the keys each time.
    value = F.try_element_at("object", F.lit(name))
    if name in source.personal_fields:
        return token(value).alias(source.personal_fields[name])
    if source.personal_fields:
        hides = F.col(_NESTS) & _is_structure(value) & _mentions_personal(value, source)
        value = F.when(hides, token(value)).otherwise(value)
    return value.alias(name)


def _kept_whole(source: Source) -> list[Column]:
    others = F.map_filter("object", lambda name, _: ~name.isin(list(source.fields)))
    unknown = F.when(~F.col(_ONLY_DECLARED), others)
    kept, line = unknown, F.col("value")
    if source.personal_fields:
        kept = F.transform_values(unknown, lambda name, value: _without_personal_values(name, value, source))
        line = F.concat(F.lit("withheld: "), F.length(line), F.lit(" characters, HMAC-SHA-256 "), token(line))
    rescued = F.when(F.size(unknown) > 0, F.to_json(kept))
    unparsed = F.when(F.col("object").isNull(), line)
    return [rescued.alias("rescued"), unparsed.alias("unparsed_line")]


def _without_personal_values(name: Column, value: Column, source: Source) -> Column:
    """The value of an unknown field; its token if it may be a personal field in another spelling, or have one in it."""
    named = _mentions_personal(name, source) | _mentions_personal(value, source)
    return F.when(named | _is_structure(value), token(value)).otherwise(value)


def _may_nest() -> Column:
    """Whether a line can have a structure in one of its fields: asked once, since hardly any line has."""
    line = F.col("value")
    # Not locate: it counts characters, and compares at each one.
    within = F.contains(F.expr("trim(LEADING '{' FROM value)"), F.lit("{"))
    return within | F.contains(line, F.lit("[")) | F.contains(line, F.lit("\\"))


def _is_structure(value: Column) -> Column:
    """Whether a value is, or has in it, an object or an array: there a field can have any name."""
    return F.contains(value, F.lit("{")) | F.contains(value, F.lit("["))


def _mentions_personal(text: Column, source: Source) -> Column:
    """Whether the name of a personal field is in ``text``, in upper or lower case, with any signs between its parts."""
    letters = F.regexp_replace(F.lower(text), "[^a-z0-9]", "")
    names = [re.sub("[^a-z0-9]", "", name.lower()) for name in source.personal_fields]
    return reduce(Column.__or__, (F.contains(letters, F.lit(name)) for name in names))


def _event_day(source: Source, well_written: Column | None = None) -> Column:
    field = source.event_day_field
    return parsed(F.col(field), source.type_of(field), well_written).cast("date")


def _arrival_day(source: Source, event: Column, today: date | None) -> Column:
    known = F.col("arrival_day")
    if today is None:
        return known
    return F.coalesce(known, F.when(_is_plausible(source, event, F.lit(today)), event), F.lit(today))


def _is_plausible(source: Source, day: Column, arrival: Column) -> Column:
    placement = source.placement
    earliest = day if placement.earliest_day is None else F.lit(placement.earliest_day)
    return day.between(earliest, F.date_add(arrival, placement.days_ahead))


def _placed(source: Source, day: Column) -> dict[str, Column]:
    plausible = _is_plausible(source, day, F.col("arrival_day"))
    return {
        "day_is_arrival": ~F.coalesce(plausible, F.lit(False)),
        "day": F.when(plausible, day).otherwise(F.col("arrival_day")),
    }


# ------------------------------------------------------------------ tokens of personal values

# HMAC-SHA256 with a key that only ever exists as a row of data. A key in an expression would show up in plans, event
# logs and the UI. So the executors read it from its file, and what is derived from it reaches the rows by a join with
# one row.

_BLOCK_DIGITS = 128
_INNER, _OUTER = "token_inner_pad", "token_outer_pad"


def with_token_pads(rows: DataFrame, spark: SparkSession, key_file: str) -> DataFrame:
    """``rows`` with the two pads that :func:`token` needs; drop them by selecting what you keep.

    The key is all bytes of ``key_file`` without white space around them.
    """
    key = F.btrim(F.col("value"), F.lit(" \t\r\n"))
    checked = F.when(F.length(key) >= SHORTEST_KEY, key).otherwise(
        F.raise_error(F.lit(f"The token key has fewer than {SHORTEST_KEY} characters."))
    )
    digits = spark.read.text(key_file, wholetext=True).select(_block(checked.cast("binary")).alias("block"))
    pads = digits.select(_xor_block(0x36).alias(_INNER), _xor_block(0x5C).alias(_OUTER))
    return rows.join(F.broadcast(pads), how="cross")


def token(value: Column) -> Column:
    """The token of a text value as 64 hexadecimal digits; null for null and for no text at all."""
    inner = F.sha2(F.concat(_INNER, value.cast("binary")), 256)
    outer = F.sha2(F.concat(F.col(_OUTER), F.unhex(inner)), 256)
    return F.when(F.length(value) > 0, outer)


def _block(key: Column) -> Column:
    """The key as 64 bytes in hexadecimal: hashed if it is longer, filled up with zeros."""
    digits = F.when(F.length(key) > _BLOCK_DIGITS // 2, F.sha2(key, 256)).otherwise(F.hex(key))
    return F.rpad(digits, _BLOCK_DIGITS, "0")


def _xor_block(pad: int) -> Column:
    positions = F.sequence(F.lit(1), F.lit(_BLOCK_DIGITS - 1), F.lit(2))
    return F.unhex(F.array_join(F.transform(positions, lambda at: _xor_byte(at, pad)), ""))


def _xor_byte(at: Column, pad: int) -> Column:
    byte = F.conv(F.substring("block", at, 2), 16, 10).cast("int")
    return F.lpad(F.hex(byte.bitwiseXOR(F.lit(pad))), 2, "0")
