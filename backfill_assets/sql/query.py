"""One ``SELECT`` on a DuckDB that sees only the tables it names: no file, network, or setting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_assets.errors import BackfillError, InvalidRequest, LakehouseUnusable
from backfill_assets.judge.engine import database, without_query
from backfill_assets.lakehouse.lost_file import file_lost
from backfill_assets.sql.moments import MAIN, Moments, dataset_in, no_table, said_of, schema_of, table_in
from backfill_assets.sql.references import Reference, references
from backfill_assets.state.view import View
from backfill_assets.text import suggest_or_list

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_ROWS_AT_ONCE = 100_000
_CLOSED = "SET python_enable_replacements = false; SET enable_external_access = false"
_NO_TABLE = re.compile(r"Table with name (?P<table>.+?) does not exist")
_MISSING = ("CatalogException", "BinderException", "ParserException", "SyntaxException")
_REFUSED = ("PermissionException",)
_OF_ROWS = ("ConversionException", "OutOfRangeException", "InvalidInputException", "TypeMismatchException")


@dataclass(frozen=True)
class SqlRows:
    """``rows`` are lazy; ``read``: what each schema was."""

    rows: pa.RecordBatchReader
    read: Mapping[str, str]


@contextmanager
def select(moments: Moments, query: str, *, as_of: str = "", on: str = "") -> Iterator[SqlRows]:
    """Names without schema are of main now, ``as_of`` a moment, or ``on`` a timeline.

    Raises :class:`InvalidRequest` unless it is one ``SELECT`` over known tables, :class:`LakehouseUnusable` if files
    are gone.
    """
    default = schema_of(as_of, on)
    with database() as connection:
        connection.execute(_CLOSED)
        asked = references(connection, query)
        views = _views(moments, asked.tables, default)
        _register(connection, views, asked.tables, default, all_of_it=asked.asks_for_all)
        connection.execute("SET lock_configuration = true")
        with _in_words(views, default):
            yield SqlRows(connection.execute(query).to_arrow_reader(_ROWS_AT_ONCE), said_of(views))


def _views(moments: Moments, tables: frozenset[Reference], default: str) -> dict[str, View]:
    schemas = dict.fromkeys([default, *(each.schema for each in sorted(tables) if each.schema)])
    named = {
        schema: [each.table for each in tables if (each.schema or default).lower() == schema.lower()]
        for schema in schemas
    }
    return {schema: moments.view(schema, named[schema]) for schema in schemas}


def _register(
    connection: DuckDBPyConnection,
    views: Mapping[str, View],
    tables: frozenset[Reference],
    default: str,
    *,
    all_of_it: bool,
) -> None:
    for schema in views:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)}")
    wanted = {(each.schema or default, each.table) for each in tables if _is_there(views, each, default)}
    if all_of_it:
        wanted |= {(default, table) for table in views[default].tables}
    made: set[tuple[str, str]] = set()
    for schema, typed in sorted(wanted):
        view = views[schema]
        table = table_in(view, typed) or typed
        if (schema.lower(), table) in made:
            continue
        made.add((schema.lower(), table))
        name = f"rows {len(made)}"
        connection.register(name, dataset_in(view, table))
        target = f"{_quoted(schema)}.{_quoted(table)}"
        connection.execute(f"CREATE VIEW {target} AS SELECT * FROM {_quoted(name)}")  # noqa: S608 - quoted
    connection.execute(f"USE {_quoted(default)}")


def _is_there(views: Mapping[str, View], named: Reference, default: str) -> bool:
    """Without a schema, it may be a common table expression."""
    view = views[named.schema or default]
    if table_in(view, named.table):
        return True
    if named.schema:
        raise no_table(view, named.table)
    return False


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


@contextmanager
def _in_words(views: Mapping[str, View], default: str) -> Iterator[None]:
    import duckdb
    import pyarrow as pa

    try:
        yield
    except BrokenPipeError:  # who reads the rows has enough of them
        raise
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        raise _worded(error, views, default) from error


def _worded(error: Exception, views: Mapping[str, View], default: str) -> BackfillError:
    if lost := file_lost(error):
        return _gone(lost.message, views)
    kind, said = type(error).__name__, without_query(error)
    missing = _NO_TABLE.search(said)
    if missing:
        return no_table(views[default], missing["table"])
    if kind in _REFUSED:
        return InvalidRequest(
            f"A query reads tables of the lakehouse, and no other file: {said}",
            hint=suggest_or_list("", views[default].tables, "Tables"),
        )
    if kind in _MISSING or kind in _OF_ROWS:
        return InvalidRequest(f"DuckDB: {said}", hint='DESCRIBE TABLE shows its columns: backfill sql "DESCRIBE TABLE"')
    return LakehouseUnusable(
        f"DuckDB: {said}", hint="Look at the disk and the memory of this machine, then run it again."
    )


def _gone(what: str, views: Mapping[str, View]) -> LakehouseUnusable:
    then: Sequence[str] = [view.name for view in views.values() if view.name != MAIN]
    if not then:
        return LakehouseUnusable(what, hint="backfill status says what helps.")
    return LakehouseUnusable(
        f"{what} It was read as of {' and '.join(then)}.",
        hint="Files that a later publication replaced are kept for the rollback window, then reclaimed. Name a newer "
        "moment: backfill history",
    )
