"""What a stream remembers between its calls: the last states of input days, and the days that it leaves alone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets.days import TableDay
from backfill_assets.rebuild.decide import EarlierState
from backfill_assets.rebuild.growing import InputMemory, find_earlier_states
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
DAY, OTHER = date(2017, 3, 1), date(2017, 3, 2)
KEY = TableDay("raw_sales", DAY)
NOON = datetime(2017, 3, 1, 12, tzinfo=UTC)


def test_the_newest_states_are_remembered_newest_first() -> None:
    memory = InputMemory()
    for rows in range(6):
        memory.remember(KEY, EarlierState(f"{rows}:0", frozenset(str(rows))))
    memory.remember(KEY, EarlierState("3:0", frozenset("compacted")))
    assert [state.logical for state in memory.of(KEY)] == ["3:0", "5:0", "4:0", "2:0"]
    assert memory.of(KEY)[0].files == frozenset("compacted")
    assert memory.of(TableDay("raw_sales", OTHER)) == []


def test_a_day_is_left_alone_until_its_pause_ends() -> None:
    memory = InputMemory()
    memory.pause(KEY, NOON + timedelta(minutes=1))
    assert memory.paused_until(KEY, NOON) == NOON + timedelta(minutes=1)
    assert memory.paused_until(KEY, NOON + timedelta(minutes=1)) is None
    assert memory.paused_until(TableDay("raw_sales", OTHER), NOON) is None


def test_an_earlier_state_is_found_in_the_log_by_its_content(tmp_path: Path) -> None:
    small = SmallLakehouse(tmp_path)
    small.publish("first", {"raw": {DAY: [1, 2]}}, mode="append")
    then = small.publisher.pin({"raw": [DAY]}, {}).expected[TableDay("raw", DAY)].files
    small.publish("second", {"raw": {DAY: [5], OTHER: [9]}}, mode="append")
    log = small.publisher.log
    found = find_earlier_states(log, "raw", {DAY: lambda logical: logical == "2:3", OTHER: lambda logical: False})
    assert found == {DAY: EarlierState("2:3", frozenset(then))}
    assert find_earlier_states(log, "raw", {}) == {}
