"""Which days go back, what is refused, and that nothing a timeline names is reclaimed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import create_timeline, delete_timeline
from backfill_assets.lakehouse.records import DayContent, DayRecord
from backfill_assets.state.view import find_moment
from backfill_assets.timeline.rewind import (
    RewindRequest,
    copied_timeline,
    differing_from_main,
    earliest_moment,
    rewound_days,
    rewound_timeline,
)
from backfill_assets.timeline.view import inputs_shown
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.small_lakehouse import SmallLakehouse, published_twice

pytestmark = pytest.mark.protocol
FACT, REVENUE, RANKING = "fact_sales_transactions", "fact_daily_revenue", "report_store_ranking"
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (6, 7, 8))
"""Monday to Wednesday."""


def held(*days: date, rows: int = 1) -> dict[date, DayRecord]:
    return {day: DayRecord(day=day, content=DayContent(rows=rows, checksum="1")) for day in days}


def days_that_go_back(days: DayRange | None = None, *tables: str) -> dict[str, set[date]]:
    then = {FACT: held(FIRST, SECOND), REVENUE: held(FIRST, SECOND), RANKING: held(FIRST)}
    since = {
        FACT: held(FIRST) | held(SECOND, THIRD, rows=2),
        REVENUE: held(FIRST) | held(SECOND, THIRD, rows=2),
        RANKING: held(FIRST, rows=2),
    }
    found = rewound_days(CATALOG.steps, RewindRequest("x", tables or (FACT,), days), then, since)
    return {table: {*held} for table, held in found.items()}


def test_all_days_that_differ_go_back_with_what_is_computed_from_them() -> None:
    assert days_that_go_back() == {FACT: {SECOND, THIRD}, REVENUE: {SECOND, THIRD}, RANKING: {FIRST}}
    assert days_that_go_back(None, REVENUE) == {REVENUE: {SECOND, THIRD}}


def test_days_that_are_asked_for_go_back_also_if_they_are_equal() -> None:
    assert days_that_go_back(DayRange(FIRST, SECOND)) == {
        FACT: {FIRST, SECOND},
        REVENUE: {FIRST, SECOND},
        RANKING: {FIRST},
    }
    assert days_that_go_back(DayRange(date(2016, 1, 1), date(2016, 1, 2))) == {}


@pytest.mark.parametrize(
    ("days", "of_then"),
    [
        (DayRange(FIRST, THIRD), True),
        (DayRange(SECOND, THIRD), True),
        (DayRange(FIRST, FIRST), False),
        (DayRange(SECOND, SECOND), False),
    ],
    ids=["all days", "all that differ", "none that differs", "one of two that differ"],
)
def test_a_week_is_what_it_was_if_it_was_computed_from_what_is_shown_else_as_published(
    days: DayRange, of_then: bool
) -> None:
    """Where no day differs, what is published is right; where one of two goes back, neither is."""
    step = CATALOG.step(RANKING)

    def week_of(facts: dict[date, DayRecord], rows: int) -> dict[date, DayRecord]:
        inputs = inputs_shown(step, step.version(), [FIRST], {FACT: facts})[FIRST].inputs
        content = DayContent(rows=rows, checksum="1", code_version=step.current, inputs=inputs)
        return {FIRST: DayRecord(day=FIRST, content=content)}

    before, now = held(FIRST, SECOND, THIRD), held(FIRST) | held(SECOND, THIRD, rows=2)
    then, since = ({FACT: facts, RANKING: week_of(facts, rows)} for facts, rows in ((before, 1), (now, 2)))
    asked = RewindRequest("x", (FACT,), days)
    found = rewound_days(CATALOG.steps, asked, then, since)
    assert found[FACT] == {day: before[day] for day in days}
    assert found[RANKING] == (then if of_then else since)[RANKING]


def test_a_version_that_is_gone_and_a_foreign_write_come_along_only_as_they_are_shown() -> None:
    """What a version read that is not declared any more is compared all the same; a foreign write is not known."""
    step = CATALOG.step(REVENUE)
    facts = held(FIRST, SECOND)
    inputs = inputs_shown(step, step.version(), [FIRST, SECOND], {FACT: facts})
    gone = {
        day: DayRecord(day=day, content=DayContent(rows=1, checksum="1", code_version="v0", inputs=found.inputs))
        for day, found in inputs.items()
    }
    foreign = DayRecord(day=SECOND, foreign="x")
    then, since = {FACT: facts, REVENUE: {**gone, SECOND: foreign}}, {FACT: held(FIRST, SECOND, rows=2), REVENUE: gone}
    asked = RewindRequest("x", (FACT,))
    found = rewound_days(CATALOG.steps, asked, then, since)
    assert found[REVENUE] == {FIRST: gone[FIRST], SECOND: gone[SECOND]}
    assert found[FACT] == facts


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = published_twice(tmp_path, REVENUE, FIRST, SECOND)
    with clock.use(found.time):
        yield found


def test_reclaiming_keeps_what_a_timeline_names_until_it_is_deleted(lakehouse: SmallLakehouse) -> None:
    storage, now = lakehouse.storage, lakehouse.now()
    asked = RewindRequest("back", (REVENUE,))
    made = create_timeline(
        storage, rewound_timeline(storage, CATALOG.steps, asked, find_moment(storage, "one", REVENUE), now)
    )
    copy = create_timeline(storage, copied_timeline(made, "copy", "ana", now))
    assert differing_from_main(storage, made) == {REVENUE: {SECOND}}
    path = f"{REVENUE}/{made.held(REVENUE)[SECOND].files[0].path}"
    lakehouse.minutes += 60 * 24 * 365 * 100
    for number in range(3):
        lakehouse.publish(f"later-{number}", {REVENUE: {FIRST: [6 + number]}})
    lakehouse.minutes += 60 * 24 * 365
    assert path not in reclaim(lakehouse.publisher, REVENUE, clock_checked=True)
    assert storage.missing([path]) == []
    delete_timeline(storage, made, lakehouse.now())
    assert path not in reclaim(lakehouse.publisher, REVENUE, clock_checked=True)
    assert storage.missing([path]) == []
    delete_timeline(storage, copy, lakehouse.now())
    assert path in reclaim(lakehouse.publisher, REVENUE, clock_checked=True)
    assert storage.missing([path]) == [path]


def test_a_moment_whose_files_are_gone_is_refused_with_the_earliest_that_is_left(lakehouse: SmallLakehouse) -> None:
    storage, moment = lakehouse.storage, find_moment(lakehouse.storage, "one", REVENUE)
    asked = RewindRequest("back", (REVENUE,))
    (file,) = rewound_timeline(storage, CATALOG.steps, asked, moment, lakehouse.now()).held(REVENUE)[SECOND].files
    storage.delete(f"{REVENUE}/{file.path}")
    found = earliest_moment(storage, REVENUE)
    assert found is not None and found.publication == "two"
    with pytest.raises(PublicationRefused, match=f"{REVENUE}: 1 file gone, the earliest moment is two"):
        rewound_timeline(storage, CATALOG.steps, asked, moment, lakehouse.now() + timedelta(days=1))


def test_raw_is_not_rewound_and_nothing_that_does_not_differ(lakehouse: SmallLakehouse) -> None:
    moment = find_moment(lakehouse.storage, "two", REVENUE)
    with pytest.raises(InvalidRequest, match="raw is only ever appended to"):
        rewound_timeline(lakehouse.storage, CATALOG.steps, RewindRequest("x", ("raw_sales",)), moment, lakehouse.now())
    with pytest.raises(InvalidRequest, match="there is nothing to rewind"):
        rewound_timeline(lakehouse.storage, CATALOG.steps, RewindRequest("x", (REVENUE,)), moment, lakehouse.now())
