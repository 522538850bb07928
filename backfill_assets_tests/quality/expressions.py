"""The expressions that carry out rules, in DuckDB's SQL, for the tables of ``docs/reference/rules.md``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import types as T

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.measure import query
from backfill_assets.model.checks import KINDS
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import EXAMPLE, Aggregates, Table
from backfill_assets.quality.gates import KEYS, gates_of
from backfill_assets.quality.measures import numbers


class Checked(Contract):
    """Columns for examples of checks."""

    text: T.StringType = Field()
    number: T.LongType = Field()
    day: T.DateType = Field()


ASKED: Mapping[str, tuple[str, Any]] = {
    **dict.fromkeys(("eq", "ne", "gt", "ge", "lt", "le"), ("number", 1)),
    "in_range": ("number", {"min_value": 1, "max_value": 9}),
    "isin": ("text", ["a", "b"]),
    "notin": ("text", ["a", "b"]),
    "str_matches": ("text", "^[A-Z]{3}$"),
    "str_length": ("text", {"min_value": 1, "max_value": 9}),
}
"""An example of each check."""


def of_checks() -> list[tuple[str, str]]:
    """By check of a contract, what a value fulfils."""
    found = [("not `nullable`", "`number IS NOT NULL`")]
    for name in KINDS:
        column, asked = ASKED[name]
        (sql,) = _sql(Checked, {"kept": partial(_kept, name, column, asked)}).values()
        found.append((f"`{name}={asked!r}`", f"`{sql.removeprefix('COUNT(*) FILTER(WHERE ').removesuffix(')')}`"))
    return found


def _kept(check: str, column: str, asked: Any, rows: Any) -> Any:
    return rows.count(where=KINDS[check].of(rows, column, asked))


def of_rules() -> list[tuple[str, str, str, str]]:
    """By rule and metric the expression, and the tables that have just this one."""
    tables = defaultdict[tuple[str, str, str], list[str]](list)
    for table in CATALOG.tables:
        for rule, metrics in _by_rule(table).items():
            for metric, sql in _sql(table.contract, metrics).items():
                tables[f"`{rule}`", f"`{metric}`", f"`{sql}`"].append(f"`{table.name}`")
    return [(*key, ", ".join(names)) for key, names in sorted(tables.items())]


def _by_rule(table: Table) -> Mapping[str, Aggregates]:
    """What each rule of ``table`` measures, but for the content hash that every row has; and its key."""
    found = {rule.name: rule.measure() for rule in gates_of(table)}
    found["keys_unique"] = {name: made for name, made in numbers(table).items() if name == KEYS}
    return {
        rule: {name: made for name, made in metrics.items() if not name.endswith(EXAMPLE)}
        for rule, metrics in found.items()
        if metrics
    }


def _sql(contract: type[Contract], metrics: Aggregates) -> dict[str, str]:
    import sqlglot

    asked = sqlglot.parse_one(query(contract, metrics), read="duckdb")
    columns = {each.alias: each.this for each in asked.expressions if each.alias in metrics}
    return {name: _one_line(each) for name, each in columns.items()}


def _one_line(expression: Any) -> str:
    """Without the fingerprint in the name of a hash, which says by which columns it is made."""
    written = expression.sql(dialect="duckdb").replace('"t0".', "").replace('"', "")
    return re.sub(r"(_hash)_[0-9a-f]{8}", r"\1", " ".join(written.split()).replace("|", "\\|"))
