"""What is shown of a stream: numbers for plots, a table of positions, and one line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from backfill_assets.defs.streams.metadata import stream_line, stream_metadata
from backfill_assets.stream.lease import StreamHolder, StreamPosition, StreamStatus

pytestmark = pytest.mark.story

NOON = datetime(2017, 3, 10, 12, tzinfo=UTC)
HOLDER = StreamHolder(host="h", pid=1, process_started=0, lease="1")


def status(**changes: Any) -> StreamStatus:
    known = {"table": "raw_sales", "source": "landing", "holder": HOLDER, "started": NOON, "beat": NOON, "until": NOON}
    return StreamStatus.model_validate({**known, **changes})


def test_what_is_not_known_yet_has_no_point_in_a_plot() -> None:
    shown = stream_metadata(status())
    assert not [name for name in shown if name.endswith("_seconds") and name != "batch_seconds"]
    assert not {"behind", "last error"} & set(shown)
    assert str(shown["boundary"].value).startswith("not reached")
    assert stream_line(status()) == (
        "starting: 0 events/s, in raw_sales after p50 unknown, p99 unknown, how far behind is unknown, "
        "batch 0 in 0.0 s; at the beginning"
    )


def test_the_delay_until_raw_and_the_one_until_revenue_are_both_named() -> None:
    """People wait for revenue."""
    late = {"delay_p50_ms": 1_900, "delay_p99_ms": 4_200, "followed_p50_ms": 9_000, "followed_p99_ms": 26_000}
    found = status(**late, followed="fact_daily_revenue")
    words = "in raw_sales after p50 1.9 s, p99 4.2 s, in fact_daily_revenue after p50 9.0 s, p99 26.0 s"
    assert words in stream_line(found)
    shown = stream_metadata(found)
    assert (shown["raw_sales_p50_seconds"].value, shown["fact_daily_revenue_p99_seconds"].value) == (1.9, 26.0)


def test_an_end_that_is_unknown_is_an_empty_cell() -> None:
    positions = (StreamPosition(partition="sales/0", position=4711), StreamPosition(partition="b", position=1, end=3))
    table = stream_metadata(status(positions=positions))["positions"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data for record in table.records] == [
        {"partition": "sales/0", "position": "4,711", "end": "", "lag": ""},
        {"partition": "b", "position": "1", "end": "3", "lag": "2"},
    ]


def test_the_answer_of_the_source_and_the_share_of_the_rate_are_plotted() -> None:
    shown = stream_metadata(status(answer_ms=4_100, pace=0.5, note="reading at 250 records/s"))
    assert (shown["source_answer_seconds"].value, shown["pace"].value) == (4.1, 0.5)
    assert shown["slowed down"].value == "reading at 250 records/s"
    assert "source_answer_seconds" not in stream_metadata(status())
    assert ", source answered in 4.1 s; at the beginning" in stream_line(status(answer_ms=4_100))


def test_what_slows_it_down_and_what_failed_are_in_the_line() -> None:
    line = stream_line(status(state="history", note="reading at 250 records/s", error="the broker was away"))
    assert line.startswith("history: ")
    assert line.endswith("; reading at 250 records/s; last error: the broker was away")
