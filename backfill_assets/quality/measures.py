from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from functools import cache, partial
from typing import TYPE_CHECKING

from backfill_assets.model.declaration import EXAMPLE, Aggregates, Metric, Metrics, Source, Table
from backfill_assets.model.deletion import DELETED, DELETED_HASHES, DELETED_MARKERS, DELETION, OF_DELETIONS
from backfill_assets.model.drift import FIELDS, NOT_AS_DECLARED, together
from backfill_assets.model.measure import (
    RowHash,
    count_different,
    count_not_as_declared,
    exact_sum,
    first_breach,
    is_unsound,
    least,
    unbelieved_day,
)
from backfill_assets.model.placement import AHEAD_OF_ARRIVAL, ON_ARRIVAL_DAY
from backfill_assets.model.rules import ContentIntact
from backfill_assets.quality.gates import KEYS, VIOLATING

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from backfill_assets.model.contract import Contract


@cache
def numbers(table: Table) -> Aggregates:
    first_reason: Aggregates = {f"rejected{EXAMPLE}": lambda rows: least(rows.reasons[0])}
    keys: Aggregates = {KEYS: lambda rows: count_different(rows, table.key)}
    return {
        "rows": lambda rows: rows.count(),
        "checksum": RowHash(table.contract),
        VIOLATING: lambda rows: rows.count(where=is_unsound(table.contract, rows)),
        **{f"total_{name}": partial(_total, name, table.contract.fields()[name].digits) for name in table.totals},
        **{name: made for name, made in _of_rules(table).items() if not name.endswith(EXAMPLE)},
        **(first_reason if table.layer == "quarantine" else {}),
        **(keys if table.key else {}),
    }


@cache
def examples(table: Table) -> Aggregates:
    """Measured where their metric is not 0."""
    of_rules = {name: made for name, made in _of_rules(table).items() if name.endswith(EXAMPLE)}
    return {f"{VIOLATING}{EXAMPLE}": lambda rows: least(first_breach(table.contract, rows)), **of_rules}


def shows_examples(metrics: Metrics, table: Table) -> bool:
    return any(metrics[name.removesuffix(EXAMPLE)] != 0 for name in examples(table))


def complete(metrics: Metrics, table: Table) -> Metrics:
    """In recorded order, with zeros for missing ones; days without deletions are as before they existed."""
    has_deletions = metrics.get(DELETED) or metrics.get(DELETED_MARKERS)
    left_out = () if has_deletions else OF_DELETIONS
    found = {**zero_metrics(table), **metrics}
    return {name: found[name] for name in _names(table) if name in found and name not in left_out}


def compared_metrics(table: Table) -> tuple[str, ...]:
    return (*(f"total_{name}" for name in table.totals), *(name for rule in table.rules for name in rule.compared))


def zero_metrics(table: Table) -> Metrics:
    names = (name for name in _names(table) if name not in OF_DELETIONS)
    return {name: "" if name.endswith(EXAMPLE) else 0 for name in names}


def as_metrics(measured: Mapping[str, object]) -> Metrics:
    return {name: _plain(value) for name, value in measured.items() if name != "day"}


def add_up(days: Sequence[Metrics]) -> dict[str, int | str | None]:
    """Exact sums, the first example. Key counts add up only if no key is on two days. Numbers that one day lacks are
    None.
    """
    names = dict.fromkeys(name for day in days for name in day)
    absent = dict.fromkeys(OF_DELETIONS, 0)
    return {name: _together(name, [day.get(name, absent.get(name)) for day in days]) for name in names}


def _names(table: Table) -> tuple[str, ...]:
    return (*numbers(table), *examples(table), *([FIELDS] if table.typed else []))


def _total(name: str, digits: int | None, rows: ir.Table) -> ir.Scalar:
    return exact_sum(rows[name], digits=digits)


def _of_rules(table: Table) -> Aggregates:
    source = source_of(table)
    return {**table.measured, **(_of_raw(source, table.typed) if source else {})}


def source_of(table: Table) -> Source | None:
    rules = (rule for rule in table.rules if isinstance(rule, ContentIntact) and table.layer == "raw")
    return next((rule.source for rule in rules), None)


def _of_raw(source: Source, typed: type[Contract] | None) -> Aggregates:
    """Deletions without a file cancel markers, which were not received."""
    declared: Aggregates = {NOT_AS_DECLARED: partial(count_not_as_declared, source, typed)} if typed else {}
    return {
        **declared,
        ON_ARRIVAL_DAY: lambda rows: unbelieved_day(source, rows).count(),
        AHEAD_OF_ARRIVAL: lambda rows: rows.count(where=rows.day > rows.arrival_day),
        f"{ON_ARRIVAL_DAY}{EXAMPLE}": lambda rows: least(unbelieved_day(source, rows)),
        DELETED: lambda rows: rows.count(where=_deletes_row(rows)),
        DELETED_HASHES: lambda rows: exact_sum(rows.content_hash, _deletes_row(rows)),
        DELETED_MARKERS: lambda rows: rows.count(where=(rows.record_kind == DELETION) & rows.source_file.isnull()),
    }


def _deletes_row(rows: ir.Table) -> ir.BooleanValue:
    return (rows.record_kind == DELETION) & rows.source_file.notnull()


def _plain(value: object) -> Metric:
    if value is None or isinstance(value, int | str):
        return value
    if not isinstance(value, Decimal):
        raise TypeError(f"Metrics are numbers and text, not {type(value).__name__}.")
    return int(value) if _is_whole(value) else str(value)


def _is_whole(value: Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0


def _together(name: str, values: Sequence[Metric]) -> int | str | None:
    if name == FIELDS:
        return together(values)
    if name.endswith(EXAMPLE):
        return next((str(value) for value in values if value), "")
    if any(value is None for value in values):
        return None
    if all(isinstance(value, int) for value in values):
        return sum(int(str(value)) for value in values)
    with localcontext() as exact:
        exact.prec = 100
        return str(sum((Decimal(str(value)) for value in values), Decimal(0)))
