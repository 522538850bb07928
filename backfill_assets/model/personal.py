"""Which columns hold something of a person: the tokens of personal fields, and text that may still name them."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import types as T

from backfill_assets.model.contract_columns import struct_type
from backfill_assets.model.declaration import Source, Step, Table
from backfill_assets.model.lineage import column_lineage

_KEPT_TEXT = ("rescued", "unparsed_line")
_NUMBERS = (T.NumericType, T.BooleanType, T.DateType)


def personal_columns(table: str, step_named: Callable[[str], Step]) -> frozenset[str]:
    """The columns of ``table`` that are never shown to people: tokens, and text that is made of them.

    ``step_named`` finds the step of a table. Counts and sums of personal columns say nothing of one person.
    """
    step = step_named(table)
    found = next(each for each in step.tables if each.name == table)
    if step.source is not None:
        return _personal_in(step.source)
    lineage = column_lineage(step, found, lambda name: _table(step_named(name), name))
    upstream = {name: personal_columns(name, step_named) for name in {at.table for of in lineage.values() for at in of}}
    text = {field.name for field in struct_type(found.contract).fields if not isinstance(field.dataType, _NUMBERS)}
    return frozenset(
        column
        for column, origins in lineage.items()
        if column in text and any(at.column in upstream[at.table] for at in origins)
    )


def _personal_in(source: Source) -> frozenset[str]:
    return frozenset((*source.personal_fields.values(), *_KEPT_TEXT)) if source.personal_fields else frozenset()


def _table(step: Step, name: str) -> Table:
    return next(table for table in step.tables if table.name == name)
