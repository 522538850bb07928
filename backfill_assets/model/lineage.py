from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import types as T

from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import Step, Table


@dataclass(frozen=True)
class ColumnOf:
    table: str
    column: str


def column_lineage(step: Step, table: Table, table_named: Callable[[str], Table]) -> Mapping[str, tuple[ColumnOf, ...]]:
    """In the current version: the first table read with the name, or ``table.made_of``. Raw has none."""
    if step.source is not None:
        return {}
    upstream = {read.table: columns_of(table_named(read.table)) for read in step.version().reads}
    carried = {column: ColumnOf(name, column) for name in reversed(upstream) for column in upstream[name]}
    return {
        column: tuple(ColumnOf(*text.split(".")) for text in table.made_of[column])
        if column in table.made_of
        else (carried[column],)
        for column in columns_of(table)
    }


def columns_of(table: Table) -> tuple[str, ...]:
    return tuple(table.contract.fields())


# ------------------------------------------------------------------ columns that hold something of a person

_KEPT_TEXT = ("rescued", "unparsed_line")
_NUMBERS = (T.NumericType, T.BooleanType, T.DateType)


def personal_columns(table: str, step_named: Callable[[str], Step]) -> frozenset[str]:
    """Never shown: tokens and text made of them."""
    step = step_named(table)
    found = next(each for each in step.tables if each.name == table)
    if step.external is not None:
        return frozenset(step.external.personal)
    if step.source is not None:
        return (
            frozenset((*personal.values(), *_KEPT_TEXT)) if (personal := step.source.personal_fields) else frozenset()
        )
    lineage = column_lineage(step, found, lambda name: _table(step_named(name), name))
    upstream = {name: personal_columns(name, step_named) for name in {at.table for of in lineage.values() for at in of}}
    text = {field.name for field in struct_type(found.contract).fields if not isinstance(field.dataType, _NUMBERS)}
    return frozenset(
        column
        for column, origins in lineage.items()
        if column in text and any(at.column in upstream[at.table] for at in origins)
    )


def _table(step: Step, name: str) -> Table:
    return next(table for table in step.tables if table.name == name)
