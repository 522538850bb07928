"""Compares a table's rows on two sides, exactly, on disk.

Equal is ``IS NOT DISTINCT FROM`` at any depth: null equals null, NaN NaN, 0.0 -0.0.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from itertools import product
from operator import and_
from typing import TYPE_CHECKING, Any, cast

from backfill_assets.judge.engine import DAY, quoted, stored
from backfill_assets.lakehouse.arrow_dataset import python_rows
from backfill_assets.model.declaration import Table
from backfill_assets.model.doubles import decimal_of, units_of
from backfill_assets.model.maps import entries_in_key_order
from backfill_assets.model.measure import RowHash

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

SIDES = ("before", "after")
TOGETHER = "values of a row that are other ones together"
"""A difference in combinations of columns."""
_NUMBER = "its number"
_MOST_DIGITS = 38
_BINARY = re.compile("float|double")

Lines = dict[str | None, dict[str, Any]]
"""By day or group: rows ``before``, ``after``, on both sides (``kept``), equal (``same``); sums ``before NAME`` and
``after NAME``.
"""


def compare_rows(table: Table, before: ir.Table, after: ir.Table) -> dict[str, Lines]:
    """By day and by each of ``table.groups``. Rows are matched by day and key, without a unique one as multisets. Equal
    stored hashes, if all have them, are equal rows.
    """
    names, hashed = list(table.contract.fields()), RowHash(table.contract).name
    has_hashes = all(hashed in side.columns for side in (before, after))
    counts = [_counts(side, hashed if has_hashes else DAY) for side in (before, after)]
    before, after = (_as_counted(table, side) for side in (before, after))
    whole = before.select(names), after.select(names)
    if table.key:
        if has_hashes and all(rows == hashes for rows, hashes in counts):
            cells = stored(_cells(table, _joined(before, after, _key(table)), [hashed]))
        else:
            cells = stored(_cells(table, _joined(*whole, _key(table)), names))
        (joined,) = _asked(cells, *(f'coalesce(sum("rows {side}"), 0)::BIGINT AS {side}' for side in SIDES))
        # A key that repeats gives more joined rows than there are rows.
        if list(joined.values()) == [rows for rows, _ in counts]:
            return _by_day_and_group(table, cells)
    return _by_day_and_group(table, stored(_cells(table, _one_by_one(table, *whole), names)))


def _counts(rows: ir.Table, name: str) -> tuple[int, int]:
    (found,) = rows.aggregate(rows=rows.count(), values=rows[name].count()).to_pyarrow().to_pylist()
    return found["rows"], found["values"]


def _by_day_and_group(table: Table, cells: ir.Table) -> dict[str, Lines]:
    return {name: _lines(table, cells, name) for name in (DAY, *table.groups)}


def changed_rows(table: Table, before: ir.Table, after: ir.Table, most: int) -> list[dict[str, Any]]:
    """Matched rows that differ: ``before NAME``, ``after NAME``, ``differs NAME``; the greatest change of the first
    total first.
    """
    import ibis

    names = list(table.contract.fields())
    before, after = (_as_counted(table, side).select(names) for side in (before, after))
    pairs = _joined(before, after, _key(table))
    differ = {f"differs {name}": ~_equal(pairs, [name]) for name in names}
    changed = pairs.filter(_on_both_sides(pairs), ~_equal(pairs, names)).mutate(**differ)
    order = [ibis.asc(changed[f"after {name}"], nulls_first=True) for name in _key(table)]
    if table.totals:
        order.insert(0, ibis.desc(_change(*(_amount(table, changed, side, table.totals[0]) for side in SIDES))))
    return python_rows(changed.order_by(order).limit(most).to_pyarrow())


def columns_beside(table: Table, before: ir.Table, after: ir.Table, column: str) -> dict[date, tuple[str, ...]]:
    """Other columns that differ, by day; the order of rows does not matter."""
    names = [name for name in table.contract.fields() if name not in (DAY, column)]
    before, after = (_as_counted(table, side).select(DAY, *names) for side in (before, after))
    if not (apart := _days_apart(before, after, names)):
        return {}
    before, after = (side.filter(side[DAY].isin(sorted(apart))) for side in (before, after))
    both = stored(_in_both(before, after, names))
    each = {name: _days_apart_in(both, name) for name in names}
    return {day: tuple(name for name in names if day in each[name]) or (TOGETHER,) for day in apart}


def _days_apart(before: ir.Table, after: ir.Table, names: Sequence[str]) -> set[date]:
    both = _in_both(before, after, names)
    return set(_unbalanced(both, "n")[[DAY]].distinct()[DAY].to_pyarrow().to_pylist())


def _in_both(before: ir.Table, after: ir.Table, names: Sequence[str]) -> ir.Table:
    together = [DAY, *names]
    return before.select(together).mutate(n=1).union(after.select(together).mutate(n=-1))


def _days_apart_in(both: ir.Table, name: str) -> set[date]:
    rest = f"GROUP BY {DAY}, {quoted(name)} HAVING sum(n) <> 0"
    return {row[DAY] for row in _asked(both, f"DISTINCT {DAY}", rest=rest)}


def is_balanced(connection: DuckDBPyConnection, rows: str, columns: pa.Schema, weight: str) -> bool:
    """Whether weights of equal rows sum to 0; ``rows`` is SQL. Here 0.0 and -0.0 differ."""
    names = {each.name: quoted(each.name) for each in columns if each.name != weight}
    signed = [f"{name}::VARCHAR" for each, name in names.items() if _BINARY.search(str(columns.field(each).type))]
    equal, unbalanced = ", ".join([*names.values(), *signed]), f"HAVING sum({quoted(weight)}) <> 0"
    asked = f"SELECT 1 FROM ({rows}) GROUP BY {equal} {unbalanced} LIMIT 1"  # noqa: S608 - names, quoted
    return connection.execute(asked).fetchone() is None


def _unbalanced(rows: ir.Table, weight: str) -> ir.Table:
    sums = rows.group_by([name for name in rows.columns if name != weight]).agg(**{weight: rows[weight].sum()})
    return sums.filter(sums[weight] != 0)


def _as_counted(table: Table, rows: ir.Table) -> ir.Table:
    digits = {name: each.digits for name, each in table.contract.fields().items() if each.digits is not None}
    doubles = {name: units_of(rows[name], count) / 10.0**count for name, count in digits.items()}
    maps = {name: entries_in_key_order(rows[name], kind) for name, kind in rows.schema().items() if kind.is_nested()}
    return rows.mutate(**doubles, **maps)


def _amount(table: Table, pairs: ir.Table, side: str, name: str) -> ir.NumericColumn:
    value, digits = pairs[f"{side} {name}"], table.contract.fields()[name].digits
    return cast("ir.NumericColumn", value if digits is None else decimal_of(value, digits))


# ------------------------------------------------------------------ rows that belong together


def _key(table: Table) -> list[str]:
    return [DAY, *(name for name in table.key if name != DAY)]


def _one_by_one(table: Table, before: ir.Table, after: ir.Table) -> ir.Table:
    """Without a usable key: equal rows are matched first, a key's others in order."""
    names = before.columns
    pairs = _joined(_numbered(before, names), _numbered(after, names), [*names, _NUMBER])
    if not table.key:
        return pairs
    gone, come = (
        pairs.filter(pairs[f"{other} {DAY}"].isnull()).select(**{name: pairs[f"{side} {name}"] for name in names})
        for side, other in (SIDES, SIDES[::-1])
    )
    key = _key(table)
    rest = _joined(_numbered(gone, key), _numbered(come, key), [*key, _NUMBER])
    return pairs.filter(_on_both_sides(pairs)).union(rest)


def _numbered(rows: ir.Table, names: Sequence[str]) -> ir.Table:
    import ibis

    rest = [name for name in rows.columns if name not in (*names, _NUMBER)]
    place = ibis.row_number().over(group_by=list(names), order_by=rest or None)
    return rows.mutate(**{_NUMBER: place})


def _joined(before: ir.Table, after: ir.Table, names: Sequence[str]) -> ir.Table:
    old, new = before.rename("before {name}"), after.rename("after {name}")
    return old.outer_join(new, [old[f"before {name}"].identical_to(new[f"after {name}"]) for name in names])


def _on_both_sides(pairs: ir.Table) -> ir.BooleanValue:
    return pairs[f"before {DAY}"].notnull() & pairs[f"after {DAY}"].notnull()


def _equal(pairs: ir.Table, names: Sequence[str]) -> ir.BooleanValue:
    return reduce(and_, (pairs[f"before {name}"].identical_to(pairs[f"after {name}"]) for name in names))


# ------------------------------------------------------------------ days and groups


def _cells(table: Table, pairs: ir.Table, names: Sequence[str]) -> ir.Table:
    both = _on_both_sides(pairs)
    places = [f"{side} {name}" for side, name in product(SIDES, (DAY, *table.groups))]
    sums = {
        f"sum {side} {name}": _sum(_amount(table, pairs, side, name)) for side, name in product(SIDES, table.totals)
    }
    return pairs.group_by(places).agg(
        **{f"rows {side}": pairs[f"{side} {DAY}"].count() for side in SIDES},
        kept=_count(both),
        same=_count(both & _equal(pairs, names)),
        **sums,
    )


def _lines(table: Table, cells: ir.Table, name: str) -> Lines:
    nothing: dict[str, Any] = dict.fromkeys((*SIDES, "kept", "same"), 0)
    nothing |= {f"{side} {total}": Decimal(0) for side, total in product(SIDES, table.totals)}
    lines: Lines = defaultdict(nothing.copy)
    stay = f"{quoted(f'before {name}')} IS NOT DISTINCT FROM {quoted(f'after {name}')}"
    for side in SIDES:
        sums = (f"sum({quoted(f'sum {side} {total}')}) AS {quoted(f'{side} {total}')}" for total in table.totals)
        on_both = (f"coalesce(sum({number}) FILTER ({stay}), 0)::BIGINT AS {number}" for number in ("kept", "same"))
        rows = f'sum("rows {side}")::BIGINT AS {side}'
        asked = (f"{quoted(f'{side} {name}')} AS value", rows, *sums, *(on_both if side == "before" else ()))
        for line in _asked(cells, *asked, rest=f"GROUP BY value HAVING {side} > 0"):
            lines[value_text(line.pop("value"))] |= line
    return dict(lines)


def _asked(rows: ir.Table, *columns: str, rest: str = "") -> list[dict[str, Any]]:
    asked = f"SELECT {', '.join(columns)} FROM {quoted(rows.get_name())} {rest}"  # noqa: S608 - names, quoted
    return python_rows(rows.get_backend().con.execute(asked).to_arrow_table())


def _count(values: ir.Column) -> ir.Scalar:
    return values.sum().cast("int64")


def _sum(values: ir.Column) -> ir.Scalar:
    scale = values.type().scale if values.type().is_decimal() else 0
    return values.sum().cast(f"decimal({_MOST_DIGITS}, {scale})").fill_null(0)


def _change(before: ir.NumericColumn, after: ir.NumericColumn) -> ir.Column:
    kind = before.type()
    digits, scale = (kind.precision, kind.scale) if kind.is_decimal() else (20, 0)
    kind = f"decimal({digits + 1}, {scale})" if digits < _MOST_DIGITS else "float64"
    return (after.fill_null(0).cast(kind) - before.fill_null(0).cast(kind)).abs()


# ------------------------------------------------------------------ values as text


def value_text(value: Any) -> str | None:
    """Like Spark's cast, but doubles like Python's."""
    written = next((write for kind, write in _WRITTEN if isinstance(value, kind)), str)
    return None if value is None else written(value)


def _moment_text(value: datetime) -> str:
    whole = f"{value.year:04}-{value:%m-%d %H:%M:%S}"
    return f"{whole}.{value.microsecond:06}".rstrip("0") if value.microsecond else whole


def _items_text(items: Iterable[Any]) -> str:
    texts = map(value_text, items)
    return ", ".join("null" if text is None else text for text in texts)


_WRITTEN: Sequence[tuple[type, Callable[[Any], str]]] = (
    (bool, lambda value: str(value).lower()),
    (float, lambda value: str(value + 0.0)),
    (Decimal, lambda value: f"{value:f}"),
    (datetime, _moment_text),
    (date, date.isoformat),
    (bytes, lambda value: value.decode(errors="replace")),
    (list, lambda value: f"[{_items_text(value)}]"),
    (dict, lambda value: f"{{{_items_text(value.values())}}}"),
)
"""Subclasses first: a datetime is a date."""
