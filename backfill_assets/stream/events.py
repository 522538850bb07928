"""Raw rows of a topic's events: text on event days; null values delete keys.

Spark converts all times to microseconds first: one out of range fails the batch. Then the client here checks times, and
reads what Spark cannot. On other failures the batch is halved until each such event is alone; it is kept with the
reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.landing.deletions import is_event, tombstones, unreadable
from backfill_assets.landing.rows_of_lines import rows_of_lines
from backfill_assets.model.declaration import Source
from backfill_assets.model.event_format import declared_events
from backfill_assets.model.record_parts import Key, RecordTime, header_of
from backfill_assets.stream.broker import Broker, KafkaRecord, is_about_an_event, reason_of
from backfill_assets.stream.delays import SHARES, Received
from backfill_assets.stream.sources import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import Column


_TIMES, _EVENTS, _TOMBSTONES = "arrival_times", "events", "tombstones"


@dataclass(frozen=True)
class EventsSeen:
    """What Spark observed of a batch while it wrote it."""

    events: int
    tombstones: int
    received: Received | None
    """None without events, as in an aborted transaction."""

    @classmethod
    def of(cls, observed: Mapping[str, Any]) -> EventsSeen:
        events, tombstones = (int(observed.get(each) or 0) for each in (_EVENTS, _TOMBSTONES))
        times = observed.get(_TIMES)
        return cls(events, tombstones, Received(events, tuple(map(int, times))) if times else None)


def seen_events(source: Source, today: date) -> list[Column]:
    return [
        F.percentile_approx(F.unix_millis(_received(source, today)), list(SHARES), 10_000).alias(_TIMES),
        F.count(F.lit(1)).alias(_EVENTS),
        F.count_if(is_tombstone()).alias(_TOMBSTONES),
    ]


def is_tombstone() -> Column:
    return F.col("value").isNull() & F.col("key").isNotNull()


def _received(source: Source, today: date) -> Column:
    """Null if no broker can have received the record: producers may set any time.

    Milliseconds beyond the year 9999 are read as microseconds; a later day could be none of a table, and would stop the
    stream for good.
    """
    time = _in_range()
    latest = F.lit(today + timedelta(days=source.placement.days_ahead))
    return F.when(F.to_date(time).between(F.lit(_FIRST_BROKER), latest), time)


def _in_range() -> Column:
    number = F.unix_millis("timestamp")
    return F.when(number > _LAST_MS, F.timestamp_micros(number)).otherwise(F.col("timestamp"))


def event_lines(source: Source, topic: str, events: DataFrame, today: date) -> DataFrame:
    """``source_file`` is ``kafka:<topic>/<partition>`` with raw's name of the topic, ``source_line`` the offset,
    ``arrival_day`` the record's in UTC, so that reading again gives the same row; without a possible time the event's,
    or ``today``.

    Null values become ``null``, empty ones ``""``, invalid UTF-8 Base64: all are quarantined.
    """
    return _lines(source, topic, _in_json(source, events), F.col("value"), today)


def _in_json(source: Source, events: DataFrame) -> DataFrame:
    declared = declared_events(source)
    return declared.in_json(events, with_bytes=not source.personal_fields) if declared else events


def event_rows(source: Source, topic: str, events: DataFrame, token_key_file: str, today: date) -> DataFrame:
    return rows_of_lines(source, event_lines(source, topic, events, today), token_key_file, today)


def deleted_keys(source: Source, topic: str, events: DataFrame, token_key_file: str, today: date) -> DataFrame:
    keys = _lines(source, topic, events.where(is_tombstone()), F.col("key"), today)
    return tombstones(source, keys, token_key_file, today)


def of_no_key(topic: str, events: DataFrame, tombs: DataFrame) -> DataFrame:
    unknown = tombs.where(unreadable(tombs))
    return events.where(is_tombstone()).join(unknown, is_event(unknown, _file(topic), F.col("offset")), "left_semi")


def _lines(source: Source, topic: str, events: DataFrame, value: Column, today: date) -> DataFrame:
    return events.select(
        _line(value).alias("value"),
        _file(topic).alias("source_file"),
        F.col("offset").alias("source_line"),
        F.to_date(_received(source, today)).alias("arrival_day"),
        *(_part(name).alias(name) for name in source.record_fields),
    )


def _part(field: str) -> Column:
    if field == Key().field:
        return F.col("key")
    if field == RecordTime().field:
        # The client reads times in whole milliseconds.
        text = F.date_format(F.timestamp_millis(F.unix_millis(_in_range())), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
        return F.when(_in_range() >= F.timestamp_millis(F.lit(0)), text).cast("binary")
    named = F.filter("headers", lambda each: each["key"] == F.lit(header_of(field)))
    return F.try_element_at(named, F.lit(-1))["value"]


def _file(topic: str) -> Column:
    return F.concat(F.lit(f"kafka:{topic}/"), "partition")


def within(ranges: Sequence[OffsetRange]) -> Column:
    """Offsets are data: as literals, each batch would compile code of its own."""
    of = {each.partition: each for each in ranges}
    all_parts = [of.get(number, OffsetRange(number, 0, 0)) for number in range(max(of, default=0) + 1)]
    first, end = (_of_partition(part) for part in ([e.first for e in all_parts], [e.end for e in all_parts]))
    return (F.col("offset") >= first) & (F.col("offset") < end)


def _of_partition(offsets: Sequence[int]) -> Column:
    return F.get(F.array(*(F.lit(offset).cast("bigint") for offset in offsets)), F.col("partition"))


def _line(value: Column) -> Column:
    absent = F.when(value.isNull(), F.lit("null")).otherwise(F.lit('""'))
    return F.when(F.length(value) > 0, value).otherwise(absent.cast("binary"))


_READ_HERE = 500
"""If Spark cannot read a part of so few offsets, the client does."""
_NEAR = 100
"""Events between two odd ones closer than this are read by the client too: another Spark read takes longer."""
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999: later times are micro- or nanoseconds."""
_NO_TIME = datetime(1969, 12, 31, tzinfo=UTC)
_FIRST_BROKER = date(2011, 1, 1)
"""Times before Kafka's first release are 0, or of a wrong clock."""
_COLUMNS = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
    ]
)
_HEADERS = T.StructField(
    "headers",
    T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])),
)


def set_apart(
    ranges: Iterable[OffsetRange], is_sound: Callable[[OffsetRange], bool], smallest: int
) -> tuple[list[OffsetRange], list[OffsetRange]]:
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


def around(
    ranges: Iterable[OffsetRange], odd: Collection[tuple[int, int]], near: int
) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """Parts without ``odd`` events (partition, offset), and the others, joined where ``near``."""
    sound: list[OffsetRange] = []
    others: list[OffsetRange] = []
    for each in ranges:
        at = each.first
        within_it = sorted(offset for of, offset in odd if of == each.partition and each.first <= offset < each.end)
        for first, end in _clusters(within_it, near):
            sound += [replace(each, first=at, end=first)] if at < first else []
            others.append(replace(each, first=first, end=end))
            at = end
        sound += [replace(each, first=at)] if at < each.end else []
    return sound, others


def _clusters(offsets: Sequence[int], near: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and offset - found[-1][1] < near:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def event_time(sent: int | None) -> datetime:
    """Kafka has milliseconds; larger numbers are read as micro- or nanoseconds. Without a time it is before 1970, as
    Spark has it.
    """
    if sent is None or sent < 0:
        return _NO_TIME
    while sent > _LAST_MS:
        sent //= 1000
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=sent)


@dataclass(frozen=True)
class EachEvent:
    broker: Broker
    rows_of: Callable[[DataFrame], DataFrame]

    def with_odd_times(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """For failures on times alone: halving would cost two reads a step for each event."""
        odd = {(each.partition, each.offset) for part in ranges for each in self.broker.times(part) if _is_odd(each)}
        sound, others = around(ranges, odd, _NEAR)
        parts = [*map(self._by_spark, sound), *(self._here(self._readable(part)) for part in others)]
        return reduce(DataFrame.unionByName, parts)

    def _readable(self, part: OffsetRange) -> list[KafkaRecord]:
        records = self.broker.records(part)
        return [_with_reason(each, each.reason) if each.reason else each for each in records]

    def events(self, ranges: Sequence[OffsetRange]) -> DataFrame:
        """An event that cannot be read has ``{"unreadable": reason}`` as its value."""
        sound, others = set_apart(ranges, lambda part: self._fails(self._by_spark(part)) is None, _READ_HERE)
        parts = [
            *map(self._by_spark, sound),
            *(self._here(self._alone(self._readable(part))) for part in others),
        ]
        return reduce(DataFrame.unionByName, parts)

    def _by_spark(self, part: OffsetRange) -> DataFrame:
        return self.broker.read(part).select(*self._columns.names)

    def _alone(self, kept: Sequence[KafkaRecord]) -> list[KafkaRecord]:
        """If no row can be made of an event, the reason replaces its value."""
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
            (each.key, each.value, topic, each.partition, each.offset, event_time(each.time), *self._headers(each))
            for each in records
        ]
        return self.broker.spark.createDataFrame(rows, self._columns)

    @property
    def _columns(self) -> T.StructType:
        return T.StructType([*_COLUMNS, _HEADERS]) if self.broker.with_headers else _COLUMNS

    def _headers(self, record: KafkaRecord) -> list[object]:
        return [list(record.headers)] if self.broker.with_headers else []

    def _fails(self, events: DataFrame) -> Exception | None:
        try:
            self.rows_of(events).write.format("noop").mode("overwrite").save()
        except Exception as error:
            if not is_about_an_event(error):
                raise
            return error
        return None


def _is_odd(record: KafkaRecord) -> bool:
    return record.reason != "" or abs(record.time or 0) > _LAST_MS


def _with_reason(record: KafkaRecord, reason: str) -> KafkaRecord:
    """The value may be personal: it stays in the topic."""
    return replace(record, key=None, headers=(), value=json.dumps({"unreadable": reason}).encode(), reason="")
