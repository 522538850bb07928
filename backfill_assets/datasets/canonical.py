"""Landed text, its typed value, and the one text form both share: what content hashes are computed from.

``content_hash`` is XXH64 over ``name=value`` of every landed field that is not null. A raw row computes it from its
text, a typed row from its values, and both get the same number, whichever way the source wrote an amount.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.datasets.dataset import Source
from backfill_assets.errors import InvalidRequest

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "bigint": r"^[+-]?[0-9]{1,18}$",
        "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        "timestamp": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z$",
    }
)


def parsed(text: Column, spark_type: str) -> Column:
    """The value of ``text``, or null. Nothing is guessed or rounded: ``12.345`` is no decimal(18,2)."""
    if spark_type == "string":
        return text
    pattern = _pattern(spark_type)
    return F.when(text.rlike(pattern), text.try_cast(spark_type))


def canonical(value: Column, spark_type: str) -> Column:
    """The one text of a typed value: amounts with all their decimals, moments in microseconds since 1970 UTC."""
    return (F.unix_micros(value) if spark_type == "timestamp" else value).cast("string")


def content_hash_of_text(source: Source, column: Callable[[str], Column] = F.col) -> Column:
    """The content hash of a raw row (bigint); text that is no value counts as it stands."""
    return _content_hash(source, lambda name: _canonical_text(column(name), source.type_of(name)))


def content_hash_of_values(source: Source, column: Callable[[str], Column] = F.col) -> Column:
    """The content hash of a typed row (bigint), equal to that of the raw row it came from."""
    return _content_hash(source, lambda name: canonical(column(name), source.type_of(name)))


def raw_content_hash(source: Source) -> Column:
    """The content hash of any received raw row, also of a line that is no JSON object."""
    unparsed = F.col("unparsed_line")
    return F.when(unparsed.isNotNull(), F.xxhash64(unparsed)).otherwise(content_hash_of_text(source))


def _canonical_text(text: Column, spark_type: str) -> Column:
    if spark_type == "string":
        return text
    return F.coalesce(canonical(parsed(text, spark_type), spark_type), text)


def _content_hash(source: Source, text: Callable[[str], Column]) -> Column:
    # XXH64 in Spark passes over nulls; the name in front keeps two fields that change places apart.
    return F.xxhash64(*[F.concat(F.lit(f"{name}="), text(name)) for name in source.columns])


def _pattern(spark_type: str) -> str:
    decimal = _DECIMAL.fullmatch(spark_type)
    if decimal is None:
        if spark_type not in _PATTERNS:
            raise InvalidRequest(
                f"Landed text cannot be typed as {spark_type}.",
                hint=f"Use one of {', '.join(_PATTERNS)}, decimal(p,s).",
            )
        return _PATTERNS[spark_type]
    precision, scale = int(decimal[1]), int(decimal[2])
    fraction = rf"([.][0-9]{{1,{scale}}}0*)?" if scale else ""
    return rf"^[+-]?[0-9]{{1,{precision - scale}}}{fraction}$"
