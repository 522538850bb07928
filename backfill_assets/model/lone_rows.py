"""Rows that are like no other one, told from the few that are: only those have to be compared, which costs more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    import ibis.expr.types as ir

_HASH = "hash of what is compared"
"""No column has a space in its name."""


class LoneAndAlike(NamedTuple):
    """Rows that differ from every other one in some columns, and all others."""

    lone: ir.Table
    alike: ir.Table


def lone_and_alike(rows: ir.Table, names: Iterable[str]) -> LoneAndAlike:
    """``rows`` by whether another one may have the same values in the columns ``names``; nulls are the same.

    Rows are told from each other by a hash. So some that are alone may be among the others, and never the other way.
    """
    import ibis

    together = ibis.struct({name: rows[name] for name in names})
    hashed = rows.mutate({_HASH: _hash_of(together.type())(together)})
    counted = hashed.group_by(_HASH).agg(rows=hashed.count())
    repeated = counted.filter(counted.rows > 1).select(_HASH)
    return LoneAndAlike(hashed.anti_join(repeated, _HASH).drop(_HASH), hashed.semi_join(repeated, _HASH).drop(_HASH))


@cache
def _hash_of(kind: Any) -> Callable[[ir.Value], ir.IntegerValue]:
    """DuckDB's own, without the cast that Ibis puts around it."""
    import ibis

    def hash_(_: object) -> object:
        raise NotImplementedError

    made = ibis.udf.scalar.builtin(hash_, name="hash", signature=((kind,), "uint64"))
    return cast("Callable[[ir.Value], ir.IntegerValue]", made)
