"""Which state a text names, and which days of two states are compared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.difference.find import days_to_compare, find_state
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import NamedTimeline, create_timeline
from backfill_assets.lakehouse.records import DayContent, DayRecord
from backfill_assets.state.view import View
from backfill_assets.timeline.rewind import new_timeline
from backfill_assets_tests.small_lakehouse import SmallLakehouse, published_twice

pytestmark = pytest.mark.protocol
REVENUE = "fact_daily_revenue"
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (6, 7, 8))


def held(day: date, rows: int) -> DayRecord:
    return DayRecord(day=day, content=DayContent(rows=rows, checksum=str(rows)))


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = published_twice(tmp_path, REVENUE, FIRST, SECOND)
    with clock.use(found.time):
        yield found


def on_a_timeline(lakehouse: SmallLakehouse) -> NamedTimeline:
    made = new_timeline(lakehouse.storage, "trial", "ana", lakehouse.now())
    return create_timeline(lakehouse.storage, made.with_days({REVENUE: {FIRST: held(FIRST, 9)}}))


def test_a_state_is_main_a_timeline_or_a_moment(lakehouse: SmallLakehouse) -> None:
    on_a_timeline(lakehouse)
    lakehouse.publish("three", {REVENUE: {SECOND: [6]}})

    def rows(text: str, table: str = "") -> dict[date, int]:
        found = find_state(lakehouse.storage, text, lakehouse.now(), table).records([REVENUE])[REVENUE]
        return {day: each.content.rows for day, each in found.items() if each.content}

    assert rows("main") == {FIRST: 2, SECOND: 1}
    assert rows("trial") == {FIRST: 9, SECOND: 2}, "its other days read through to what was published when it was made"
    assert rows("one") == {FIRST: 2, SECOND: 1}
    assert rows("1", REVENUE) == rows("one")
    with pytest.raises(InvalidRequest, match="of which one"):
        rows("1")
    with pytest.raises(InvalidRequest, match="no publication 'nowhere'"):
        rows("nowhere")


def test_days_that_differ_and_own_days_of_timelines_are_compared(lakehouse: SmallLakehouse) -> None:
    trial = on_a_timeline(lakehouse)
    main = find_state(lakehouse.storage, "main", lakehouse.now())
    state = View.of(lakehouse.storage, trial)
    before = {REVENUE: {FIRST: held(FIRST, 9), SECOND: held(SECOND, 2), THIRD: held(THIRD, 1)}}
    after = {REVENUE: {FIRST: held(FIRST, 9), SECOND: held(SECOND, 3), THIRD: held(THIRD, 1)}}
    assert days_to_compare(main, state, before, after, None) == {REVENUE: {FIRST, SECOND}}
    assert days_to_compare(main, main, before, after, None) == {REVENUE: {SECOND}}
    chosen = DayRange(SECOND, date(2017, 12, 31))
    assert days_to_compare(main, state, before, after, chosen) == {REVENUE: {SECOND, THIRD}}
