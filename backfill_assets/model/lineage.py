"""Which columns a column is computed from: by its name in what the step reads, or as the table declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import Step, Table


@dataclass(frozen=True)
class ColumnOf:
    """A column of a table."""

    table: str
    column: str


def column_lineage(step: Step, table: Table, table_named: Callable[[str], Table]) -> Mapping[str, tuple[ColumnOf, ...]]:
    """The columns that each column of ``table`` comes from, in the current version; raw tables come from files.

    A column that is carried has its name upstream, in the first table read that knows it; the others are declared in
    ``table.made_of``. Raises :class:`InvalidRequest` for a column that is neither.
    """
    if step.source is not None:
        return {}
    upstream = {read.table: set(columns_of(table_named(read.table))) for read in step.version().reads}
    return {column: _origins(table, column, upstream) for column in columns_of(table)}


def columns_of(table: Table) -> tuple[str, ...]:
    return tuple(table.contract.fields())


def _origins(table: Table, column: str, upstream: Mapping[str, set[str]]) -> tuple[ColumnOf, ...]:
    declared = table.made_of.get(column)
    if declared is not None:
        return tuple(_known(table, text, upstream) for text in declared)
    carried = next((ColumnOf(name, column) for name, columns in upstream.items() if column in columns), None)
    if carried is None:
        raise InvalidRequest(
            f"It is not known what {table.name}.{column} is made of.",
            hint=f'Declare it in the table\'s made_of, for example {{"{column}": ("table.column",)}}.',
        )
    return (carried,)


def _known(table: Table, text: str, upstream: Mapping[str, set[str]]) -> ColumnOf:
    name, _, column = text.partition(".")
    if column not in upstream.get(name, ()):
        raise InvalidRequest(f"{table.name} declares {text}, which is no column of what it reads.")
    return ColumnOf(name, column)
