from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import ibis.expr.types as ir


def of_duckdb(name: str, kind: Any, *values: Any) -> Any:
    """``kind``: the result's Ibis type."""
    return _function(name, kind, len(values))(*values)


@cache
def _function(name: str, kind: Any, count: int) -> Callable[..., ir.Value]:
    """Ibis uses the signature; nothing is called."""
    import ibis

    def call(*_: object) -> object:
        raise NotImplementedError

    given = [Parameter(f"value_{number}", Parameter.POSITIONAL_OR_KEYWORD) for number in range(count)]
    call.__signature__ = Signature(given)  # type: ignore[attr-defined]
    call.__annotations__ = {"return": ibis.dtype(kind)}
    return cast("Callable[..., ir.Value]", ibis.udf.scalar.builtin(call, name=name))
