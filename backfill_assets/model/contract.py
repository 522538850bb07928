"""The base of every contract: the columns of a table, and what their values must fulfil, made into a pandera model.

A contract is declared with :func:`Field` and becomes a pandera schema when it is first asked for. Importing pandera,
and pandas with it, takes over two seconds: what only reads metadata (``backfill status``, ``plan``, a run that finds
nothing to do) never needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from backfill_assets.errors import InvalidRequest

if TYPE_CHECKING:
    from pandera.api.pyspark.container import DataFrameSchema

ARGUMENTS: Mapping[str, str] = MappingProxyType(
    {
        "ge": "greater_than_or_equal_to",
        "gt": "greater_than",
        "le": "less_than_or_equal_to",
        "lt": "less_than",
        "in_range": "in_range",
        "eq": "equal_to",
        "ne": "not_equal_to",
        "isin": "isin",
        "notin": "notin",
        "str_matches": "str_matches",
        "str_length": "str_length",
    }
)
"""The checks that a field may have, with pandera's names of them: those that can be judged row by row."""

P = ParamSpec("P")
R = TypeVar("R")


def once(function: Callable[P, R]) -> Callable[P, R]:
    """:func:`functools.cache` that keeps the signature: arguments are classes, which mypy takes for unhashable."""
    return cast("Callable[P, R]", cache(function))


@dataclass(frozen=True)
class DeclaredField:
    """What is asked of a column's values."""

    nullable: bool
    description: str | None
    checks: Mapping[str, Any]


def Field(*, nullable: bool = False, description: str | None = None, **checks: Any) -> Any:  # noqa: N802
    """A column of a contract, with the arguments of pandera's ``Field``; ``checks`` are those in :data:`ARGUMENTS`."""
    return DeclaredField(nullable, description, checks)


class Contract:
    """Subclass it with one annotated :func:`Field` per column; columns are not nullable unless they say so.

    Declaring one raises :class:`InvalidRequest` for what could not be judged row by row: a rule that is silently not
    checked is worse than none.
    """

    def __init_subclass__(cls) -> None:
        unknown = [f"{name}: {check}" for name, field in _own(cls).items() for check in field.checks.keys() - ARGUMENTS]
        unknown += [name for name in vars(cls) if name not in cls.fields() and not name.startswith("__")]
        if unknown:
            raise InvalidRequest(
                f"The contract {cls.__name__} asks for what cannot be judged on rows: {', '.join(sorted(unknown))}.",
                hint=f"A field may have {', '.join(ARGUMENTS)}. Whether a key is unique is checked by a gate.",
            )

    @classmethod
    def fields(cls) -> dict[str, DeclaredField]:
        """The declared columns, those of base classes first; costs nothing."""
        found: dict[str, DeclaredField] = {}
        for each in reversed(cls.__mro__):
            found.update(_own(each))
        return found

    @classmethod
    def to_schema(cls) -> DataFrameSchema:
        """The pandera schema: columns in order with their types, nullability, checks and descriptions."""
        found: DataFrameSchema = _model(cls).to_schema()
        return found


def _own(cls: type) -> dict[str, DeclaredField]:
    if not issubclass(cls, Contract):
        return {}
    columns = {name: vars(cls).get(name) for name in vars(cls).get("__annotations__", {})}
    if strange := sorted(name for name, field in columns.items() if not isinstance(field, DeclaredField)):
        raise InvalidRequest(
            f"The contract {cls.__name__} declares {', '.join(strange)} without Field(...).",
            hint="from backfill_assets.model.contract import Contract, Field",
        )
    return {name: field for name, field in columns.items() if isinstance(field, DeclaredField)}


@once
def _model(cls: type[Contract]) -> Any:
    """The same class, once more, as pandera declares models; its bases are those of ``cls``."""
    import pandera.pyspark as pa

    if cls is Contract:
        return pa.DataFrameModel
    bases = tuple(_model(base) for base in cls.__bases__ if issubclass(base, Contract))
    columns = {
        name: pa.Field(nullable=field.nullable, description=field.description, **field.checks)
        for name, field in _own(cls).items()
    }
    told = {"__annotations__": vars(cls).get("__annotations__", {}), "__module__": cls.__module__}
    return type(cls.__name__, bases, {**columns, **told, "__doc__": cls.__doc__})
