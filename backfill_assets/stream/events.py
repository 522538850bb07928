"""From the events of a topic to raw rows: every event, as text, on the day it belongs to; null values delete keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from backfill_assets.landing.deletions import is_event, key_line, tombstones, unreadable
from backfill_assets.landing.raw_rows import readable_text, rows_of_lines
from backfill_assets.model.declaration import Source
from backfill_assets.stream.delays import SHARES, Received
from backfill_assets.stream.offsets import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TIMES, _EVENTS, _TOMBSTONES = "arrival_times", "events", "tombstones"
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since 1970: a later time is one in microseconds."""


@dataclass(frozen=True)
class EventsSeen:
    """What Spark saw of the events of a batch while it wrote them."""

    tombstones: int
    """Events without a value that may delete a key."""
    received: Received | None
    """When the topic received them; None for a batch without events, such as one of an aborted transaction."""

    @classmethod
    def of(cls, observed: Mapping[str, Any]) -> EventsSeen:
        """From what Spark observed by :func:`seen_events`."""
        times = observed.get(_TIMES)
        received = Received(int(observed[_EVENTS]), tuple(map(int, times))) if times else None
        return cls(int(observed.get(_TOMBSTONES) or 0), received)


def seen_events() -> list[Column]:
    """What Spark observes of a batch while it writes it."""
    return [
        F.percentile_approx(F.unix_millis(_received()), list(SHARES), 10_000).alias(_TIMES),
        F.count(F.lit(1)).alias(_EVENTS),
        F.count_if(is_tombstone()).alias(_TOMBSTONES),
    ]


def is_tombstone() -> Column:
    """Whether an event has a key and no value: it deletes its key."""
    return F.col("value").isNull() & F.col("key").isNotNull()


def _received() -> Column:
    """The time of a record. Kafka keeps milliseconds; microseconds of a producer are read as such.

    No day after the year 9999 can be a day of a table, so that such an event would stop the stream for good.
    """
    number = F.unix_millis("timestamp")
    return F.when(number > _LAST_MS, F.timestamp_micros(number)).otherwise(F.col("timestamp"))


def event_rows(spark: SparkSession, source: Source, topic: str, events: DataFrame, token_key_file: str) -> DataFrame:
    """One raw row for each of ``events``, which have the columns of Spark's Kafka source.

    ``source_file`` is ``kafka:<topic>/<partition>``, with ``topic`` as raw calls it, and ``source_line`` the offset.
    ``arrival_day`` is that of the record's timestamp, in UTC: reading an event again gives the same row. A null value
    is kept as the line ``null``, an empty one as ``""``, and one that is no UTF-8 as Base64; all are quarantined.
    """
    return rows_of_lines(spark, source, _lines(topic, events, _text(F.col("value"))), token_key_file)


def deleted_keys(spark: SparkSession, source: Source, topic: str, events: DataFrame, token_key_file: str) -> DataFrame:
    """The keys that tombstones among ``events`` delete: :func:`~backfill_assets.landing.deletions.tombstones`."""
    keys = key_line(source, _text(F.col("key")))
    return tombstones(spark, source, _lines(topic, events.where(is_tombstone()), keys), token_key_file)


def of_no_key(topic: str, events: DataFrame, tombs: DataFrame) -> DataFrame:
    """The tombstones among ``events`` that, by ``tombs``, name no key: their lines are kept, to be looked at."""
    unknown = tombs.where(unreadable(tombs))
    return events.where(is_tombstone()).join(unknown, is_event(unknown, _file(topic), F.col("offset")), "left_semi")


def _lines(topic: str, events: DataFrame, value: Column) -> DataFrame:
    return events.select(
        value.alias("value"),
        _file(topic).alias("source_file"),
        F.col("offset").alias("source_line"),
        F.to_date(_received()).alias("arrival_day"),
    )


def _file(topic: str) -> Column:
    return F.concat(F.lit(f"kafka:{topic}/"), "partition")


def within(ranges: Sequence[OffsetRange]) -> Column:
    """Whether an event is in one of ``ranges``."""
    partition, offset = F.col("partition"), F.col("offset")
    parts = ((partition == each.partition) & offset.between(each.first, each.end - 1) for each in ranges)
    return reduce(or_, parts, F.lit(False))


def _text(value: Column) -> Column:
    return F.when(value.cast("string") == "", F.lit('""')).otherwise(F.coalesce(readable_text(value), F.lit("null")))
