"""The rows that change most, side by side, from the files: as ``rows.py`` finds them with Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.difference.day_rows import DayFiles, arrow_types, day_batches, day_rows, total_types
from backfill_assets.difference.from_files import pairs_by_key
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Table
from backfill_assets.quality.arrow_hashes import NotRendered, is_micros
from backfill_assets.quality.arrow_rows import DAY, ArrowRows

_CHANGE, _OLD = "change", "before "
"""No column has a space in its name."""


def changed_rows(
    storage: Storage,
    table: Table,
    days: Sequence[date],
    before: DayFiles,
    after: DayFiles,
    withheld: Collection[str],
    most: int,
) -> list[dict[str, Any]]:
    """Up to ``most`` rows of :func:`backfill_assets.difference.rows.changed_rows`, with the same names.

    Raises :class:`NotRendered` where only Spark can choose or show them.
    """
    kinds = {**arrow_types(table.contract), DAY: pa.date32()}
    _require_texts(kinds)
    found = [_of_day(storage, table, day, before.get(day, ()), after.get(day, ()), most) for day in days]
    first = _largest(table, pa.concat_tables(found), most)
    return [_side_by_side(table, kinds, withheld, row) for row in _values(first)]


def _of_day(
    storage: Storage, table: Table, day: date, before: Sequence[AddedFile], after: Sequence[AddedFile], most: int
) -> pa.Table:
    """The rows of a day that change most: their columns after, and before by a name that begins with :data:`_OLD`."""
    sides = [list(day_batches(storage, table.contract, day, files)) for files in (before, after)]
    pairs = pairs_by_key(*(day_rows(table, batches) for batches in sides))
    changed = np.flatnonzero(~pairs.same)
    old, new = (
        _columns(table, batches).take(pa.array(places[changed]))
        for batches, places in zip(sides, (pairs.before, pairs.after), strict=True)
    )
    both = new.append_column(_CHANGE, _change(table, old, new))
    for name in old.schema.names:
        both = both.append_column(f"{_OLD}{name}", old[name])
    return _largest(table, both, most)


def _columns(table: Table, day: Sequence[ArrowRows]) -> pa.Table:
    schema = pa.schema([*arrow_types(table.contract).items(), (DAY, pa.date32())])
    columns = ([*rows.batch.columns, rows.column(DAY)] for rows in day)
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(each, schema=schema) for each in columns], schema)


def _change(table: Table, old: pa.Table, new: pa.Table) -> pa.ChunkedArray:
    """How much the first total of each row changes."""
    if not table.totals:
        return pa.chunked_array([pa.nulls(len(new), pa.int64())])
    name, kind = table.totals[0], total_types(table)[0]
    # A difference has a digit more than what it is made of, and no type has more than 38.
    kind = pa.decimal128(kind.precision - 1, kind.scale)
    nothing = pa.scalar(Decimal(0), kind)
    values = (pc.fill_null(side[name].cast(kind), nothing) for side in (new, old))
    return pc.abs(pc.subtract(*values))


def _largest(table: Table, rows: pa.Table, most: int) -> pa.Table:
    key = (name for name in table.key if name != DAY)
    order = [(_CHANGE, "descending", "at_end"), *((name, "ascending", "at_start") for name in (DAY, *key))]
    return rows.take(pc.sort_indices(rows, sort_keys=order)[:most])


def _values(rows: pa.Table) -> list[dict[str, Any]]:
    try:
        values: list[dict[str, Any]] = rows.to_pylist()
    except (ValueError, OverflowError) as beyond:
        raise NotRendered("A moment that Python has no value for.") from beyond
    return values


def _side_by_side(
    table: Table, kinds: dict[str, pa.DataType], withheld: Collection[str], row: dict[str, Any]
) -> dict[str, Any]:
    names = [name for name in table.contract.fields() if name not in (DAY, *table.key)]
    differ = [name for name in names if row[f"{_OLD}{name}"] != row[name]]
    return {
        "day": row[DAY],
        "key": [value_text(row[name], kinds[name]) for name in table.key if name not in withheld],
        "cells": [
            {
                "column": name,
                "before": value_text(row[f"{_OLD}{name}"], kinds[name]),
                "after": value_text(row[name], kinds[name]),
            }
            for name in differ
            if name not in withheld
        ],
        "withheld": [name for name in differ if name in withheld],
    }


def _require_texts(kinds: dict[str, pa.DataType]) -> None:
    for name, kind in kinds.items():
        if not has_text(kind):
            raise NotRendered(f"The text of {name}, which is {kind}.")


# ------------------------------------------------------------------ a value as text, as Spark casts it to a string

_HAVE_TEXT = (pa.types.is_string, pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_decimal128)


def has_text(kind: pa.DataType) -> bool:
    """Whether the text of values of ``kind`` is known here; Java writes doubles in a way of its own."""
    if pa.types.is_list(kind):
        return has_text(kind.value_type)
    return is_micros(kind) or pa.types.is_date32(kind) or any(is_one(kind) for is_one in _HAVE_TEXT)


def value_text(value: Any, kind: pa.DataType) -> str | None:
    """The text of a value of ``kind``; None of null."""
    if value is None:
        return None
    if isinstance(value, list):
        items = (value_text(item, kind.value_type) for item in value)
        return f"[{', '.join('null' if item is None else item for item in items)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        whole = f"{value.year:04}-{value:%m-%d %H:%M:%S}"
        return f"{whole}.{value.microsecond:06}".rstrip("0") if value.microsecond else whole
    if isinstance(value, date):
        return value.isoformat()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
