"""Doubles that are declared with ``digits``: what they count as, in whatever order they were added up.

A sum of doubles is another one in another order of rows, in its last bits. So one with ``digits`` counts as its value
rounded to as many digits behind the point, half away from zero: in the hash of its row, in a total and in a difference.
Two sums may still count as different if a border between two such values lies between them. That is rare where there
are some digits more than the sums are good for; the last bits begin at the fifteenth digit or later.
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
    """``value`` as decimal(38, digits), for sums in a transform: the same in any order, and as totals are measured.

    Null where it is not a number, or has more than 15 digits in all.
    """
    whole = in_units(F.col(value) if isinstance(value, str) else value, digits)
    scaled = whole.try_cast(f"decimal({SIGNIFICANT_DIGITS + 1},0)")
    unit = F.lit(Decimal(1).scaleb(-digits)).cast(f"decimal({digits + 1},{digits})")
    return (scaled * unit).cast(f"decimal(38,{digits})")


def in_units(value: Column, digits: int) -> Column:
    """What a double counts as in the hash of its row: how many units of its last digit, as a whole double."""
    return F.round(value.cast("double") * F.lit(10.0**digits))


def units_of(value: ir.NumericValue, digits: int) -> ir.FloatingValue:
    """:func:`in_units` as DuckDB computes it."""
    return cast("ir.FloatingValue", of_duckdb("round", "float64", value.cast("float64") * 10.0**digits))


def decimal_of(value: ir.NumericValue, digits: int) -> ir.DecimalValue:
    """:func:`in_digits` as DuckDB computes it: what is added up, and compared in a difference."""
    return cast("ir.DecimalValue", value.cast("float64").try_cast(f"decimal(38, {digits})"))
