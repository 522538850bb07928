"""Maps as sorted entries: engines compare and hash them as built, and Spark hashes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.model.of_duckdb import of_duckdb

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir


def has_map(kind: Any) -> bool:
    if kind.typeName() == "struct":
        return any(has_map(field.dataType) for field in kind.fields)
    return bool(kind.typeName() == "map" or (kind.typeName() == "array" and has_map(kind.elementType)))


def in_key_order(value: Column, kind: Any) -> Column:
    """Entries replace maps at any depth."""
    if not has_map(kind):
        return value
    if kind.typeName() == "array":
        return F.transform(value, lambda item: in_key_order(item, kind.elementType))
    if kind.typeName() == "struct":
        fields = [in_key_order(value[each.name], each.dataType).alias(each.name) for each in kind.fields]
        return F.when(value.isNotNull(), F.struct(*fields))

    def entry(key: Column) -> Column:
        own = in_key_order(F.element_at(value, key), kind.valueType)
        return F.struct(key.alias("key"), own.alias("value"))

    return F.transform(F.array_sort(F.map_keys(value)), entry)


def entries_in_key_order(value: ir.Value, kind: dt.DataType) -> ir.Value:
    import ibis

    if not _has_map(kind):
        return value
    if kind.is_array():
        return cast("ir.ArrayValue", value).map(lambda item: entries_in_key_order(item, kind.value_type))
    if kind.is_struct():
        parts = {name: entries_in_key_order(cast("ir.StructValue", value)[name], each) for name, each in kind.items()}
        return cast("ir.Value", value.notnull().ifelse(ibis.struct(parts), None))
    pair = f"array<struct<key: {kind.key_type}, value: {kind.value_type}>>"
    entries = of_duckdb("list_sort", pair, of_duckdb("map_entries", pair, value))
    if not _has_map(kind.value_type):
        return entries

    def entry(each: ir.StructValue) -> ir.StructValue:
        return ibis.struct({"key": each["key"], "value": entries_in_key_order(each["value"], kind.value_type)})

    return cast("ir.ArrayValue", entries).map(entry)


def _has_map(kind: dt.DataType) -> bool:
    if kind.is_struct():
        return any(map(_has_map, kind.types))
    return bool(kind.is_map() or (kind.is_array() and _has_map(kind.value_type)))
