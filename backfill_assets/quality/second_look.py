"""What is looked for in the rows of days that have too many deduplicated or rejected ones, and of no other day.

Rows may have given way to one of equal key and version: delivered twice, or lost because the key is wrong. Rejected
rows may have come again, sound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill_assets.model.canonical import parsed
from backfill_assets.model.declaration import (
    CORRECTED,
    DUPLICATES,
    EXAMPLE,
    IDENTICAL,
    OCCURRENCE,
    DayFacts,
    Metrics,
    Source,
    Table,
)
from backfill_assets.model.refinement import with_occurrence
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.quality.measures import as_metrics

_PLACE = ("source_file", "source_line")
_VERSION = "version of the row"
"""No landed field has a space in its name."""


Rows = Callable[[FewDuplicates | FewRejected, Sequence[date]], tuple[DataFrame, DataFrame | None]]
"""The raw rows of some days, and the quarantined ones, None for no rows."""


def with_second_look(table: Table, facts: Mapping[date, DayFacts], rows: Rows) -> dict[date, DayFacts]:
    """``facts`` with the rows that gave way to an equal version, and with the rejected ones that came again, sound.

    Bronze says how many rows each winner stands for, and not which versions they had. So raw is read once more for
    days that have too many of them, and only for these.
    """
    found = dict(facts)
    for rule in table.rules:
        if not isinstance(rule, FewDuplicates | FewRejected):
            continue
        if days := [day for day in facts if rule.looks_closer(facts[day])]:
            measure = measure_duplicates if isinstance(rule, FewDuplicates) else measure_corrected
            counted = measure(*rows(rule, days), rule.source, table, days)
            found |= {day: replace(found[day], own={**found[day].own, **counted[day]}) for day in days}
    return found


def measure_duplicates(
    raw: DataFrame, quarantined: DataFrame | None, source: Source, table: Table, days: Sequence[date]
) -> dict[date, Metrics]:
    """The metrics of :func:`equal_versions` for each of ``days``; zeros where nothing gave way. One Spark job."""
    nothing: Metrics = {DUPLICATES: 0, IDENTICAL: 0, f"{DUPLICATES}{EXAMPLE}": ""}
    return {**dict.fromkeys(days, nothing), **_collect(equal_versions(raw, quarantined, source, table))}


def equal_versions(raw: DataFrame, quarantined: DataFrame | None, source: Source, table: Table) -> DataFrame:
    """By day that has any: how many sound rows of ``raw`` gave way to an equal version, and to an identical line.

    The example has the places of two rows that met. ``quarantined`` has the rows of these days that are not sound; None
    for no rows.
    """
    sound = _sound(raw, quarantined)
    numbered = with_occurrence(sound) if OCCURRENCE in table.key else sound.withColumn(OCCURRENCE, F.lit(1))
    keys = key_columns(source, table)
    version = parsed(F.col(source.version_field), source.type_of(source.version_field))
    typed = numbered.select(
        *("day", "content_hash", OCCURRENCE, F.struct(*_PLACE).alias("place"), version.alias(_VERSION)),
        *_typed(source, keys),
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


def measure_corrected(
    raw: DataFrame, quarantined: DataFrame | None, source: Source, table: Table, days: Sequence[date]
) -> dict[date, Metrics]:
    """By day: how many ``quarantined`` rows came again, sound, in a version that is as new or newer. One Spark job.

    Of a rejected row whose version cannot be read, what arrived on its day or later is as new.
    """
    counted = {} if quarantined is None else _collect(corrected(raw, quarantined, source, table))
    return {day: counted.get(day, {CORRECTED: 0}) for day in days}


def corrected(raw: DataFrame, quarantined: DataFrame, source: Source, table: Table) -> DataFrame:
    """By day that has any: how many ``quarantined`` rows have a sound one of their key in ``raw``, as new or newer."""
    names = key_columns(source, table)
    rejects, sound = (
        rows.select("day", "arrival_day", *_PLACE, *_typed(source, (*names, source.version_field))).alias(side)
        for side, rows in (("rejected", quarantined), ("sound", _sound(raw, quarantined)))
    )
    same = [F.col(f"rejected.{name}") == F.col(f"sound.{name}") for name in ("day", *map(_typed_name, names))]
    version = _typed_name(source.version_field)
    is_newer = F.col(f"sound.{version}") >= F.col(f"rejected.{version}")
    came_later = F.col("sound.arrival_day") >= F.col("rejected.arrival_day")
    again = rejects.join(sound, [*same, F.coalesce(is_newer, came_later)], "left_semi")
    return again.groupBy("day").agg(F.count("*").alias(CORRECTED))


def _sound(raw: DataFrame, quarantined: DataFrame | None) -> DataFrame:
    received, at = raw.where(F.col("record_kind") == "received"), ["day", *_PLACE]
    return received if quarantined is None else received.join(quarantined.select(*at), at, "left_anti")


def _typed(source: Source, names: Sequence[str]) -> list[Column]:
    return [parsed(F.col(name), source.type_of(name)).alias(_typed_name(name)) for name in names]


def key_columns(source: Source, table: Table) -> tuple[str, ...]:
    """The key of ``table`` as raw columns: a key that bronze makes of several is that of the source."""
    names = tuple(name for name in table.key if name not in ("day", OCCURRENCE))
    return names if set(names) <= set(source.columns) else source.key_columns


def _typed_name(name: str) -> str:
    return f"{name} typed"


def _collect(found: DataFrame) -> dict[date, Metrics]:
    """The metrics of each ``day`` of ``found``. Runs Spark."""
    return {row["day"]: as_metrics(row.asDict()) for row in found.collect()}
