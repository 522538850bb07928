"""The values of landed text as the judge reads them: those that ``model/canonical.py`` has Spark read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from backfill_assets.model.declaration import landed_pattern

if TYPE_CHECKING:
    import ibis.expr.types as ir

_HOUR, _SECONDS = 11, 19
"""Where the hour of a moment begins in its text, and where its seconds end."""
_OFFSET = "([+-])([0-9]{2}):?([0-9]{2})?$"
_LINE_END = r"(\r\n|[\r\n])?"
"""A pattern of Java's that ends in ``$`` allows one behind the text, and a cast of Spark's cuts it off."""


def key_value(text: ir.StringColumn, spark_type: str) -> ir.StringValue:
    """As ``key_value`` of ``model/canonical.py`` writes it: moments have no zeros at their end."""
    value = typed_value(text, spark_type)
    return value.re_replace("[.]?0*Z$", "Z") if spark_type == "timestamp" else value.cast("string")


def joined_key(parts: Sequence[tuple[ir.StringColumn, str]]) -> ir.StringValue:
    """The key that landed texts, each of a type, are joined to: as ``joined_key`` of ``model/canonical.py``."""
    import ibis

    texts = [text if kind == "string" else key_value(text, kind).fill_null(text) for text, kind in parts]
    escaped = [text.replace("\\", "\\\\").replace("-", "\\-") for text in texts[:-1]]
    lacking = reduce(or_, (text.fill_null("") == "" for text, _ in parts))
    return lacking.ifelse(ibis.null("string"), ibis.literal("-").join([*escaped, texts[-1]]))


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
    """In UTC: the point and six digits behind the seconds, whether or not a fraction was written."""
    behind = moment.rstrip().substr(_SECONDS)
    fraction = behind.re_extract("^[.]([0-9]+)", 1) + "000000"
    away = behind.re_extract(_OFFSET, 0)
    in_utc = _is_utc(away).ifelse(moment.left(_SECONDS), _moved(moment.left(_SECONDS), away))
    return in_utc + "." + fraction.left(6) + "Z"


def _is_utc(away: ir.StringValue) -> ir.BooleanValue:
    """Such a moment stays text as it is, whatever its year."""
    return away.re_replace("[^1-9]", "") == ""


def _moved(local: ir.StringValue, away: ir.StringValue) -> ir.StringValue:
    """The seconds in UTC of a time on a clock that is so far ``away``."""
    hours, minutes = (away.re_extract(_OFFSET, part).nullif("").try_cast("int64").fill_null(0) for part in (2, 3))
    behind = (away.left(1) == "-").ifelse(1, -1) * (60 * hours + minutes)
    moved = local.try_cast("timestamp") + behind.as_interval("m")
    return moved.strftime("%Y-%m-%dT%H:%M:%S")
