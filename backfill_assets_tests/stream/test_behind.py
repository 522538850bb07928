"""Which days a stream brings up to date when it starts."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent, DayState, Origin
from backfill_assets.publish.compact import compact
from backfill_assets.rebuild import decide
from backfill_assets.stream.batches import stream_name
from backfill_assets.stream.follower import days_behind, find_days_behind
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
RAW, BRONZE = "raw_sales", CATALOG.step("bronze_sales")
DAY = date(2026, 3, 2)


def state(table: str, publication: str, rows: int, inputs: str = "") -> dict[TableDay, DayState]:
    content = DayContent(rows, str(rows), BRONZE.version().name, inputs=inputs)
    return {TableDay(table, DAY): DayState(table, DAY, publication, 1, "", content, Origin(publication))}


def inputs_of(raw: dict[TableDay, DayState]) -> str:
    content = raw[TableDay(RAW, DAY)].content
    logicals = {RAW: {DAY: content.logical if content else ""}}
    return decide.wanted(BRONZE, BRONZE.version(), [DAY], logicals)[DAY].inputs


@pytest.fixture
def publication(tmp_path: Path) -> str:
    """The id of what a stream publishes in raw."""
    return lake_of(SmallLakehouse(tmp_path / "lakehouse")).new_id(stream_name(RAW))


def test_a_day_that_only_a_stream_has_brought_rows_to_is_behind(publication: str) -> None:
    """Its stream was killed before the facts followed. An id can be typed without quotes."""
    assert " " not in publication
    assert days_behind(RAW, BRONZE, state(RAW, publication, 3)) == {DAY}
    assert days_behind(RAW, BRONZE, state(RAW, publication, 0)) == set()


def test_a_day_of_history_that_was_never_built_waits_for_a_person() -> None:
    assert days_behind(RAW, BRONZE, state(RAW, "20170401t000000-raw-sales-1a2b3c4d", 3)) == set()


def test_the_last_rows_of_a_day_decide_whoever_brought_others_before(tmp_path: Path) -> None:
    """Compacted or not. What was taken out, or brought back, waits for the person who did that."""
    small = SmallLakehouse(tmp_path / "lakehouse")
    lake, days = lake_of(small), [DAY + timedelta(days=number) for number in range(3)]
    streamed, landed, undone = days
    small.publish(lake.new_id(RAW), {RAW: {streamed: [1]}}, mode="append")
    small.publish(lake.new_id(stream_name(RAW)), {RAW: {streamed: [2], landed: [1]}}, mode="append")
    small.publish(lake.new_id(RAW), {RAW: {landed: [2]}}, mode="append")
    for number in range(2):
        small.publish(id := lake.new_id(stream_name(RAW)), {RAW: {undone: [number]}}, mode="append")
    log = small.publisher.log
    assert find_days_behind(log, RAW, BRONZE) == {streamed, undone}
    with clock.use(small.time):
        for of, by in ((id, "undo"), ("undo", "redo")):
            roll_back(small.publisher, of, id=by, steps=())
            assert find_days_behind(log, RAW, BRONZE) == {streamed}
    assert compact(small.publisher, RAW, days, id="20260303t000000-compact-raw-sales-1a2b3c4d")
    assert find_days_behind(log, RAW, BRONZE) == {streamed}


def test_a_day_that_was_built_from_other_rows_is_behind(publication: str) -> None:
    raw = state(RAW, publication, 3)
    assert days_behind(RAW, BRONZE, raw | state(BRONZE.name, "built", 3, inputs_of(raw))) == set()
    assert days_behind(RAW, BRONZE, raw | state(BRONZE.name, "built", 3, inputs_of(state(RAW, "earlier", 2)))) == {DAY}


def test_a_compaction_does_not_hide_who_has_brought_the_rows(tmp_path: Path) -> None:
    """The stream was killed, or followed nothing, and maintenance has put the files of its day together since."""
    small, history = SmallLakehouse(tmp_path / "lakehouse"), DAY + timedelta(days=1)
    lake = lake_of(small)
    for number in range(2):
        small.publish(lake.new_id(stream_name(RAW)), {RAW: {DAY: [number]}}, mode="append")
        small.publish(lake.new_id(RAW), {RAW: {history: [number]}}, mode="append")
    log = small.publisher.log
    assert find_days_behind(log, RAW, BRONZE) == {DAY}
    assert compact(small.publisher, RAW, [DAY, history], id="20260303t000000-compact-raw-sales-1a2b3c4d")
    assert find_days_behind(log, RAW, BRONZE) == {DAY}
    inputs = inputs_of(dict(log.day_states(log.head(), {RAW})))
    small.publish(lake.new_id("bronze"), {BRONZE.name: {DAY: [0, 1]}}, inputs={DAY: inputs})
    assert find_days_behind(log, RAW, BRONZE) == set()
