"""Finds rows that gave way to one of equal key and version: delivered twice, or lost because the key is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.model.canonical import parsed
from backfill_assets.model.declaration import DUPLICATES, EXAMPLE, IDENTICAL, DayFacts, Metrics, Source, Table
from backfill_assets.model.landed import OCCURRENCE
from backfill_assets.model.refinement import with_occurrence
from backfill_assets.model.rules import FewDuplicates
from backfill_assets.quality.measures import collect_metrics

_PLACE = ("source_file", "source_line")
_VERSION = "version of the row"
"""No landed field has a space in its name."""


Rows = Callable[[FewDuplicates, Sequence[date]], tuple[DataFrame, DataFrame | None]]
"""The raw rows of some days, and the quarantined ones, None for no rows."""


def with_duplicates(table: Table, facts: Mapping[date, DayFacts], rows: Rows) -> dict[date, DayFacts]:
    """``facts`` with the rows that gave way to an equal version, on days that have too many deduplicated rows.

    Bronze says how many rows each winner stands for, and not which versions they had. So raw is read once more for
    these days, and only for them.
    """
    found = dict(facts)
    for rule in table.rules:
        if isinstance(rule, FewDuplicates) and (days := [day for day in facts if rule.looks_closer(facts[day])]):
            counted = measure_duplicates(*rows(rule, days), rule.source, table, days)
            found |= {day: replace(found[day], own={**found[day].own, **counted[day]}) for day in days}
    return found


def measure_duplicates(
    raw: DataFrame, quarantined: DataFrame | None, source: Source, table: Table, days: Sequence[date]
) -> dict[date, Metrics]:
    """The metrics of :func:`equal_versions` for each of ``days``; zeros where nothing gave way. One Spark job."""
    nothing: Metrics = {DUPLICATES: 0, IDENTICAL: 0, f"{DUPLICATES}{EXAMPLE}": ""}
    return {**dict.fromkeys(days, nothing), **collect_metrics(equal_versions(raw, quarantined, source, table))}


def equal_versions(raw: DataFrame, quarantined: DataFrame | None, source: Source, table: Table) -> DataFrame:
    """By day that has any: how many sound rows of ``raw`` gave way to an equal version, and to an identical line.

    The example has the places of two rows that met. ``quarantined`` has the rows of these days that are not sound; None
    for no rows.
    """
    received, at = raw.where(F.col("record_kind") == "received"), ["day", *_PLACE]
    sound = received if quarantined is None else received.join(quarantined.select(*at), at, "left_anti")
    numbered = with_occurrence(sound) if OCCURRENCE in table.key else sound.withColumn(OCCURRENCE, F.lit(1))
    keys = {name: parsed(F.col(name), source.type_of(name)) for name in key_columns(source, table)}
    version = parsed(F.col(source.version_field), source.type_of(source.version_field))
    typed = numbered.select(
        *("day", "content_hash", OCCURRENCE, F.struct(*_PLACE).alias("place"), version.alias(_VERSION)),
        *(value.alias(_typed_name(name)) for name, value in keys.items()),
    )
    met = typed.groupBy("day", OCCURRENCE, _VERSION, *map(_typed_name, keys)).agg(
        F.count("*").alias("rows"),
        F.size(F.collect_set("content_hash")).alias("contents"),
        F.min("place").alias("one"),
        F.max("place").alias("another"),
    )
    several = met.where(F.col("rows") > 1)
    places = (f"{place}.{name}" for place in ("one", "another") for name in _PLACE)
    return several.groupBy("day").agg(
        F.sum(F.col("rows") - 1).alias(DUPLICATES),
        F.sum(F.col("rows") - F.col("contents")).alias(IDENTICAL),
        F.min_by(F.format_string("%s:%d and %s:%d", *places), F.struct("one", "another")).alias(
            f"{DUPLICATES}{EXAMPLE}"
        ),
    )


def key_columns(source: Source, table: Table) -> tuple[str, ...]:
    """The key of ``table`` as raw columns: a key that bronze makes of several is that of the source."""
    names = tuple(name for name in table.key if name not in ("day", OCCURRENCE))
    return names if set(names) <= set(source.columns) else source.key_columns


def _typed_name(name: str) -> str:
    return f"{name} typed"
