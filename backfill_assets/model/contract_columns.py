"""A table's contract as Spark columns: rows that break it are set aside in the pass that computes them.

What was written is judged by pandera's own checks; tests compare the verdicts of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.model.checks import KINDS
from backfill_assets.model.contract import Contract, DeclaredField, declared_types, spark_types


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
    asked = [(check, field.checks[name]) for name, check in KINDS.items() if name in field.checks]
    return [(check.spark(value, limit), check.wrong(limit)) for check, limit in asked]


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
