from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Column
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets.model.contract import (
    Contract,
    DeclaredField,
    is_list,
    is_nested,
    spark_types,
)
from backfill_assets.model.of_duckdb import of_duckdb

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pandera.api.ibis.container import DataFrameSchema


Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def _as_it_is(asked: Any) -> Arguments:
    return (asked,), {}


@dataclass(frozen=True)
class CheckKind:
    pandera: str
    words: str
    shown: Callable[[Any], str] = str
    arguments: Callable[[Any], Arguments] = _as_it_is
    faster: Callable[[ir.Column, Any], ir.Value] | None = None
    otherwise: str = "not {}"
    """``not {}`` negates ``words``; another text takes the argument."""

    def right(self, asked: Any) -> str:
        return self.words.format(self.shown(asked))

    def wrong(self, asked: Any) -> str:
        return self.otherwise.format(self.right(asked) if self.otherwise == "not {}" else self.shown(asked))

    def of(self, rows: ir.Table, name: str, asked: Any) -> ir.BooleanColumn:
        if self.faster:
            return cast("ir.BooleanColumn", self.faster(rows[name], asked))

        from pandera.api.ibis.types import IbisData
        from pandera.backends.ibis import builtin_checks

        positional, named = self.arguments(asked)
        said = getattr(builtin_checks, self.pandera)(IbisData(rows, name), *positional, **named)
        return cast("ir.BooleanColumn", said.op().values[name].to_expr())


def _interval(asked: Mapping[str, Any]) -> str:
    below, above = "[" if asked.get("include_min", True) else "(", "]" if asked.get("include_max", True) else ")"
    return f"{below}{asked['min_value']}, {asked['max_value']}{above}"


def _listed(asked: Iterable[Any]) -> str:
    return ", ".join(map(str, asked))


def _pattern(asked: Any) -> str:
    return str(getattr(asked, "pattern", asked))


def anchored(asked: Any) -> str:
    return f"^(?:{_pattern(asked)})"


def _without_start(asked: Any) -> str:
    return _pattern(asked).removeprefix("^")


def _begins_with(values: ir.Column, asked: Any) -> ir.Value:
    """A full match takes DuckDB a fifth of a prefix search."""
    return cast("ir.Value", of_duckdb("regexp_full_match", "boolean", values, f"(?:{_pattern(asked)})(?s:.*)"))


def _span(asked: Mapping[str, Any]) -> str:
    most = asked.get("max_value")
    return f"{asked.get('min_value') or 0}..{'' if most is None else most}"


def _by_name(asked: Mapping[str, Any]) -> Arguments:
    return (), asked


def _as_anchored(asked: Any) -> Arguments:
    return (anchored(asked),), {}


KINDS: Mapping[str, CheckKind] = MappingProxyType(
    {
        "eq": CheckKind("equal_to", "equal to {}"),
        "ne": CheckKind("not_equal_to", "not {}", otherwise="equal to {}"),
        "gt": CheckKind("greater_than", "greater than {}"),
        "ge": CheckKind("greater_than_or_equal_to", "greater than or equal to {}"),
        "lt": CheckKind("less_than", "less than {}"),
        "le": CheckKind("less_than_or_equal_to", "less than or equal to {}"),
        "in_range": CheckKind("in_range", "in {}", _interval, _by_name),
        "isin": CheckKind("isin", "one of {}", _listed),
        "notin": CheckKind("notin", "none of {}", _listed, otherwise="one of {}"),
        "str_matches": CheckKind(
            *("str_matches", "matches ^{}", _without_start, _as_anchored, _begins_with), otherwise="does not match ^{}"
        ),
        "str_length": CheckKind("str_length", "{} characters long", _span, _by_name),
    }
)
"""Pandera judges in this order."""


def asked_of(field: DeclaredField) -> list[tuple[CheckKind, Any]]:
    return [(kind, field.checks[check]) for check, kind in KINDS.items() if check in field.checks]


# ------------------------------------------------------------------ as Spark has it


def as_declared(value: Column, field: T.StructField) -> Column:
    """By name: Spark Connect makes a type object a collated string, which delta-rs cannot open."""
    return value.cast(field.dataType.simpleString()).alias(field.name)


def struct_type(contract: type[Contract]) -> T.StructType:
    types = spark_types(contract)
    return T.StructType([_struct_field(name, types[name], field) for name, field in contract.fields().items()])


def _struct_field(name: str, kind: T.DataType, field: DeclaredField) -> T.StructField:
    metadata = {"comment": field.description} if field.description else None
    return T.StructField(name, kind, field.nullable, metadata)


# ------------------------------------------------------------------ as pandera has it


def pandera_schema(contract: type[Contract], examples: int | None = None) -> DataFrameSchema:
    """``examples``: most failing values of a check. Pandera has no type for lists and nested columns."""
    import pandera.ibis as pa
    from ibis.expr.datatypes import DataType

    def column(name: str) -> Any:
        declared, spark_type = contract.fields()[name], spark_types(contract)[name]
        made = [(getattr(pa.Check, kind.pandera), *kind.arguments(asked)) for kind, asked in asked_of(declared)]
        has_type = not (is_list(spark_type) or is_nested(spark_type))
        return pa.Column(
            DataType.from_pyarrow(to_arrow_type(spark_type, timezone="UTC")) if has_type else None,
            [check(*positional, **named, n_failure_cases=examples) for check, positional, named in made],
            nullable=declared.nullable,
            description=declared.description,
        )

    return pa.DataFrameSchema({name: column(name) for name in contract.fields()}, name=contract.__name__)
