"""A table's contract as Spark columns, so that rows are judged in the pass that computes them.

A closed set of pandera's checks is translated here; a contract that uses anything else cannot be declared. Tests
compare the verdicts with those of pandera, which itself runs one Spark job per check.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, DeclaredField, declared_types, spark_types

Judge = Callable[[Column, Any], tuple[Column, str]]
"""What a sound value fulfils, and how a value that does not is described."""


@dataclass(frozen=True)
class _Comparison:
    """A value is compared with a limit."""

    compare: Callable[[Any, Any], Any]
    wrong: str

    def __call__(self, value: Column, limit: Any) -> tuple[Column, str]:
        return self.compare(value, F.lit(limit)), f"{self.wrong} {limit}"


def _in_range(value: Column, asked: Mapping[str, Any]) -> tuple[Column, str]:
    least, most = asked["min_value"], asked["max_value"]
    closed_below, closed_above = asked.get("include_min", True), asked.get("include_max", True)
    low = value >= F.lit(least) if closed_below else value > F.lit(least)
    high = value <= F.lit(most) if closed_above else value < F.lit(most)
    return low & high, f"not in {'[' if closed_below else '('}{least}, {most}{']' if closed_above else ')'}"


def _one_of(value: Column, allowed: Iterable[Any]) -> tuple[Column, str]:
    return value.isin(list(allowed)), f"not one of {', '.join(map(str, allowed))}"


def _none_of(value: Column, forbidden: Iterable[Any]) -> tuple[Column, str]:
    return ~value.isin(list(forbidden)), f"one of {', '.join(map(str, forbidden))}"


def _matches(value: Column, asked: Any) -> tuple[Column, str]:
    """Every alternative of a pattern is looked for at the start; pandera's PySpark backend does so for the first."""
    given = str(getattr(asked, "pattern", asked))
    return value.rlike(f"^(?:{given})"), f"does not match ^{given.removeprefix('^')}"


def _long(value: Column, asked: Mapping[str, Any]) -> tuple[Column, str]:
    least, most = asked.get("min_value"), asked.get("max_value")
    bounds = [F.length(value) >= least] if least is not None else []
    bounds += [F.length(value) <= most] if most is not None else []
    return all_of(bounds), f"not {least or 0}..{'' if most is None else most} characters long"


JUDGES: Mapping[str, Judge] = MappingProxyType(
    {
        "eq": _Comparison(operator.eq, "not equal to"),
        "ne": _Comparison(operator.ne, "equal to"),
        "gt": _Comparison(operator.gt, "not greater than"),
        "ge": _Comparison(operator.ge, "not greater than or equal to"),
        "lt": _Comparison(operator.lt, "not less than"),
        "le": _Comparison(operator.le, "not less than or equal to"),
        "in_range": _in_range,
        "isin": _one_of,
        "notin": _none_of,
        "str_matches": _matches,
        "str_length": _long,
    }
)
"""Each check that a contract may ask for, in the order in which pandera judges them."""


def all_of(conditions: Iterable[Column]) -> Column:
    whole = F.lit(True)
    for condition in conditions:
        whole = whole & condition
    return whole


def as_declared(value: Column, field: T.StructField) -> Column:
    """``value`` with the name and the type of ``field``.

    By the type's name: over Spark Connect, a cast to a type object makes a collated string, which delta-rs cannot open.
    """
    return value.cast(field.dataType.simpleString()).alias(field.name)


def struct_type(contract: type[Contract]) -> T.StructType:
    """The Spark schema that ``contract`` declares, with its nullability and column descriptions."""
    types = spark_types(contract)
    return T.StructType([_struct_field(name, types[name], field) for name, field in contract.fields().items()])


def violations(
    contract: type[Contract],
    texts: Mapping[str, Column] | None = None,
    columns: Iterable[str] | None = None,
    value: Callable[[str], Column] = F.col,
) -> Column:
    """Every reason why a row breaks ``contract``, as array<string>, empty for a sound row.

    ``texts`` has the landed text of typed columns: it distinguishes a null from a text that could not be read.
    ``columns`` limits the judgement to some of the contract's columns. ``value`` finds the typed value of a column.
    As in pandera, a null passes every check.
    """
    reasons = _all_reasons(contract, texts, columns, value)
    sound = F.array().cast("array<string>")
    if not reasons:
        return sound
    # Spark interprets array_compact and all that is in it, row by row; what comes first is compiled, and nearly all
    # rows are sound.
    return F.when(F.coalesce(*reasons).isNull(), sound).otherwise(F.array_compact(F.array(*reasons)))


def sound(
    contract: type[Contract],
    texts: Mapping[str, Column] | None = None,
    columns: Iterable[str] | None = None,
    value: Callable[[str], Column] = F.col,
) -> Column:
    """Whether a row has none of the :func:`violations`: never null, and small enough for Java to compile.

    Java leaves methods of more than 8,000 bytes to its interpreter, and the words of every reason would be in it.
    """
    declared = contract.fields()
    names = list(declared if columns is None else columns)
    return all_of(c for name in names for c in _soundness(value(name), declared[name], (texts or {}).get(name)))


def first_violation(contract: type[Contract]) -> Column:
    """The first of the :func:`violations` of a typed row, null for a sound row; never interpreted."""
    reasons = _all_reasons(contract)
    return F.coalesce(*reasons) if reasons else F.lit(None).cast("string")


def _all_reasons(
    contract: type[Contract],
    texts: Mapping[str, Column] | None = None,
    columns: Iterable[str] | None = None,
    value: Callable[[str], Column] = F.col,
) -> list[Column]:
    declared, types = contract.fields(), declared_types(contract)
    found: list[Column] = []
    for name in declared if columns is None else columns:
        found += _absence(name, value(name), declared[name], types[name], (texts or {}).get(name))
        found += [_breach(name, value(name), *verdict) for verdict in _verdicts(value(name), declared[name])]
    return found


def _verdicts(value: Column, field: DeclaredField) -> list[tuple[Column, str]]:
    return [judge(value, field.checks[check]) for check, judge in JUDGES.items() if check in field.checks]


def _soundness(value: Column, field: DeclaredField, text: Column | None) -> list[Column]:
    checks = [F.coalesce(fulfilled, F.lit(True)) for fulfilled, _ in _verdicts(value, field)]
    if not field.nullable:
        return [value.isNotNull(), *checks]
    return [*([] if text is None else [value.isNotNull() | text.isNull()]), *checks]


def _absence(name: str, value: Column, field: DeclaredField, kind: str, text: Column | None) -> list[Column]:
    missing = [F.when(value.isNull(), F.lit(f"{name}: is missing"))] if not field.nullable else []
    if text is None:
        return missing
    unreadable = F.concat(F.lit(f"{name}: '"), text, F.lit(f"' is not a {kind}"))
    as_landed = F.when(value.isNull() & text.isNotNull(), unreadable)
    return [F.coalesce(as_landed, *missing)]


def _breach(name: str, value: Column, fulfilled: Column, wrong: str) -> Column:
    return F.when(~fulfilled, F.concat(F.lit(f"{name}: {wrong} (was "), value.cast("string"), F.lit(")")))


def _struct_field(name: str, kind: T.DataType, field: DeclaredField) -> T.StructField:
    metadata = {"comment": field.description} if field.description else None
    return T.StructField(name, kind, field.nullable, metadata)
