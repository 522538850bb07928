"""Positions of topics among the transactions of raw."""

from __future__ import annotations

from backfill_assets.state.stream_positions import (
    TopicIds,
    TopicPositions,
    begun_id,
    boundary_id,
    ids_id,
    offset_id,
    parse_positions,
)

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
