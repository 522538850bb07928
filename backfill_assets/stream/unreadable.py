"""Events of a batch that cannot be read: the batch is halved until each stands alone, and is kept with its reason.

Spark turns the time of each event into microseconds before the event can be looked at, so one that is out of all range
ends the whole batch. A small part that Spark cannot read is read by the client of this process, event by event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import types as T

from backfill_assets.stream.broker import Broker, KafkaRecord, is_about_an_event, reason_of
from backfill_assets.stream.offsets import OffsetRange
from backfill_assets.stream.query import read_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READ_HERE = 500
"""A part of so many offsets that Spark cannot read is read by the client of this process."""
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since 1970: a later time is one in microseconds or nanoseconds."""
_EVENTS = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
    ]
)
"""The columns of Spark's Kafka source that are used."""


def set_apart(
    ranges: Iterable[OffsetRange], is_sound: Callable[[OffsetRange], bool], smallest: int
) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Those parts of ``ranges`` that are sound, as large as they can be; and the others, of at most ``smallest``."""
    sound: list[OffsetRange] = []
    others: list[OffsetRange] = []
    waiting = sorted(ranges, reverse=True)
    while waiting:
        part = waiting.pop()
        if is_sound(part):
            sound.append(part)
        elif part.offsets <= smallest:
            others.append(part)
        else:
            middle = part.first + part.offsets // 2
            waiting += [replace(part, first=middle), replace(part, end=middle)]
    return sound, others


def event_time(sent: int | None, otherwise: datetime) -> datetime:
    """The time of a record: Kafka's are in milliseconds, others are read as micro- or nanoseconds."""
    if sent is None or sent < 0:
        return otherwise
    while sent > _LAST_MS:
        sent //= 1000
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=sent)


@dataclass(frozen=True)
class EachEvent:
    """Reads ``ranges`` of a topic although one of its events cannot be read. ``rows_of`` makes raw rows of events."""

    spark: SparkSession
    broker: Broker
    properties: Mapping[str, str]
    """Kafka client properties; may hold secrets."""
    rows_of: Callable[[DataFrame], DataFrame]
    now: datetime
    """The time of an event that has none."""

    def events(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """All events of ``ranges``; one that cannot be read has ``{"unreadable": reason}`` as its value."""
        sound, others = set_apart(ranges, lambda part: self._fails(self._by_spark(part)) is None, _READ_HERE)
        parts = [
            *map(self._by_spark, sound),
            *(self._here(self._alone(list(self.broker.records(part)))) for part in others),
        ]
        return reduce(lambda one, other: one.unionByName(other), parts)

    def _by_spark(self, part: OffsetRange) -> DataFrame:
        found = read_range(self.spark, self.broker.source, part.partition, part.first, part.end, self.properties)
        return found.select(*_EVENTS.names)

    def _alone(self, records: Sequence[KafkaRecord]) -> list[KafkaRecord]:
        """``records``, each of them readable: the value of one that is not is replaced by the reason."""
        kept = [_with_reason(each, each.reason) if each.reason else each for each in records]
        why: dict[int, str] = {}

        def is_sound(part: OffsetRange) -> bool:
            problem = self._fails(self._here(kept[part.first : part.end]))
            if problem is not None:
                why[part.first] = reason_of(problem)
            return problem is None

        _, others = set_apart([OffsetRange(0, 0, len(kept))], is_sound, 1)
        broken = {part.first: why[part.first] for part in others}
        return [_with_reason(each, broken[number]) if number in broken else each for number, each in enumerate(kept)]

    def _here(self, records: Sequence[KafkaRecord]) -> DataFrame:
        topic = self.broker.source.topic
        rows = [
            (each.key, each.value, topic, each.partition, each.offset, event_time(each.time, self.now))
            for each in records
        ]
        return self.spark.createDataFrame(rows, _EVENTS)

    def _fails(self, events: DataFrame) -> Exception | None:
        try:
            self.rows_of(events).write.format("noop").mode("overwrite").save()
        except Exception as error:
            if not is_about_an_event(error):
                raise
            return error
        return None


def _with_reason(record: KafkaRecord, reason: str) -> KafkaRecord:
    """The value itself may hold personal data in any form: it stays in the topic, where the offset finds it."""
    return replace(record, key=None, value=json.dumps({"unreadable": reason}).encode(), reason="")
