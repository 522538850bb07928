"""Positions of topics among the transactions of raw."""

from __future__ import annotations

from backfill_assets.lakehouse.records import Position
from backfill_assets.state.stream_positions import (
    PartitionRead,
    TopicIds,
    TopicPositions,
    begun_id,
    boundary_id,
    ids_id,
    offset_id,
    parse_positions,
    partition_reads,
    stream_topics,
    topic_positions,
)
from backfill_assets_tests.protocol.lake import D1, Lake

IDS = TopicIds("cluster-1", "topic_1")


def test_positions_are_found_among_other_transactions() -> None:
    transactions = {
        "20260302t100000-raw-sales-1a2b3c4d": 1,
        "landed:sales:sales/2026-03-01/a.jsonl.gz": 77,
        begun_id("sales", "orders"): 1,
        ids_id("sales", "orders", IDS): 1,
        begun_id("sales", "orders@2"): 1,
        offset_id("sales", "orders", 0): 120,
        offset_id("sales", "orders", 11): 7,
        boundary_id("sales", "orders", 0): 100,
        offset_id("fx_rates", "orders", 0): 5,
        offset_id("sales", "other.topic", 0): 3,
    }
    assert parse_positions("sales", transactions) == {
        "orders": TopicPositions("orders", True, IDS, {0: 120, 11: 7}, {0: 100}),
        "other.topic": TopicPositions("other.topic", False, None, {0: 3}, {}),
        "orders@2": TopicPositions("orders@2", True),
    }


def test_a_position_that_was_taken_back_is_none() -> None:
    assert parse_positions("sales", {offset_id("sales", "orders", 0): 0}) == {}


def test_a_second_topic_of_a_name_has_a_name_of_its_own() -> None:
    first = TopicPositions("orders", True, IDS)
    second = first.next_topic()
    assert (second, second.name, second.number) == (TopicPositions("orders@2"), "orders", 2)
    assert second.next_topic().topic == "orders@3"


def test_what_a_publication_read_is_told_by_topic_and_partition() -> None:
    """Of offsets alone: what else is known of a topic is committed with them."""
    positions = [
        Position(id=offset_id("sales", "orders", 11), before=None, after=7),
        Position(id=begun_id("sales", "orders"), before=None, after=1),
        Position(id=ids_id("sales", "orders", IDS), before=None, after=1),
        Position(id=boundary_id("sales", "orders", 0), before=None, after=100),
        Position(id=offset_id("sales", "orders", 0), before=1_200, after=1_000),
        Position(id="landed:sales:sales/2026-03-01/0", before=None, after=77),
    ]
    back, first = partition_reads(positions)
    assert first == PartitionRead("sales", "orders", 11, 0, 7)
    assert str(first) == "topic orders: partition 11 from offset 0 up to 7"
    assert str(back) == "topic orders: partition 0 from offset 1,200 back to 1,000"
    assert str(PartitionRead("sales", "orders", 0, 5, 5)).endswith("up to 5")
    assert stream_topics(positions) == ["orders"] and stream_topics(positions[-1:]) == []


def test_a_stream_goes_on_from_the_newest_topic_of_its_name(lake: Lake) -> None:
    """The tenth counts after the second."""
    assert topic_positions(lake.storage, "sales", "orders") == TopicPositions("orders")
    names = ("orders", "orders@10", "orders@2", "others@11")
    positions = [Position(id=offset_id("sales", name, 0), before=None, after=n + 1) for n, name in enumerate(names)]
    lake.append("s1", "raw_sales", {D1: ["x"]}, *positions)
    assert topic_positions(lake.storage, "sales", "orders") == TopicPositions("orders@10", next_offsets={0: 2})
    assert topic_positions(lake.storage, "sales", "payments") == TopicPositions("payments")
