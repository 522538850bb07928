"""From the events of a topic to raw rows: every event, as text, on the day it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from backfill_assets.landing.raw_rows import readable_text, rows_of_lines
from backfill_assets.model.declaration import Source
from backfill_assets.stream.delays import Delays
from backfill_assets.stream.offsets import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TIMES = "arrival_times"
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since 1970: a later time is one in microseconds."""


@dataclass(frozen=True)
class ArrivalTimes:
    """When a topic received the events of a batch, in milliseconds since 1970: the middle one, and the oldest 1 %."""

    middle_ms: int
    oldest_ms: int

    @classmethod
    def of(cls, observed: Mapping[str, Any]) -> ArrivalTimes | None:
        """From what Spark observed by :func:`arrival_times`; None for a batch without events."""
        times = observed.get(_TIMES)
        return cls(int(times[1]), int(times[0])) if times else None

    def delays(self, now: datetime) -> Delays:
        """How late the events are, if they are published ``now``. Clocks of two machines may differ."""
        at = now.timestamp()
        return Delays(max(0.0, at - self.middle_ms / 1000), max(0.0, at - self.oldest_ms / 1000))


def arrival_times() -> list[Column]:
    """What Spark observes of a batch while it writes it."""
    return [F.percentile_approx(F.unix_millis(_received()), [0.01, 0.5], 10_000).alias(_TIMES)]


def _received() -> Column:
    """The time of a record. Kafka keeps milliseconds; microseconds of a producer are read as such.

    No day after the year 9999 can be a day of a table, so that such an event would stop the stream for good.
    """
    number = F.unix_millis("timestamp")
    return F.when(number > _LAST_MS, F.timestamp_micros(number)).otherwise(F.col("timestamp"))


def event_rows(spark: SparkSession, source: Source, events: DataFrame, token_key_file: str) -> DataFrame:
    """One raw row for each of ``events``, which have the columns of Spark's Kafka source.

    ``source_file`` is ``kafka:<topic>/<partition>``, ``source_line`` the offset. ``arrival_day`` is that of the
    record's timestamp, in UTC: reading an event again gives the same row. A null value is kept as the line ``null``,
    an empty one as ``""``, and one that is no UTF-8 as Base64; all are quarantined.
    """
    lines = events.select(
        _text(F.col("value")).alias("value"),
        F.concat(F.lit("kafka:"), "topic", F.lit("/"), "partition").alias("source_file"),
        F.col("offset").alias("source_line"),
        F.to_date(_received()).alias("arrival_day"),
    )
    return rows_of_lines(spark, source, lines, token_key_file)


def within(ranges: Sequence[OffsetRange]) -> Column:
    """Whether an event is in one of ``ranges``."""
    partition, offset = F.col("partition"), F.col("offset")
    parts = ((partition == each.partition) & offset.between(each.first, each.end - 1) for each in ranges)
    return reduce(or_, parts, F.lit(False))


def _text(value: Column) -> Column:
    return F.when(value.cast("string") == "", F.lit('""')).otherwise(F.coalesce(readable_text(value), F.lit("null")))
