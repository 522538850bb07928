"""Separates the rows that may equal another one, which need a costly comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from backfill_assets.model.of_duckdb import of_duckdb

if TYPE_CHECKING:
    import ibis.expr.types as ir


class LoneAndAlike(NamedTuple):
    lone: ir.Table
    alike: ir.Table


def lone_and_alike(rows: ir.Table, hashes: str) -> LoneAndAlike:
    """By a column of :func:`hash_of`; a collision only makes a row alike."""
    counted = rows.group_by(hashes).agg(rows=rows.count())
    repeated = counted.filter(counted.rows > 1).select(hashes)
    return LoneAndAlike(rows.anti_join(repeated, hashes), rows.semi_join(repeated, hashes))


def hash_of(values: Sequence[ir.Value]) -> ir.IntegerValue:
    """Nulls are equal. DuckDB's hash is stable within a query only."""
    return cast("ir.IntegerValue", of_duckdb("hash", "uint64", *values))
