"""The tables of ``docs/reference/rules.md``, as they are declared: ``make pins`` writes them, a test compares them.

The expressions that carry out rules are in DuckDB's SQL.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from pyspark.sql import types as T

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.measure import query
from backfill_assets.model import rules
from backfill_assets.model.checks import KINDS
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import EXAMPLE, Aggregates, DayRule, Layer, Source, Table
from backfill_assets.quality.gates import DIMENSIONS, KEYS, gates_of
from backfill_assets.quality.measures import numbers

LAYERS: tuple[Layer, ...] = tuple(each for each in get_args(Layer) if each != "external")
HEADINGS = dict(zip(LAYERS, ("Raw", "Bronze", "Quarantine", "Facts", "Reports"), strict=True))
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "rules.md"
NONE = "-"
CHECKS, MEASURES = "## What the checks of a contract are", "## What rules measure, and by which expression"


def coverage() -> list[str]:
    """One line per table: the rules it has in each dimension."""
    head = [_row(["table", *DIMENSIONS]), _row(["---"] * (1 + len(DIMENSIONS)))]
    return head + [_row([f"`{table.name}`", *(_rules_in(table, name) for name in DIMENSIONS)]) for table in _tables()]


def thresholds(layer: Layer) -> list[str]:
    """One line per declared rule and threshold of the tables of ``layer``, with the tables that have just these."""
    declared = sorted(
        (table.rules.index(rule), _cells(rule), table.name)
        for table in _tables()
        for rule in table.rules
        if table.layer == layer
    )
    lines = [_row(["rule", "dimension", "threshold", "tables"]), _row(["---"] * 4)]
    grouped = groupby(sorted(declared, key=lambda each: (each[1][0], each)), key=lambda each: each[1])
    return lines + [_row([*cells, ", ".join(f"`{name}`" for *_, name in found)]) for cells, found in grouped]


def expressions_of_checks() -> list[str]:
    """One line per check of a contract: an example of it, and what is asked of a value."""
    return [_row(["check of a column", "what a value fulfils"]), _row(["---"] * 2), *map(_row, _of_checks())]


def expressions_of_rules() -> list[str]:
    """One line per rule, metric and expression, with the tables that have just these."""
    return [_row(["rule", "metric", "expression", "tables"]), _row(["---"] * 4), *map(_row, _of_rules())]


def without_rules() -> set[tuple[str, str]]:
    """Layer and dimension of which no table of the layer has a rule; tables of one layer must not differ in that."""
    return {(table.layer, name) for table in _tables() for name in DIMENSIONS if _rules_in(table, name) == NONE}


def is_rule(each: object) -> bool:
    return inspect.isclass(each) and issubclass(each, DayRule) and not inspect.isabstract(each)


def rule_classes() -> set[str]:
    """Those that a table can declare."""
    return {name for name, each in vars(rules).items() if is_rule(each) and each.__module__ == rules.__name__}


def _tables() -> list[Table]:
    return sorted(CATALOG.tables, key=lambda table: (LAYERS.index(table.layer), table.name))


def _rules_in(table: Table, dimension: str) -> str:
    return ", ".join(f"`{rule.name}`" for rule in gates_of(table) if rule.dimension == dimension) or NONE


def _cells(rule: DayRule) -> tuple[str, str, str]:
    kind = rule.dimension if rule.severity == "error" else f"{rule.dimension}, warning"
    return f"`{rule.name}`", kind, ", ".join(_thresholds(rule)) or "every row"


def _thresholds(rule: DayRule) -> Iterable[str]:
    for each in fields(rule):
        value = getattr(rule, each.name)
        if each.name != "severity" and value is not None and not isinstance(value, str | Source):
            yield f"`{each.name}` {value:,}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


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


def _of_checks() -> list[tuple[str, str]]:
    """By check of a contract, what a value fulfils."""
    found = [("not `nullable`", "`number IS NOT NULL`")]
    for name in KINDS:
        column, asked = ASKED[name]
        (sql,) = _sql(Checked, {"kept": partial(_kept, name, column, asked)}).values()
        found.append((f"`{name}={asked!r}`", f"`{sql.removeprefix('COUNT(*) FILTER(WHERE ').removesuffix(')')}`"))
    return found


def _kept(check: str, column: str, asked: Any, rows: Any) -> Any:
    return rows.count(where=KINDS[check].of(rows, column, asked))


def _of_rules() -> list[tuple[str, str, str, str]]:
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


def write_tables(page: str) -> str:
    """``page`` with the tables that are declared in the place of those below its headings."""
    declared = {
        "## Which rules each table has": coverage(),
        **{f"### {HEADINGS[of]}": thresholds(of) for of in LAYERS},
        CHECKS: expressions_of_checks(),
        MEASURES: expressions_of_rules(),
    }
    for heading, lines in declared.items():
        before, after = page.split(f"\n{heading}\n", 1)
        text, _, rest = re.split(r"((?:^\|.*\n)+)", after, maxsplit=1, flags=re.MULTILINE)
        page = "\n".join([before, heading, text + "\n".join(lines), rest])
    return page


if __name__ == "__main__":
    PAGE.write_text(write_tables(PAGE.read_text()))
    none = ", ".join(f"{layer} {dimension}" for layer, dimension in sorted(without_rules()))
    print(f"{PAGE.name} has the rules that are declared. It says why there are none of: {none}.")
