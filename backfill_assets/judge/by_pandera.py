from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from backfill_assets.judge.engine import DayFiles, engine, of_days, rows_of_files, stored
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.checks import pandera_schema
from backfill_assets.model.contract import Contract
from backfill_assets.model.declaration import GateFinding, RuleOutcome, Table
from backfill_assets.model.measure import breaches, is_unsound
from backfill_assets.quality.gates import ContractHolds

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

MOST_EXAMPLES = 5
_MOST_DAYS, _ROWS_OF_A_CHECK = 3, 20
"""Pandera keeps failing rows in memory."""
AGREES = "pandera_agrees"
Outcomes = Mapping[date, Sequence[RuleOutcome]]


def with_reports(
    storage: Storage, table: Table, outcomes: Outcomes, files: Callable[[], DayFiles]
) -> dict[date, tuple[RuleOutcome, ...]]:
    found = {day: tuple(rules) for day, rules in outcomes.items()}
    broken = [day for day, rules in sorted(found.items()) if any(map(_is_broken_contract, rules))][:_MOST_DAYS]
    for day in broken:
        said = pandera_report(storage, table, of_days(files(), [day]))
        found[day] = tuple(replace(each, details=said) if _is_broken_contract(each) else each for each in found[day])
    return found


def pandera_report(storage: Storage, table: Table, files: DayFiles) -> tuple[str, ...]:
    return _said(storage, table, files, partial(_some_broken, table.contract))


def second_opinion(storage: Storage, table: Table, files: DayFiles, violating: int) -> GateFinding:
    said = pandera_report(storage, table, files) if violating else _said(storage, table, files, lambda rows: rows)
    return GateFinding(
        bool(said) == bool(violating),
        observed=f"pandera: {'; '.join(said) or 'every row fulfils the contract'}",
        expected=f"what the judge's query says: {violating} rows break the contract",
        next_step="One of both is wrong. Look at these values, and report it: the data need not be built again.",
    )


def _some_broken(contract: type[Contract], rows: ir.Table) -> ir.Table:
    import ibis

    broken = stored(rows.filter(is_unsound(contract, rows)))
    return ibis.union(*(broken.filter(found).limit(_ROWS_OF_A_CHECK) for *_, found in breaches(contract, broken)))


def _is_broken_contract(rule: RuleOutcome) -> bool:
    return rule.rule == ContractHolds.name_format and not rule.passed


def _said(storage: Storage, table: Table, files: DayFiles, choose: Callable[[ir.Table], ir.Table]) -> tuple[str, ...]:
    with engine() as connection:
        # Pandera joins values and verdicts by position.
        connection.raw_sql("SET preserve_insertion_order = true")
        return _breaches(table.contract, stored(choose(rows_of_files(connection, storage, table.contract, files))))


def said_of(contract: type[Contract], rows: pa.Table) -> tuple[str, ...]:
    with engine() as connection:
        connection.raw_sql("SET preserve_insertion_order = true")
        connection.con.register("some_rows", rows)
        return _breaches(contract, stored(connection.table("some_rows")))


def _breaches(contract: type[Contract], rows: ir.Table) -> tuple[str, ...]:
    from pandera.errors import SchemaErrors

    if not rows.count().to_pyarrow().as_py():
        return ()  # pandera fails every check of an empty table
    try:
        pandera_schema(contract, MOST_EXAMPLES).validate(rows, lazy=True)
    except SchemaErrors as errors:
        return tuple(map(_line, errors.schema_errors))
    return ()


def _line(error: Any) -> str:
    check, cases = getattr(error.check, "error", error.check), getattr(error.failure_cases, "failure_case", ())
    values = {str(value) for case in cases for value in (case.values() if isinstance(case, dict) else [case])}
    return f"{error.schema.name}: {check}" + (f", for example {', '.join(sorted(values))}" if values else "")
