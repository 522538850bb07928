"""Doubles with ``digits`` count rounded, half away from zero: the last bits of sums depend on the order. At a rounding
boundary sums still differ, rarely.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, cast

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.model.contract import SIGNIFICANT_DIGITS
from backfill_assets.model.of_duckdb import of_duckdb

if TYPE_CHECKING:
    import ibis.expr.types as ir


def in_digits(value: Column | str, digits: int) -> Column:
    """decimal(38, digits), for sums in transforms; null beyond 15 digits in all."""
    whole = in_units(F.col(value) if isinstance(value, str) else value, digits)
    scaled = whole.try_cast(f"decimal({SIGNIFICANT_DIGITS + 1},0)")
    unit = F.lit(Decimal(1).scaleb(-digits)).cast(f"decimal({digits + 1},{digits})")
    return (scaled * unit).cast(f"decimal(38,{digits})")


def in_units(value: Column, digits: int) -> Column:
    """Hashed: units of the last digit, as a whole double."""
    return F.round(value.cast("double") * F.lit(10.0**digits))


def units_of(value: ir.NumericValue, digits: int) -> ir.FloatingValue:
    return cast("ir.FloatingValue", of_duckdb("round", "float64", value.cast("float64") * 10.0**digits))


def decimal_of(value: ir.NumericValue, digits: int) -> ir.DecimalValue:
    """:func:`in_digits` in DuckDB."""
    return cast("ir.DecimalValue", value.cast("float64").try_cast(f"decimal(38, {digits})"))
