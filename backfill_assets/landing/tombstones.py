"""Tombstones: events by which a topic deletes a key. In raw they delete the rows of that key that came before them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.landing.deletions import as_deletions, standing_rows
from backfill_assets.landing.raw_rows import rows_of_lines
from backfill_assets.model.canonical import key_text
from backfill_assets.model.declaration import Source

_KEY, _DAY, _BY_FILE, _BY_LINE = "deleted key", "deleted day", "deleted by file", "deleted by line"
"""No landed field has a space in its name."""


def key_line(source: Source, key: Column) -> Column:
    """The key of an event as a landed line: a JSON object; or, where the key is one field, its text."""
    if len(source.key_fields) > 1:
        return key
    (name,) = source.key_fields
    return F.when(F.startswith(F.ltrim(key), F.lit("{")), key).otherwise(F.to_json(F.struct(key.alias(name))))


def tombstones(spark: SparkSession, source: Source, lines: DataFrame, token_key_file: str) -> DataFrame:
    """The key that each of ``lines`` deletes, and the event that does; null for a key that cannot be read.

    ``lines`` are those of :func:`~backfill_assets.landing.raw_rows.rows_of_lines`, with :func:`key_line` as values. A
    key that names the day of the event, too, is that of a row on that day.
    """
    rows = rows_of_lines(spark, source, lines, token_key_file)
    readable = reduce(and_, (F.length(name) > 0 for name in source.key_columns))
    return rows.select(
        F.when(readable, _key(source)).alias(_KEY),
        F.when(~F.col("day_is_arrival"), F.col("day")).alias(_DAY),
        F.col("source_file").alias(_BY_FILE),
        F.col("source_line").alias(_BY_LINE),
    )


def unreadable(tombs: DataFrame) -> Column:
    """Whether one of ``tombs`` names no key of its source."""
    return tombs[_KEY].isNull()


def is_event(tombs: DataFrame, file: Column, line: Column) -> Column:
    """Whether one of ``tombs`` is the event that ``file`` and ``line`` name."""
    return (tombs[_BY_FILE] == file) & (tombs[_BY_LINE] == line)


def rows_of_keys(source: Source, raw: DataFrame, tombs: DataFrame) -> DataFrame:
    """The rows of ``raw`` with a key that one of ``tombs`` deletes; also their deletions, and rows that came later."""
    return raw.join(F.broadcast(tombs), _is_of(source, raw, tombs), "left_semi")


def deletions_by(source: Source, raw: DataFrame, tombs: DataFrame) -> DataFrame:
    """The rows that cancel what ``tombs`` delete of ``raw``: each received row of the key that stands.

    Of the partition that a tombstone is in, only rows before it: a key can come again.
    """
    standing = standing_rows(rows_of_keys(source, raw, tombs)).where(F.col("source_file").isNotNull())
    came_before = (standing["source_file"] != tombs[_BY_FILE]) | (standing["source_line"] < tombs[_BY_LINE])
    return as_deletions(standing.join(F.broadcast(tombs), _is_of(source, standing, tombs) & came_before, "left_semi"))


def _is_of(source: Source, raw: DataFrame, tombs: DataFrame) -> Column:
    return (_key(source) == tombs[_KEY]) & (tombs[_DAY].isNull() | (tombs[_DAY] == raw["day"]))


def _key(source: Source) -> Column:
    """The values of a key as one text, however they are written."""
    values: Sequence[Column] = [key_text(source, name) for name in source.key_columns]
    return F.to_json(F.struct(*(value.alias(str(number)) for number, value in enumerate(values))))
