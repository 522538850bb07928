"""Landed structures; ``leaf`` converts by type."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, cast

from backfill_assets.model.landed_lists import list_text, quoted_text
from backfill_assets.model.landed_structures import KEY, PLAIN, VALUE, structure_of, with_entries
from backfill_assets.model.of_duckdb import of_duckdb

if TYPE_CHECKING:
    import ibis.expr.types as ir

Leaf = Callable[["ir.Value", str], "ir.Value"]


def type_of_parts(spark_type: str, leaf: Callable[[str], str]) -> str:
    found = structure_of(spark_type)
    if found is None:
        return leaf(spark_type)
    parts = {name: type_of_parts(part, leaf) for name, part in found.parts.items()}
    if found.kind == "struct":
        return f"struct<{', '.join(f'{name}: {part}' for name, part in parts.items())}>"
    return f"map<string, {parts[VALUE]}>" if found.kind == "map" else f"array<{parts['item']}>"


def texts_of_parts(text: ir.StringValue, spark_type: str) -> ir.Value:
    """Values as text, maps as entries; null for another shape."""
    import ibis

    plain = of_duckdb(PLAIN, "string", text, ibis.literal(spark_type))
    kind = type_of_parts(with_entries(spark_type), lambda _: "string")
    return cast("ir.Value", of_duckdb("json_transform", kind, plain, json.dumps(_shape(with_entries(spark_type)))))


def _shape(spark_type: str) -> Any:
    found = structure_of(spark_type)
    if found is None:
        return "VARCHAR"
    parts = {name: _shape(part) for name, part in found.parts.items()}
    return parts if found.kind == "struct" else [parts["item"]]


def value_of_parts(texts: ir.Value, spark_type: str, leaf: Leaf) -> ir.Value:
    import ibis

    found = structure_of(spark_type)
    if found is None:
        return leaf(texts, spark_type)
    if found.kind == "array":
        return _each(texts, lambda item: value_of_parts(item, found.parts["item"], leaf))
    if found.kind == "map":

        def entry(each: ir.StructValue) -> ir.Value:
            return ibis.struct({KEY: each[KEY], VALUE: value_of_parts(each[VALUE], found.parts[VALUE], leaf)})

        entries = _each(texts, entry)
        kind = f"map<string, {entries.type().value_type[VALUE]}>"
        return cast("ir.Value", of_duckdb("map_from_entries", kind, entries))
    of = cast("ir.StructValue", texts)
    fields = {name: value_of_parts(of[name], part, leaf) for name, part in found.parts.items()}
    return cast("ir.Value", texts.notnull().ifelse(ibis.struct(fields), None))


def any_is_wrong(texts: ir.Value, spark_type: str, leaf: Leaf) -> ir.BooleanValue:
    """Whether a part is no value; never null."""
    found = structure_of(spark_type)
    if found is None:
        return cast("ir.BooleanValue", texts.notnull() & leaf(texts, spark_type).isnull())
    if found.kind == "struct":
        of = cast("ir.StructValue", texts)
        return reduce(or_, (any_is_wrong(of[name], part, leaf) for name, part in found.parts.items()))
    (part,) = found.parts.values()

    def own(each: ir.Value) -> ir.BooleanValue:
        return any_is_wrong(cast("ir.StructValue", each)[VALUE] if found.kind == "map" else each, part, leaf)

    wrong = cast("ir.ArrayValue", texts).filter(own).length() > 0
    return cast("ir.BooleanValue", wrong.fill_null(False))


def text_of_parts(value: ir.Value, spark_type: str, leaf: Leaf) -> ir.StringValue:
    """A struct in declared order, a map by key; null for null."""
    import ibis

    found = structure_of(spark_type)
    if found is None:
        return cast("ir.StringValue", leaf(value, spark_type))
    if found.kind == "array":
        item = found.parts["item"]
        return list_text(
            cast("ir.ArrayValue", value), lambda each: text_of_parts(each, item, leaf), quoted=item == "string"
        )
    if found.kind == "struct":
        of = cast("ir.StructValue", value)
        named = (f'"{name}":' + _json(of[name], part, leaf) for name, part in found.parts.items())
        joined = reduce(lambda found, each: found + "," + each, named)
    else:
        part, kind = found.parts[VALUE], value.type()
        pairs = f"array<struct<{KEY}: string, {VALUE}: {kind.value_type}>>"
        entries = of_duckdb("list_sort", pairs, of_duckdb("map_entries", pairs, value))
        texts = _each(entries, lambda each: quoted_text(each[KEY]) + ":" + _json(each[VALUE], part, leaf))
        joined = ibis.coalesce(of_duckdb("array_to_string", "string", texts, ","), "")
    return cast("ir.StringValue", value.notnull().ifelse(ibis.literal("{") + joined + "}", None))


def _json(value: ir.Value, spark_type: str, leaf: Leaf) -> ir.StringValue:
    text = text_of_parts(value, spark_type, leaf)
    return cast("ir.StringValue", (quoted_text(text) if spark_type == "string" else text).fill_null("null"))


def _each(items: ir.Value, of: Callable[[Any], ir.Value]) -> ir.ArrayValue:
    return cast("ir.ArrayValue", items).map(of)
