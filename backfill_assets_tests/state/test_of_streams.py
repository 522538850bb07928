"""Days that only a stream has brought rows to since a moment, as the log says it."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import is_of_stream
from backfill_assets.publish.compact import compact
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Published
from backfill_assets.state.stream_positions import moved_by_streams
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake

pytestmark = pytest.mark.protocol
DAYS = [TableDay(table, day) for table in ("raw", "fact") for day in (D1, D2, D3)]


def _stream(number: int) -> str:
    return f"20260302t10000{number}-stream-raw-{number}"


def _publish(lake: Lake, id: str, table: str, *days: date) -> None:
    request = lake.request(id, {table: {day: [f"{id} {day}"] for day in days}})
    assert isinstance(lake.publisher().publish(request), Published)


def _publish_more(lake: Lake, id: str, table: str, *days: date) -> None:
    request = lake.request(id, {table: {day: [f"{id} {day}"] for day in days}}, kind="append")
    assert isinstance(lake.publisher().publish(request), Published)


def _now(lake: Lake) -> int:
    return PublicationLog(lake.storage).head().version


def test_only_days_that_a_stream_alone_has_moved_are_named(lake: Lake) -> None:
    """What it brought before does not count, and a day that another process published since does."""
    _publish(lake, _stream(1), "raw", D1, D2, D3)
    since = _now(lake)
    assert moved_by_streams(lake.storage, since, DAYS) == frozenset()
    _publish(lake, _stream(2), "raw", D1, D2)
    _publish(lake, "20260302t100003-raw-3", "raw", D2)
    _publish(lake, _stream(4), "raw", D2)
    _publish(lake, _stream(5), "fact", D3)
    assert moved_by_streams(lake.storage, since, DAYS) == {TableDay("raw", D1), TableDay("fact", D3)}
    assert moved_by_streams(lake.storage, since, [TableDay("raw", D2)]) == frozenset()
    assert moved_by_streams(lake.storage, since, []) == frozenset()


def test_a_compaction_moves_nothing(lake: Lake) -> None:
    """It runs beside each stream, by itself or by the nightly job."""
    _publish(lake, "20260302t100000-raw-1", "raw", D1)
    since = _now(lake)
    _publish(lake, _stream(2), "raw", D1)
    _publish_more(lake, _stream(3), "raw", D1)
    assert isinstance(compact(lake.publisher(), "raw", [D1], id="20260302t100009-compact-raw-1"), Published)
    assert moved_by_streams(lake.storage, since, DAYS) == {TableDay("raw", D1)}


def test_an_id_is_of_a_stream_only_by_what_follows_its_moment() -> None:
    """A table may have the word in its name."""
    assert is_of_stream("20170315t115900-stream-raw-sales-1")
    assert not is_of_stream("20170315t115900-daily-stream-sales-1") and not is_of_stream("raw")
