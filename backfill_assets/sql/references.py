"""The tables that a query names, by DuckDB's parser: nothing is opened, bound or run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_OF_DUCKDB = ("information_schema", "pg_catalog")
_SHOWN = ('"tables"', '"databases"', '"schemas"')
_ONE_SELECT = "backfill sql takes one SELECT, and only reads"


@dataclass(frozen=True, order=True)
class Reference:
    """A name as typed; a missing schema is empty."""

    schema: str
    table: str


@dataclass(frozen=True)
class QueryTables:
    tables: frozenset[Reference]
    asks_for_all: bool
    """Whether it reads DuckDB's catalog."""


def references(connection: DuckDBPyConnection, query: str) -> QueryTables:
    """Raises :class:`InvalidRequest` unless it is one ``SELECT``. Includes names of common table expressions."""
    doubled = query.replace("'", "''")
    # A query with parameters imports pandas.
    (text,) = connection.execute(f"SELECT json_serialize_sql('{doubled}')").fetchall()[0]
    found = json.loads(text)
    if found["error"]:
        raise _refused(found)
    statements = found["statements"]
    if len(statements) != 1:
        count = f"{len(statements)} statements" if statements else "nothing"
        raise InvalidRequest(f"{_ONE_SELECT}: this is {count}.", hint="Run them one by one, or join them by WITH.")
    named = list(_nodes(statements[0]))
    if any(each["type"] == "SHOW_REF" and each["table_name"] in _SHOWN for each in named):
        raise InvalidRequest("SHOW lists what DuckDB has.", hint="backfill sql, without a query, lists the tables.")
    tables = [each for each in named if each["type"] == "BASE_TABLE"]
    own = [each for each in tables if each["schema_name"] not in _OF_DUCKDB]
    return QueryTables(
        frozenset(Reference(each["schema_name"], each["table_name"]) for each in own),
        asks_for_all=len(own) < len(tables),
    )


def _refused(found: dict[str, Any]) -> InvalidRequest:
    if found["error_type"] == "parser":
        at = f" (character {int(found['position']) + 1})" if found.get("position") else ""
        return InvalidRequest(f"DuckDB cannot read the query: {found['error_message']}{at}.", hint="Correct it there.")
    return InvalidRequest(
        f"{_ONE_SELECT}.",
        hint="Rows come in by backfill run, and leave with a FILE: backfill sql QUERY rows.parquet. A PIVOT names its "
        "values: PIVOT t ON c IN (...).",
    )


def _nodes(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        if found.get("type") in ("BASE_TABLE", "SHOW_REF"):
            yield found
        for each in found.values():
            yield from _nodes(each)
    elif isinstance(found, list):
        for each in found:
            yield from _nodes(each)
