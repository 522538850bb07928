"""The checks that a contract may ask of a value: pandera's, by pandera's names of its arguments.

The judge carries out pandera's own functions, as expressions over what was written. Spark asks the same of rows that
it has not written yet, to set aside those that break their contract.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from backfill_assets.model.contract import Contract, is_list, is_nested, spark_types

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pandera.api.ibis.container import DataFrameSchema


@dataclass(frozen=True)
class CheckKind:
    """One kind of check: what pandera calls it, what Spark asks, and the words for a value that does not fulfil it."""

    pandera: str
    """The name of its function in ``pandera.backends.ibis.builtin_checks``."""
    spark: Callable[[Column, Any], Column]
    wrong: Callable[[Any], str]
    arguments: Callable[[Any], tuple[tuple[Any, ...], Mapping[str, Any]]] = lambda asked: ((asked,), {})
    faster: Callable[[ir.Column, Any], ir.Value] | None = None
    """What gives the verdict of pandera's function in less time."""

    def of(self, rows: ir.Table, name: str, asked: Any) -> ir.BooleanColumn:
        """Whether each value of the column ``name`` fulfils it, as pandera says; null for null."""
        if self.faster:
            return cast("ir.BooleanColumn", self.faster(rows[name], asked))

        from pandera.api.ibis.types import IbisData
        from pandera.backends.ibis import builtin_checks

        positional, named = self.arguments(asked)
        said = getattr(builtin_checks, self.pandera)(IbisData(rows, name), *positional, **named)
        return cast("ir.BooleanColumn", said.op().values[name].to_expr())


def _comparison(pandera: str, compare: Callable[[Any, Any], Any], wrong: str) -> CheckKind:
    return CheckKind(pandera, lambda value, limit: compare(value, F.lit(limit)), lambda limit: f"{wrong} {limit}")


def _in_range(value: Column, asked: Mapping[str, Any]) -> Column:
    least, most = F.lit(asked["min_value"]), F.lit(asked["max_value"])
    low = value >= least if asked.get("include_min", True) else value > least
    high = value <= most if asked.get("include_max", True) else value < most
    return low & high


def _not_in_range(asked: Mapping[str, Any]) -> str:
    below, above = "[" if asked.get("include_min", True) else "(", "]" if asked.get("include_max", True) else ")"
    return f"not in {below}{asked['min_value']}, {asked['max_value']}{above}"


def _named(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def anchored(asked: Any) -> str:
    """A pattern that is looked for at the start of a value: each of its alternatives, not only the first one."""
    return f"^(?:{_pattern(asked)})"


def _begins_with(values: ir.Column, asked: Any) -> ir.Value:
    """DuckDB looks at all of a text in a fifth of the time in which it looks for what begins it."""
    import ibis

    @ibis.udf.scalar.builtin
    def regexp_full_match(text: str, pattern: str) -> bool: ...

    return regexp_full_match(values, f"(?:{_pattern(asked)})(?s:.*)")


def _pattern(asked: Any) -> str:
    return str(getattr(asked, "pattern", asked))


def _long(value: Column, asked: Mapping[str, Any]) -> Column:
    least, most = asked.get("min_value"), asked.get("max_value")
    long_enough = F.length(value) >= (least or 0)
    return long_enough if most is None else long_enough & (F.length(value) <= most)


def _not_as_long(asked: Mapping[str, Any]) -> str:
    most = asked.get("max_value")
    return f"not {asked.get('min_value') or 0}..{'' if most is None else most} characters long"


def _by_name(asked: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    return (), asked


KINDS: Mapping[str, CheckKind] = MappingProxyType(
    {
        "eq": _comparison("equal_to", operator.eq, "not equal to"),
        "ne": _comparison("not_equal_to", operator.ne, "equal to"),
        "gt": _comparison("greater_than", operator.gt, "not greater than"),
        "ge": _comparison("greater_than_or_equal_to", operator.ge, "not greater than or equal to"),
        "lt": _comparison("less_than", operator.lt, "not less than"),
        "le": _comparison("less_than_or_equal_to", operator.le, "not less than or equal to"),
        "in_range": CheckKind("in_range", _in_range, _not_in_range, _by_name),
        "isin": CheckKind(
            "isin", lambda value, allowed: value.isin(list(allowed)), lambda a: f"not one of {_named(a)}"
        ),
        "notin": CheckKind(
            "notin", lambda value, given: ~value.isin(list(given)), lambda given: f"one of {_named(given)}"
        ),
        "str_matches": CheckKind(
            "str_matches",
            lambda value, asked: value.rlike(anchored(asked)),
            lambda asked: f"does not match ^{_pattern(asked).removeprefix('^')}",
            lambda asked: ((anchored(asked),), {}),
            _begins_with,
        ),
        "str_length": CheckKind("str_length", _long, _not_as_long, _by_name),
    }
)
"""In the order in which pandera judges them."""


def pandera_schema(contract: type[Contract]) -> DataFrameSchema:
    """The contract as a schema of pandera over Ibis: columns in order, with types, nullability, checks and words.

    Pandera knows no type of lists and of what is nested; those columns have none.
    """
    import pandera.ibis as pa
    from ibis.expr.datatypes import DataType

    def column(name: str) -> Any:
        declared, spark_type = contract.fields()[name], spark_types(contract)[name]
        asked = [(kind, declared.checks[check]) for check, kind in KINDS.items() if check in declared.checks]
        made = [(getattr(pa.Check, kind.pandera), *kind.arguments(value)) for kind, value in asked]
        has_type = not (is_list(spark_type) or is_nested(spark_type))
        return pa.Column(
            DataType.from_pyarrow(to_arrow_type(spark_type, timezone="UTC")) if has_type else None,
            [check(*positional, **named) for check, positional, named in made],
            nullable=declared.nullable,
            description=declared.description,
        )

    return pa.DataFrameSchema({name: column(name) for name in contract.fields()}, name=contract.__name__)
