"""Rows that are like no other one, told from the few that are: only those have to be compared, which costs more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, NamedTuple, cast

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
    return cast("ir.IntegerValue", _hash(len(values))(*values))


@cache
def _hash(count: int) -> Callable[..., ir.Value]:
    import ibis

    def hash_(*_: object) -> object:
        raise NotImplementedError

    named = [Parameter(f"value_{number}", Parameter.POSITIONAL_OR_KEYWORD) for number in range(count)]
    hash_.__signature__ = Signature(named)  # type: ignore[attr-defined]
    hash_.__annotations__ = {"return": ibis.dtype("uint64")}
    return cast("Callable[..., ir.Value]", ibis.udf.scalar.builtin(hash_, name="hash"))
