"""The values of landed text as the judge reads them: those that ``model/canonical.py`` has Spark read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_assets.model.declaration import landed_pattern

if TYPE_CHECKING:
    import ibis.expr.types as ir

_HOUR, _SECONDS = 11, 19
"""Where the hour of a moment begins in its text, and where its seconds end."""
_LINE_END = r"(\r\n|[\r\n])?"
"""A pattern of Java's that ends in ``$`` allows one behind the text, and a cast of Spark's cuts it off."""


def key_value(text: ir.StringColumn, spark_type: str) -> ir.StringValue:
    """As ``key_value`` of ``model/canonical.py`` writes it: moments have no zeros at their end."""
    value = typed_value(text, spark_type)
    return value.re_replace("[.]?0*Z$", "Z") if spark_type == "timestamp" else value.cast("string")


def typed_value(text: ir.StringColumn, spark_type: str) -> ir.Value:
    """The value of ``text`` in a form that compares as its type does, or null, as ``parsed`` of ``model/canonical.py``.

    Days and moments stay text, whose order is theirs: years have four digits, and moments are given six behind the
    point.
    """
    import ibis

    if spark_type == "string":
        return text
    allowed = text.re_search(f"^{landed_pattern(spark_type)}{_LINE_END}$")
    if spark_type == "date":
        return (allowed & text.try_cast("date").notnull()).ifelse(text.rstrip(), ibis.null("string"))
    if spark_type == "timestamp":
        return (allowed & _exists(text)).ifelse(_micros(text), ibis.null("string"))
    kind = "int64" if spark_type == "bigint" else spark_type
    return allowed.ifelse(text.try_cast(kind), ibis.null(kind))


def _exists(moment: ir.StringColumn) -> ir.BooleanValue:
    """DuckDB takes 24:00:00 for the next midnight."""
    return moment.left(_SECONDS).try_cast("timestamp").notnull() & (moment.substr(_HOUR, 2) < "24")


def _micros(moment: ir.StringColumn) -> ir.StringValue:
    """The point and six digits behind the seconds, whether or not a fraction was written."""
    fraction = moment.rstrip().replace("Z", "").substr(_SECONDS + 1) + "000000"
    return moment.left(_SECONDS) + "." + fraction.left(6) + "Z"
