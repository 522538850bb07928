"""What ``--from`` names is parsed into types before anything uses it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.state.stream_positions import TopicIds, TopicPositions
from backfill_assets.stream.sources import (
    KafkaTopic,
    KafkaTopics,
    LandingFolder,
    OffsetRange,
    TopicOffsets,
    known_topic,
    lost_events,
    lost_ranges,
    new_ranges,
    parse_source,
    planned_ranges,
    require_not_shorter,
    start_of,
)


def test_the_landing_folder_and_topics_are_sources() -> None:
    assert parse_source("landing") == LandingFolder()
    topic = parse_source("kafka://one:9092,two:9093/sales.eu-1")
    assert topic == KafkaTopic("one:9092,two:9093", "sales.eu-1")
    assert str(topic) == "kafka://one:9092,two:9093/sales.eu-1"
    assert parse_source("Kafka://one:9092/sales") == KafkaTopic("one:9092", "sales")
    several = parse_source("kafka://one:9092/sales,returns")
    assert isinstance(several, KafkaTopics) and str(several) == "kafka://one:9092/sales,returns"
    assert several.topics == (KafkaTopic("one:9092", "sales"), KafkaTopic("one:9092", "returns"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "kafka", "http://one:9092/sales", "kafka://one/sales", "kafka://one:9092", "kafka://one:9092/"),
        *("kafka://[::1:9092/sales", "kafka://one:9092/sales#2", "kafka://one:9092/sa\nles", "kafka:one:9092/sales"),
        *("kafka://one:9092/a/b", "kafka://one:9092/a b", "kafka:///sales", "kafka://one:x/sales"),
        *("kafka://one:9092/sales,", "kafka://one:9092/,sales"),
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest) as failure:
        parse_source(text)
    assert "kafka://HOST:PORT/TOPIC" in str(failure.value)


def test_a_topic_is_named_once() -> None:
    with pytest.raises(InvalidRequest, match="names a topic twice"):
        parse_source("kafka://one:9092/sales,sales")


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    for text in ("kafka://ana:s3cret@one:9092/sales", "http://ana:s3cret@one/sales"):
        require_not_repeated(text)


def require_not_repeated(text: str) -> None:
    with pytest.raises(InvalidRequest) as failure:
        parse_source(text)
    assert "s3cret" not in str(failure.value) and "BACKFILL_KAFKA_PROPERTIES" in str(failure.value)


def test_options_in_the_address_are_refused_and_not_repeated() -> None:
    """They were left out without a word, so that a broker was asked without them."""
    require_not_repeated("kafka://one:9092/sales?sasl.password=s3cret")


IDS = TopicIds("cluster-1", "topic-1")
TOPIC = KafkaTopic("broker:9092", "sales")
KEPT = TopicOffsets({0: 10, 1: 0}, {0: 50, 1: 0}, IDS)
NEW = TopicPositions("sales")


def test_a_new_stream_begins_now_and_one_with_history_at_the_oldest_event() -> None:
    now, history = start_of(NEW, KEPT, None), start_of(NEW, KEPT, {})
    assert (now.offsets, now.boundary, now.new) == ({0: 50, 1: 0}, {0: 50, 1: 0}, True)
    assert (history.offsets, history.boundary, history.new) == ({0: 10, 1: 0}, {0: 50, 1: 0}, True)


def test_history_that_is_bounded_begins_at_its_first_day() -> None:
    assert start_of(NEW, KEPT, {0: 30, 1: 0}).offsets == {0: 30, 1: 0}


def test_a_stream_that_has_begun_goes_on_where_raw_ends() -> None:
    """Also in a partition that came later, from its first event; asking for history changes nothing."""
    known = TopicPositions("sales", begun=True, next_offsets={0: 42}, boundary={0: 20})
    beginnings: tuple[dict[int, int] | None, ...] = (None, {})
    for history in beginnings:
        start = start_of(known, KEPT, history)
        assert (start.offsets, start.boundary, start.new) == ({0: 42, 1: 0}, {0: 20}, False)


def test_what_the_broker_deleted_unread_is_named() -> None:
    assert lost_ranges({0: 10, 1: 0}, KEPT.oldest) == []
    lost = lost_ranges({0: 7, 1: 0}, KEPT.oldest)
    assert lost == [OffsetRange(0, 7, 10)]
    error = lost_events(TOPIC, lost)
    assert "deleted 3 offsets" in error.message and "partition 0, offsets 7 to 9" in error.message
    assert error.hint is not None and "--accept-gap" in error.hint


def test_another_topic_of_the_name_is_refused_until_it_is_asked_for() -> None:
    known = TopicPositions("sales", True, IDS, {0: 42})
    assert known_topic(known, TOPIC, IDS, new_topic=True) == known
    other = (TopicIds("cluster-1", "topic-2"), TopicIds("cluster-2", "topic-1"))
    for ids in other:
        with pytest.raises(SourceUnreadable, match=f"is another topic .* it is {ids}, and that was {IDS}") as failure:
            known_topic(known, TOPIC, ids, new_topic=False)
        assert "--new-topic" in str(failure.value)
        assert known_topic(known, TOPIC, ids, new_topic=True) == TopicPositions("sales@2")
    assert known_topic(NEW, TOPIC, IDS, new_topic=False) == NEW


def test_a_topic_with_fewer_events_than_were_read_is_refused() -> None:
    require_not_shorter(TOPIC, {0: 50}, KEPT.end)
    with pytest.raises(SourceUnreadable, match="partition 0 ends at offset 50, and raw has read up to 51"):
        require_not_shorter(TOPIC, {0: 51}, KEPT.end)


def test_a_topic_with_fewer_partitions_than_were_read_is_refused() -> None:
    """Its first partitions may have more events than were read: those before the old positions would be left out."""
    known = TopicPositions("sales", begun=True, next_offsets={0: 42, 1: 0, 2: 7})
    start = start_of(known, KEPT, None)
    with pytest.raises(SourceUnreadable, match=r"partition 2 ends at offset 0, and raw has read up to 7\. The"):
        require_not_shorter(TOPIC, start.offsets, KEPT.end)


def test_a_batch_after_the_position_is_refused() -> None:
    with pytest.raises(SourceUnreadable, match="partition 0 up to offset 5, and the next events that came are from 6"):
        new_ranges([OffsetRange(0, 6, 9)], {0: 5})


@given(st.lists(st.integers(0, 20), min_size=1, max_size=10), st.data())
def test_batches_that_are_repeated_or_overlap_are_read_once(steps: list[int], data: st.DataObject) -> None:
    """A batch may begin anywhere before the position; what is new of it begins exactly there."""
    position = 0
    read: list[int] = []
    for step in steps:
        first = data.draw(st.integers(0, position))
        for each in new_ranges([OffsetRange(0, first, first + step)], {0: position}):
            read += range(each.first, each.end)
            position = each.end
    assert read == list(range(position))


def test_a_plan_has_the_partitions_with_events() -> None:
    assert planned_ranges({0: 5, 1: 7}, {0: 5, 1: 9, 2: 3}) == [OffsetRange(1, 7, 9), OffsetRange(2, 0, 3)]
