"""What a stream remembers between its calls: the last states of input days, and the days that it leaves alone."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.publish.compact import compact
from backfill_assets.publish.publisher import Published
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import EarlierState
from backfill_assets.rebuild.growing import Growing, InputMemory, find_earlier_states
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
DAY, OTHER = date(2017, 3, 1), date(2017, 3, 2)
KEY = TableDay("raw_sales", DAY)
ANY: Any = None
NOON = datetime(2017, 3, 1, 12, tzinfo=UTC)


def test_the_newest_states_are_remembered_newest_first() -> None:
    memory = InputMemory()
    for rows in range(6):
        memory.remember(KEY, EarlierState(f"{rows}:0", frozenset(str(rows))))
    memory.remember(KEY, EarlierState("3:0", frozenset("compacted")))
    assert [state.logical for state in memory.of(KEY)] == ["3:0", "5:0", "4:0", "2:0"]
    assert memory.of(KEY)[0].files == frozenset("compacted")
    assert memory.of(TableDay("raw_sales", OTHER)) == []


def test_a_day_that_is_built_whole_and_held_back_is_left_alone_for_a_minute_or_as_long_as_it_takes(
    time: FakeClock,
) -> None:
    """A stream would build it with every batch."""
    step: Any = SimpleNamespace(name="bronze_sales")
    growing = Growing(ANY, (), ANY, {}, InputMemory())
    growing.pause(step, {DAY: 0.1, OTHER: 6.0})
    assert growing.paused(step, [DAY, OTHER]) == {
        DAY: "it was built whole and held back; tried again after 12:01:00 UTC",
        OTHER: "it was built whole and held back; tried again after 12:02:00 UTC",
    }
    time.pass_seconds(60)
    assert growing.paused(step, [DAY, OTHER]).keys() == {OTHER}
    assert growing.paused(cast("Any", SimpleNamespace(name="fact_sales")), [OTHER]) == {}


def test_an_earlier_state_is_found_in_the_log_by_its_content(tmp_path: Path) -> None:
    small = SmallLakehouse(tmp_path)
    small.publish("first", {"raw": {DAY: [1, 2]}}, mode="append")
    then = small.publisher.pin({"raw": [DAY]}, {}).expected[TableDay("raw", DAY)].files
    small.publish("second", {"raw": {DAY: [5], OTHER: [9]}}, mode="append")
    log = small.publisher.log
    found = find_earlier_states(log, "raw", {DAY: lambda logical: logical == "2:3", OTHER: lambda logical: False})
    assert found == {DAY: EarlierState("2:3", frozenset(then))}
    assert find_earlier_states(log, "raw", {}) == {}


def test_rows_that_a_compaction_put_together_with_older_ones_are_not_known_to_be_new(tmp_path: Path) -> None:
    """A stream that starts again remembers nothing: what its days were made of is in the log."""
    small, step = SmallLakehouse(tmp_path), CATALOG.step("bronze_sales")
    small.publish("first", {"raw_sales": {DAY: [1, 2]}}, mode="append")
    made_of = decide.wanted(step, step.version(), [DAY], {"raw_sales": {DAY: "2:3"}})[DAY].inputs
    content = SimpleNamespace(inputs=made_of)
    pin: Any = SimpleNamespace(
        states={TableDay("bronze_sales", DAY): SimpleNamespace(content=content)},
        inputs={"raw_sales": SimpleNamespace(days={DAY: "3:8"})},
    )

    def gained() -> list[int]:
        main = MainTable.open(small.storage, "raw_sales")
        files = main.state().of_days([DAY]) if main else {}
        growing = Growing(cast("Any", small), (), pin, {}, InputMemory())
        return [len(new) for new in growing._gained(step, step.version(), "raw_sales", files, pin).values()]

    small.publish("second", {"raw_sales": {DAY: [5]}}, mode="append")
    assert gained() == [1]
    assert isinstance(compact(small.publisher, "raw_sales", [DAY], id="together"), Published)
    assert gained() == []
