"""Which columns a column is computed from: by its name in what the step reads, or as the table declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import types as T

from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import Step, Table


@dataclass(frozen=True)
class ColumnOf:
    """A column of a table."""

    table: str
    column: str


def column_lineage(step: Step, table: Table, table_named: Callable[[str], Table]) -> Mapping[str, tuple[ColumnOf, ...]]:
    """The columns that each column of ``table`` comes from, in the current version; raw tables come from files.

    A column that is carried has its name upstream, in the first table read that knows it; the others are declared in
    ``table.made_of``. A dataset is refused for a column that is neither.
    """
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
    """The columns of ``table`` that are never shown to people: tokens, and text that is made of them.

    ``step_named`` finds the step of a table. Counts and sums of personal columns say nothing of one person.
    """
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
