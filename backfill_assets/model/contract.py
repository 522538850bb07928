"""Contracts like pandera's, whose import takes a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declared_wrong import is_type, wrong_annotations
from backfill_assets.model.record_parts import RecordPart

CHECKS = ("eq", "ne", "gt", "ge", "lt", "le", "in_range", "isin", "notin", "str_matches", "str_length")
"""Pandera's row-wise checks."""
_OF_PARTS = ("array", "struct", "map", "variant")
BINARY = ("double", "float")
"""Engines write these differently; sums depend on the order."""
NUMBERS = ("tinyint", "smallint", "int", "bigint", *BINARY, "decimal")
SIGNIFICANT_DIGITS = 15
_OF_PYTHON: Mapping[Any, tuple[Any, ...]] = MappingProxyType(
    {
        str: ("StringType",),
        int: ("LongType",),
        float: ("DoubleType",),
        bool: ("BooleanType",),
        Decimal: ("DecimalType", 38, 18),
        date: ("DateType",),
        datetime: ("TimestampType",),
    }
)

P = ParamSpec("P")
R = TypeVar("R")


def once(function: Callable[P, R]) -> Callable[P, R]:
    """:func:`functools.cache` with a signature: mypy takes classes for unhashable."""
    return cast("Callable[P, R]", cache(function))


@dataclass(frozen=True)
class DeclaredField:
    nullable: bool
    description: str | None
    checks: Mapping[str, Any]
    key: bool
    event_day: bool
    version: bool
    personal: str
    joined: tuple[str, ...]
    made_of: tuple[str, ...]
    rescued: bool = False
    landed: str = ""
    digits: int | None = None
    record: RecordPart | None = None


def Field(  # noqa: N802
    *,
    nullable: bool = False,
    description: str | None = None,
    key: bool = False,
    event_day: bool = False,
    version: bool = False,
    personal: str = "",
    joined: tuple[str, ...] = (),
    made_of: str | tuple[str, ...] = (),
    rescued: bool = False,
    landed: str = "",
    digits: int | None = None,
    record: RecordPart | None = None,
    **checks: Any,
) -> Any:
    """A column; ``checks`` are those in :data:`CHECKS`.

    - ``key``: of the key, which has one row a day.
    - ``made_of``: origin by another name: a column of the first table read, or ``table.column``.
    - ``digits``: decimals to which a double is rounded, 15 digits in all.

    Only in a landed row:

    - ``event_day``: the row's day.
    - ``version``: the greater one wins.
    - ``personal``: the landed field whose token is kept.
    - ``joined``: these columns joined with dashes, instead of a landed field.
    - ``rescued``: also read from what raw kept before its declaration.
    - ``landed``: the source's name, if another. A landed ``day`` needs it.
    - ``record``: not of the value but of the topic's record (``model/record_parts.py``).
    """
    origins = (made_of,) if isinstance(made_of, str) else made_of
    if digits is not None:
        most = 10 ** max(SIGNIFICANT_DIGITS - digits, 0)
        checks = {"in_range": {"min_value": -most, "max_value": most}, **checks}
    marks = key, event_day, version, personal, joined, origins, rescued, landed
    return DeclaredField(nullable, description, checks, *marks, digits=digits, record=record)


class Contract:
    """Subclass it with an annotated :func:`Field` per column, by default not nullable.

    Checks that need several rows raise :class:`InvalidRequest`.
    """

    def __init_subclass__(cls) -> None:
        unknown = [
            f"{name}: {check}" for name, field in _own(cls).items() for check in field.checks.keys() - set(CHECKS)
        ]
        unknown += [name for name in vars(cls) if name not in cls.fields() and not name.startswith("__")]
        if unknown:
            raise InvalidRequest(
                f"The contract {cls.__name__} asks for what cannot be judged on rows: {', '.join(sorted(unknown))}.",
                hint=f"A field may have {', '.join(CHECKS)}. Whether a key is unique is checked by a gate.",
            )

        if twice := [name for name, each in _own(cls).items() if _is_landed_twice(each)]:
            raise InvalidRequest(
                f"The contract {cls.__name__} lands {', '.join(twice)} by two names.",
                hint="Leave out landed: personal names the landed field, and a joined column is not landed. A part"
                " of the record has its own name; a personal one is Key(personal=True).",
            )

    @classmethod
    def fields(cls) -> Mapping[str, DeclaredField]:
        return _fields(cls)

    @classmethod
    def decides_rows(cls) -> Mapping[str, Any]:
        types = declared_types(cls)
        return {name: (types[name], each.nullable, each.checks) for name, each in cls.fields().items()}


def _is_landed_twice(field: DeclaredField) -> bool:
    if field.record is not None:
        return bool(field.landed or field.personal or field.joined or field.rescued)
    return bool(field.landed and (field.personal or field.joined))


def columns_with(contract: type[Contract], mark: str) -> tuple[str, ...]:
    return tuple(name for name, each in contract.fields().items() if getattr(each, mark))


@once
def declared_types(contract: type[Contract]) -> dict[str, str]:
    """Spark's simple names: ``decimal(6,3)``."""
    return {name: str(kind.simpleString()) for name, kind in spark_types(contract).items()}


@once
def spark_types(contract: type[Contract]) -> dict[str, Any]:
    """Raises :class:`InvalidRequest`, with the line, for a wrong annotation."""
    columns = contract.fields()
    try:
        annotations = get_type_hints(contract, include_extras=True)
        types = {name: _spark_type(annotations[name]) for name in columns}
    except Exception as error:
        raise wrong_annotations(contract, columns, _spark_type) or error from error
    if not all(map(is_type, types.values())) and (wrong := wrong_annotations(contract, columns, _spark_type)):
        raise wrong
    return types


def is_list(kind: Any) -> bool:
    return bool(kind.typeName() == "array")


def is_nested(kind: Any) -> bool:
    return bool(kind.typeName() in _OF_PARTS[1:] or (is_list(kind) and kind.elementType.typeName() in _OF_PARTS))


def _spark_type(annotation: Any) -> Any:
    if annotation in _OF_PYTHON:
        name, *arguments = _OF_PYTHON[annotation]
        return _of_spark(name)(*arguments)
    if get_origin(annotation) in (list, dict):
        kind = "ArrayType" if get_origin(annotation) is list else "MapType"
        return _of_spark(kind)(*map(_spark_type, get_args(annotation)))
    if get_origin(annotation) is Annotated:
        native, *arguments = get_args(annotation)
        return native(*arguments)
    return annotation() if isinstance(annotation, type) else annotation


def _of_spark(name: str) -> Any:
    """Imported late: pure modules import this one."""
    return getattr(import_module("pyspark.sql.types"), name)


@once
def _fields(contract: type[Contract]) -> Mapping[str, DeclaredField]:
    found: dict[str, DeclaredField] = {}
    for each in reversed(contract.__mro__):
        found.update(_own(each))
    return MappingProxyType(found)


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
