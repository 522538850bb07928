"""Where a row came from, in words and as values: lines of files, and events from offset 0."""

from __future__ import annotations

import pytest

from backfill_assets.landing.places import EventPlace, event_place, format_place, place_values

FILE = "sales/2017-03-01/a.jsonl.gz"


@pytest.mark.parametrize(
    ("file", "line", "text"),
    [
        (FILE, 7, f"{FILE}:7"),
        ("kafka:orders/0", 0, "topic orders, partition 0, offset 0"),
        ("kafka:shop.orders-eu_1/12", 1_234_567, "topic shop.orders-eu_1, partition 12, offset 1,234,567"),
    ],
)
def test_a_place_in_words(file: str, line: int, text: str) -> None:
    """An event has no line: it has an offset."""
    assert format_place(file, line) == text


def test_a_place_for_programs() -> None:
    """File and line are there in any case: they are the columns of raw."""
    assert place_values(FILE, 7) == {"file": FILE, "line": 7}
    event = {"topic": "orders", "partition": 3, "offset": 0}
    assert place_values("kafka:orders/3", 0) == {"file": "kafka:orders/3", "line": 0, **event}
    assert event_place("kafka:orders/3", 0) == EventPlace("orders", 3, 0)


def test_a_marker_has_no_place() -> None:
    """It was not received."""
    assert event_place(None, None) is None
