"""Which tables a query names, without opening one; and what is no single SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.sql.references import Reference, references

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

pytestmark = pytest.mark.protocol


@pytest.fixture(scope="module")
def connection() -> Iterator[DuckDBPyConnection]:
    import duckdb

    with duckdb.connect(config={"enable_external_access": False}) as found:
        yield found


NAMED: Mapping[str, set[tuple[str, str]]] = {
    "SELECT 'it''s' AS a -- from nothing": set(),
    "FROM fact": {("", "fact")},
    'SELECT * FROM main.fact JOIN "as of 2017-05-01".fact USING (day)': {
        ("main", "fact"),
        ("as of 2017-05-01", "fact"),
    },
    "SELECT (SELECT max(a) FROM one) WHERE EXISTS (FROM two)": {("", "one"), ("", "two")},
    "WITH found AS (FROM one) FROM found": {("", "one"), ("", "found")},
    "FROM 'a.parquet'": {("", "a.parquet")},
    "DESCRIBE fact": {("", "fact")},
    "SELECT * FROM fact;": {("", "fact")},
}


@pytest.mark.parametrize("query", NAMED)
def test_tables_are_found_wherever_they_are_named(query: str, connection: DuckDBPyConnection) -> None:
    assert references(connection, query).tables == {Reference(*each) for each in NAMED[query]}


def test_duckdbs_own_lists_need_all_tables(connection: DuckDBPyConnection) -> None:
    found = references(connection, "SELECT table_name FROM information_schema.tables")
    assert found.asks_for_all and not found.tables


REFUSED: Mapping[str, str] = {
    "": "this is nothing",
    "SELECT 1; SELECT 2": "this is 2 statements",
    "SELEC 1": r"syntax error at or near \"SELEC\" \(character 1\)",
    "INSERT INTO fact VALUES (1)": "takes one SELECT, and only reads",
    "COPY fact TO 'fact.csv'": "takes one SELECT, and only reads",
    "ATTACH 'other.db'": "takes one SELECT, and only reads",
    "SET threads = 1": "takes one SELECT, and only reads",
    "DROP TABLE fact": "takes one SELECT, and only reads",
    "SHOW TABLES": "backfill sql, without a query",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_no_single_select_is_refused_with_what_to_do(query: str, connection: DuckDBPyConnection) -> None:
    with pytest.raises(InvalidRequest, match=REFUSED[query]) as refused:
        references(connection, query)
    assert refused.value.hint
