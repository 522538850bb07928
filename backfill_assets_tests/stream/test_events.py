"""A batch that cannot be read is halved until its unreadable events stand alone; a broker that is away is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import SourceOfFiles
from backfill_assets.stream.broker import BrokerAway, broker_away, is_about_an_event, reason_of
from backfill_assets.stream.events import _in_json, around, event_time, set_apart, within
from backfill_assets.stream.sources import KafkaTopic, OffsetRange

MOMENT = datetime(2026, 3, 2, 10, tzinfo=UTC)


@given(st.integers(1, 60), st.sets(st.integers(0, 59)), st.integers(1, 8))
def test_every_offset_is_in_one_part_and_the_broken_ones_are_set_apart(
    end: int, broken: set[int], smallest: int
) -> None:
    def is_sound(part: OffsetRange) -> bool:
        return not broken.intersection(range(part.first, part.end))

    sound, others = set_apart([OffsetRange(0, 0, end)], is_sound, smallest)
    offsets = [offset for part in (*sound, *others) for offset in range(part.first, part.end)]
    assert sorted(offsets) == list(range(end))
    assert all(map(is_sound, sound)) and not any(map(is_sound, others))
    assert all(each.offsets <= smallest for each in others)


def test_one_broken_event_costs_two_looks_each_time_that_its_part_is_halved() -> None:
    looks: list[OffsetRange] = []

    def is_sound(part: OffsetRange) -> bool:
        looks.append(part)
        return not part.first <= 700 < part.end

    _, others = set_apart([OffsetRange(0, 0, 1024), OffsetRange(1, 5, 9)], is_sound, 1)
    assert others == [OffsetRange(0, 700, 701)] and len(looks) == 1 + 2 * 10 + 1


@given(st.sets(st.tuples(st.integers(0, 1), st.integers(0, 70))), st.integers(0, 20))
def test_every_offset_is_in_one_part_and_odd_ones_in_few_parts_of_their_own(
    odd: set[tuple[int, int]], near: int
) -> None:
    ranges = [OffsetRange(0, 3, 50), OffsetRange(1, 0, 60)]
    sound, others = around(ranges, odd, near)

    def offsets(parts: list[OffsetRange]) -> list[tuple[int, int]]:
        return [(part.partition, offset) for part in parts for offset in range(part.first, part.end)]

    asked = offsets(ranges)
    assert sorted([*offsets(sound), *offsets(others)]) == asked
    assert odd.intersection(asked) <= set(offsets(others))
    assert all((part.partition, end) in odd for part in others for end in (part.first, part.end - 1)) or near
    assert all(part.offsets >= near for part in sound if part.first not in (0, 3) and part.end not in (50, 60))


@pytest.mark.parametrize("unit", [1_000, 1_000_000, 1_000_000_000], ids=["milliseconds", "microseconds", "nanoseconds"])
def test_the_time_of_a_record_is_read_in_the_unit_that_gives_a_day_of_this_age(unit: int) -> None:
    assert event_time(int(MOMENT.timestamp() * unit)) == MOMENT


@pytest.mark.parametrize("sent", [None, -1])
def test_an_event_without_a_time_has_none_that_is_possible(sent: int | None) -> None:
    assert event_time(sent).year < 1970


def test_bytes_that_may_be_of_a_person_stay_in_the_topic() -> None:
    """What cannot be decoded is kept in raw with its bytes otherwise."""

    class Told:
        def in_json(self, events: Any, *, with_bytes: bool) -> Any:
            return with_bytes

    def told(source: Source) -> Any:
        return _in_json(source, unread)

    source = SourceOfFiles(**vars(SALES.source), events=Told())
    unread: Any = None
    assert source.personal_fields and told(source) is False
    assert told(replace(source, personal_fields={})) is True
    assert told(SALES.source) is None, "JSON"


OVERFLOW = "java.lang.ArithmeticException: long overflow\n\tat java.base/java.lang.Math.multiplyExact"
CAST = "[TASK_WRITE_FAILED] of x: SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'ana'"
KEY = "org.apache.kafka.common.errors.RecordDeserializationException: key 'ana'"


@pytest.mark.parametrize(
    ("text", "reason"),
    [(OVERFLOW, "ArithmeticException"), (CAST, "CAST_INVALID_INPUT"), (KEY, "RecordDeserializationException")],
)
def test_the_reason_quotes_nothing_of_the_event(text: str, reason: str) -> None:
    assert is_about_an_event(Exception(text)) and reason_of(Exception(text)) == reason


def test_an_error_of_the_machine_is_no_event_s() -> None:
    assert not is_about_an_event(Exception("java.io.IOException: No space left on device"))
    assert not is_about_an_event(Exception("org.apache.kafka.common.errors.TimeoutException: no broker"))


# ------------------------ which errors say that no broker answers: those of Kafka's client and of Spark's connector


TOPIC = KafkaTopic("there:9092", "sales")


@pytest.mark.parametrize(
    "said",
    [
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed out",
        "org.apache.kafka.common.errors.DisconnectException: Cancelled in-flight METADATA request",
        "org.apache.kafka.common.errors.BrokerNotAvailableException",
        "java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 512 milliseconds",
        "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given in bootstrap.servers",
    ],
)
def test_a_broker_that_does_not_answer_is_named(said: str) -> None:
    away = broker_away(TOPIC, RuntimeError(said))
    assert isinstance(away, BrokerAway) and away.message == "No Kafka broker answers at there:9092."


@pytest.mark.parametrize(
    "said",
    [
        "java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]",
        "org.apache.spark.rpc.RpcTimeoutException: Cannot receive any reply in 120 seconds",
    ],
)
def test_a_timeout_of_spark_is_not_the_brokers(said: str) -> None:
    """To wait for the broker would hide what is slow."""
    assert broker_away(TOPIC, RuntimeError(said)) is None


def test_the_offsets_of_a_batch_choose_its_events_and_are_no_part_of_the_code_that_reads_them(
    spark: SparkSession,
) -> None:
    """Code of its own for each batch would be compiled with each batch, and never for long enough to be fast."""
    events = spark.range(60).select((F.col("id") % 4).cast("int").alias("partition"), F.col("id").alias("offset"))
    ranges = [[OffsetRange(0, 8, 40), OffsetRange(2, 0, 11)], [OffsetRange(2, 6, 2**40), OffsetRange(0, 0, 1)]]
    chosen = [events.where(within(each)) for each in ranges]
    for rows, asked in zip(chosen, ranges, strict=True):
        wanted = {n for n in range(60) for each in asked if n % 4 == each.partition and each.first <= n < each.end}
        assert {row.offset for row in rows.collect()} == wanted
    generated = spark.newSession()
    for name, value in (("wholeStage", "true"), ("factoryMode", "CODEGEN_ONLY")):
        generated.conf.set(f"spark.sql.codegen.{name}", value)
    read = generated.createDataFrame([(0, 1)], "partition int, offset bigint")
    one, other = (code_of(read.where(within(each))) for each in ranges)
    assert one and one == other


def code_of(rows: DataFrame) -> list[str]:
    parts = rows._jdf.queryExecution().debug().codegenToSeq()
    return [parts.apply(number)._2() for number in range(parts.size())]
