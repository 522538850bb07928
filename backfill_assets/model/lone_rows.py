"""Rows that are like no other one, told from the few that are: only those have to be compared, which costs more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from backfill_assets.model.of_duckdb import of_duckdb

if TYPE_CHECKING:
    import ibis.expr.types as ir


class LoneAndAlike(NamedTuple):
    """Rows whose hash no other one has, and all others."""

    lone: ir.Table
    alike: ir.Table


def lone_and_alike(rows: ir.Table, hashes: str) -> LoneAndAlike:
    """``rows`` by whether another one has the same in the column ``hashes``, of :func:`hash_of` what is compared.

    Some that are alone may be among the others, and never the other way.
    """
    counted = rows.group_by(hashes).agg(rows=rows.count())
    repeated = counted.filter(counted.rows > 1).select(hashes)
    return LoneAndAlike(rows.anti_join(repeated, hashes), rows.semi_join(repeated, hashes))


def hash_of(values: Sequence[ir.Value]) -> ir.IntegerValue:
    """DuckDB's own, of some values of any types; nulls are the same. It is compared within a query, and not kept."""
    return cast("ir.IntegerValue", of_duckdb("hash", "uint64", *values))
