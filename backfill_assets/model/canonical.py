"""Content hashes by Spark, for watchdogs. Mirrors ``model/landed_values.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.model.contract import BINARY
from backfill_assets.model.declaration import ENDLESS, MOMENT_IN_UTC, Source, item_of, landed_pattern
from backfill_assets.model.landed_lists import AROUND, ITEM_OF_JAVA, OPEN_END, SKELETONS
from backfill_assets.model.landed_structures import (
    KEY,
    VALUE,
    has_structure,
    plain_structure,
    structure_of,
    with_entries,
)

_BETWEEN = "\u001f"
_BEFORE, _LONGEST_BEFORE = f"^{MOMENT_IN_UTC}$", len("2017-03-01T10:00:00.000000Z")


def parsed(text: Column, spark_type: str, well_written: Column | None = None) -> Column:
    """Null like DuckDB's. ``well_written``: the pattern has matched."""
    if spark_type == "string":
        return text
    pattern = f"^{landed_pattern(spark_type)}$"
    allowed = text.rlike(pattern) if well_written is None else well_written | text.rlike(pattern)
    if has_structure(spark_type):
        return _parsed_structure(text, spark_type, allowed)
    if item := item_of(spark_type):
        return _parsed_list(text, item, allowed)
    value = text.try_cast(spark_type)
    if spark_type in BINARY:
        allowed &= (F.abs(value) != float("inf")) | text.contains(ENDLESS)
        value = (value + F.lit(0.0)).cast(spark_type)
    return F.when(allowed, value)


def _parsed_list(text: Column, item: str, allowed: Column) -> Column:
    ones = F.regexp_replace(F.regexp_replace(text, ITEM_OF_JAVA, "1"), AROUND, "$1")
    is_list = allowed & F.replace(ones, F.lit("1,"), F.lit("")).isin(*SKELETONS) & ~F.contains(ones, F.lit(OPEN_END))

    def own(found: Column) -> Column:
        said = F.from_json(F.concat(F.lit('{"said":'), found, F.lit("}")), "said string")["said"]
        return F.when(F.startswith(found, F.lit('"')), said).when(found != "null", found)

    texts = F.transform(F.regexp_extract_all(text, F.lit(ITEM_OF_JAVA), F.lit(0)), own)
    values = F.transform(texts, lambda each: parsed(each, item))
    wrong = F.exists(texts, lambda each: each.isNotNull() & parsed(each, item).isNull())
    return F.when(is_list & ~wrong, values)


def _parsed_structure(text: Column, spark_type: str, allowed: Column) -> Column:
    plain = F.udf(plain_structure, useArrow=False)(F.when(allowed, text), F.lit(spark_type))
    shape = f"parts {_type_of_texts(with_entries(spark_type))}"
    texts = F.from_json(F.concat(F.lit('{"parts":'), plain, F.lit("}")), shape)["parts"]
    return F.when(plain.isNotNull() & ~_any_is_wrong(texts, spark_type), _value_of_parts(texts, spark_type))


def _type_of_texts(spark_type: str) -> str:
    found = structure_of(spark_type)
    if found is None:
        return "string"
    parts = {name: _type_of_texts(part) for name, part in found.parts.items()}
    inner = ",".join(f"{name}:{part}" for name, part in parts.items())
    return f"struct<{inner}>" if found.kind == "struct" else f"array<{parts['item']}>"


def _value_of_parts(texts: Column, spark_type: str) -> Column:
    found = structure_of(spark_type)
    if found is None:
        return parsed(texts, spark_type)
    if found.kind == "array":
        return F.transform(texts, lambda item: _value_of_parts(item, found.parts["item"]))
    if found.kind == "map":
        part = found.parts[VALUE]
        entries = F.transform(
            texts, lambda each: F.struct(each[KEY].alias(KEY), _value_of_parts(each[VALUE], part).alias(VALUE))
        )
        return F.map_from_entries(entries)
    fields = [_value_of_parts(texts[name], part).alias(name) for name, part in found.parts.items()]
    return F.when(texts.isNotNull(), F.struct(*fields))


def _any_is_wrong(texts: Column, spark_type: str) -> Column:
    found = structure_of(spark_type)
    if found is None:
        return texts.isNotNull() & parsed(texts, spark_type).isNull()
    if found.kind == "struct":
        return reduce(or_, (_any_is_wrong(texts[name], part) for name, part in found.parts.items()))
    (part,) = found.parts.values()
    wrong = F.exists(texts, lambda each: _any_is_wrong(each[VALUE] if found.kind == "map" else each, part))
    return F.coalesce(wrong, F.lit(False))


def all_well_written(source: Source) -> Column:
    typed = source.parsed_columns
    together = F.concat_ws(_BETWEEN, *(F.coalesce(F.col(name), F.lit("")) for name in typed))
    return together.rlike(f"^{_BETWEEN.join(f'({landed_pattern(source.type_of(name))})?' for name in typed)}$")


def canonical(value: Column, spark_type: str) -> Column:
    found = structure_of(spark_type)
    if found and found.kind == "struct":
        named = (F.concat(F.lit(f'"{name}":'), _item_text(value[name], part)) for name, part in found.parts.items())
        return F.when(value.isNotNull(), F.concat(F.lit("{"), F.concat_ws(",", *named), F.lit("}")))
    if found and found.kind == "map":

        def entry(each: Column) -> Column:
            return F.concat(_item_text(each[KEY], "string"), F.lit(":"), _item_text(each[VALUE], found.parts[VALUE]))

        # Sorted as entries: a lambda of Spark cannot call a Python function to look up each key.
        entries = F.transform(F.array_sort(F.map_entries(value), _by_key), entry)
        return F.concat(F.lit("{"), F.array_join(entries, ","), F.lit("}"))
    if item := item_of(spark_type):
        return F.concat(
            F.lit("["), F.array_join(F.transform(value, lambda each: _item_text(each, item)), ","), F.lit("]")
        )
    if spark_type in BINARY:
        return F.when(value.isNotNull(), F.xxhash64(value).cast("string"))
    return (F.unix_micros(value) if spark_type == "timestamp" else value).cast("string")


def _by_key(one: Column, other: Column) -> Column:
    return F.when(one[KEY] < other[KEY], -1).when(one[KEY] > other[KEY], 1).otherwise(0)


def _item_text(value: Column, spark_type: str) -> Column:
    text = canonical(value, spark_type)
    if spark_type == "string":
        escaped = F.replace(F.replace(text, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
        text = F.concat(F.lit('"'), escaped, F.lit('"'))
    return F.coalesce(text, F.lit("null"))


def canonical_text(text: Column, spark_type: str, well_written: Column | None = None) -> Column:
    if spark_type == "string":
        return text
    return F.coalesce(canonical(parsed(text, spark_type, well_written), spark_type), text)


def landed_text(value: Column, spark_type: str) -> Column:
    return (
        F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'") if spark_type == "timestamp" else value.cast("string")
    )


def key_value(source: Source, name: str) -> Column:
    spark_type = source.type_of(name)
    text = landed_text(parsed(F.col(name), spark_type), spark_type)
    return F.regexp_replace(text, "[.]?0*Z$", "Z") if spark_type == "timestamp" else text


def key_text(source: Source, name: str) -> Column:
    return F.col(name) if source.type_of(name) == "string" else F.coalesce(key_value(source, name), F.col(name))


def content_hash_of_text(source: Source, well_written: Column | None = None) -> Column:
    looked_at = dict.fromkeys(source.parsed_columns, well_written)
    return _content_hash(source, lambda name: canonical_text(F.col(name), source.type_of(name), looked_at.get(name)))


def content_hash_of_values(source: Source) -> Column:
    return _content_hash(source, lambda name: canonical(F.col(name), source.type_of(name)))


def raw_content_hash(source: Source, well_written: Column | None = None) -> Column:
    unparsed = F.col("unparsed_line")
    return F.when(unparsed.isNotNull(), F.xxhash64(unparsed)).otherwise(content_hash_of_text(source, well_written))


def content_hash_as_before(source: Source) -> Column:
    def text(name: str) -> Column:
        landed, kind = F.col(name), source.type_of(name)
        read = canonical_text(landed, kind)
        return F.when(landed.rlike(_BEFORE), read).otherwise(landed) if kind == "timestamp" else read

    unparsed = F.col("unparsed_line")
    return F.when(unparsed.isNotNull(), F.xxhash64(unparsed)).otherwise(_content_hash(source, text))


def in_newer_form(source: Source) -> Column:
    moments = [name for name in source.columns if source.type_of(name) == "timestamp"]
    return reduce(or_, (~_as_before(F.col(name)) for name in moments), F.lit(False))


def _as_before(text: Column) -> Column:
    plainly = F.endswith(text, F.lit("Z")) & (F.length(text) <= _LONGEST_BEFORE)
    return F.coalesce(plainly | text.rlike(_BEFORE), F.lit(True))


def sum_of_hashes(hashes: Column) -> Column:
    """decimal(38,0); 0 for no rows."""
    found = _whole_hash(F.sum(_high_half(hashes)), F.sum(_low_half(hashes)))
    return F.coalesce(found, F.lit(0).cast("decimal(38,0)"))


def _high_half(hash_: Column) -> Column:
    """Summing bigint halves is faster than Spark's decimal sum."""
    return F.shiftright(hash_, 32)


def _low_half(hash_: Column) -> Column:
    """Never negative. Sums overflow beyond two thousand million rows."""
    return hash_.bitwiseAND(F.lit(0xFFFFFFFF))


def _whole_hash(high: Column, low: Column) -> Column:
    shifted = high.cast("decimal(20,0)") * F.lit(2**32).cast("decimal(10,0)")
    return (shifted + low.cast("decimal(20,0)")).cast("decimal(38,0)")


def _content_hash(source: Source, text: Callable[[str], Column]) -> Column:
    # Spark's XXH64 skips nulls; the name in front makes two fields that swap their values differ.
    return F.xxhash64(*[F.concat(F.lit(f"{name}="), text(name)) for name in source.columns])
