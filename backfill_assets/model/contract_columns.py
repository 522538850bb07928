"""A table's pandera contract as Spark columns, so that rows are judged in the pass that computes them.

Pandera itself runs one Spark job per check. A closed set of its built-in checks is translated here by name and
statistics; a contract that uses anything else cannot be declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    from backfill_assets.model.contract import Contract

Statistics = Mapping[str, Any]
Translation = tuple[Column, str]
"""What a sound value fulfils, and how a value that does not is described."""


def _at_least(value: Column, s: Statistics) -> Translation:
    return value >= F.lit(s["min_value"]), f"not greater than or equal to {s['min_value']}"


def _more_than(value: Column, s: Statistics) -> Translation:
    return value > F.lit(s["min_value"]), f"not greater than {s['min_value']}"


def _at_most(value: Column, s: Statistics) -> Translation:
    return value <= F.lit(s["max_value"]), f"not less than or equal to {s['max_value']}"


def _less_than(value: Column, s: Statistics) -> Translation:
    return value < F.lit(s["max_value"]), f"not less than {s['max_value']}"


def _in_range(value: Column, s: Statistics) -> Translation:
    low = value >= F.lit(s["min_value"]) if s["include_min"] else value > F.lit(s["min_value"])
    high = value <= F.lit(s["max_value"]) if s["include_max"] else value < F.lit(s["max_value"])
    opening, closing = "[" if s["include_min"] else "(", "]" if s["include_max"] else ")"
    return low & high, f"not in {opening}{s['min_value']}, {s['max_value']}{closing}"


def _equal(value: Column, s: Statistics) -> Translation:
    return value == F.lit(s["value"]), f"not equal to {s['value']}"


def _not_equal(value: Column, s: Statistics) -> Translation:
    return value != F.lit(s["value"]), f"equal to {s['value']}"


def _one_of(value: Column, s: Statistics) -> Translation:
    allowed = list(s["allowed_values"])
    return value.isin(allowed), f"not one of {', '.join(map(str, allowed))}"


def _none_of(value: Column, s: Statistics) -> Translation:
    forbidden = list(s["forbidden_values"])
    return ~value.isin(forbidden), f"one of {', '.join(map(str, forbidden))}"


def _matches(value: Column, s: Statistics) -> Translation:
    given = str(getattr(s["pattern"], "pattern", s["pattern"]))
    pattern = given if given.startswith("^") else f"^{given}"
    return value.rlike(pattern), f"does not match {pattern}"


def _long(value: Column, s: Statistics) -> Translation:
    exact, least, most = s.get("exact_value"), s.get("min_value"), s.get("max_value")
    least, most = (exact, exact) if exact is not None else (least, most)
    bounds = [F.length(value) >= least] if least is not None else []
    bounds += [F.length(value) <= most] if most is not None else []
    return all_of(bounds), f"not {least or 0}..{'' if most is None else most} characters long"


CHECKS: Mapping[str, Callable[[Column, Statistics], Translation]] = MappingProxyType(
    {
        "greater_than_or_equal_to": _at_least,
        "greater_than": _more_than,
        "less_than_or_equal_to": _at_most,
        "less_than": _less_than,
        "in_range": _in_range,
        "equal_to": _equal,
        "not_equal_to": _not_equal,
        "isin": _one_of,
        "notin": _none_of,
        "str_matches": _matches,
        "str_length": _long,
    }
)


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
    columns = contract.to_schema().columns.items()
    return T.StructType([_struct_field(name, column) for name, column in columns])


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
    declared = contract.to_schema().columns
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
    declared = contract.to_schema().columns
    names = list(declared if columns is None else columns)
    return [r for name in names for r in _reasons(name, value(name), declared[name], (texts or {}).get(name))]


def _reasons(name: str, value: Column, column: Any, text: Column | None) -> list[Column]:
    return [*_absence(name, value, column, text), *(_breach(name, value, check) for check in column.checks)]


def _soundness(value: Column, column: Any, text: Column | None) -> list[Column]:
    checks = [F.coalesce(CHECKS[check.name](value, check.statistics)[0], F.lit(True)) for check in column.checks]
    if not column.nullable:
        return [value.isNotNull(), *checks]
    return [*([] if text is None else [value.isNotNull() | text.isNull()]), *checks]


def _absence(name: str, value: Column, column: Any, text: Column | None) -> list[Column]:
    missing = [F.when(value.isNull(), F.lit(f"{name}: is missing"))] if not column.nullable else []
    if text is None:
        return missing
    unreadable = F.concat(F.lit(f"{name}: '"), text, F.lit(f"' is not a {_spark_type(column).simpleString()}"))
    as_landed = F.when(value.isNull() & text.isNotNull(), unreadable)
    return [F.coalesce(as_landed, *missing)]


def _breach(name: str, value: Column, check: Any) -> Column:
    sound, wrong = CHECKS[check.name](value, check.statistics)
    return F.when(~sound, F.concat(F.lit(f"{name}: {wrong} (was "), value.cast("string"), F.lit(")")))


def _struct_field(name: str, column: Any) -> T.StructField:
    metadata = {"comment": column.description} if column.description else None
    return T.StructField(name, _spark_type(column), bool(column.nullable), metadata)


def _spark_type(column: Any) -> T.DataType:
    native: T.DataType | type[T.DataType] = column.dtype.type
    return native() if isinstance(native, type) else native
