"""Which days go back, what is refused, and that nothing a timeline names is reclaimed."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.datasets import registry
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.named_timelines import HeldDay, create_timeline, delete_timeline
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.publication.reclaim import reclaim
from backfill_assets.published.moments import find_moment
from backfill_assets.timeline.rewind import (
    RewindRequest,
    copied_timeline,
    days_to_rewind,
    differing_from_main,
    earliest_moment,
    rewound_timeline,
)
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
FACT, REVENUE, RANKING = "fact_sales_transactions", "fact_daily_revenue", "report_store_ranking"
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (6, 7, 8))
"""Monday to Wednesday."""


def held(*days: date, rows: int = 1) -> dict[date, HeldDay]:
    return {day: HeldDay(day=day, content=DayContent(rows=rows, checksum="1")) for day in days}


def rewound_days(days: DayRange | None = None, *tables: str) -> dict[str, set[date]]:
    then = {FACT: held(FIRST, SECOND), REVENUE: held(FIRST, SECOND), RANKING: held(FIRST)}
    since = {
        FACT: held(FIRST) | held(SECOND, THIRD, rows=2),
        REVENUE: held(FIRST) | held(SECOND, THIRD, rows=2),
        RANKING: held(FIRST, rows=2),
    }
    return days_to_rewind(registry.steps(), RewindRequest("x", tables or (FACT,), days), then, since)


def test_all_days_that_differ_go_back_with_what_is_computed_from_them() -> None:
    assert rewound_days() == {FACT: {SECOND, THIRD}, REVENUE: {SECOND, THIRD}, RANKING: {FIRST}}
    assert rewound_days(None, REVENUE) == {REVENUE: {SECOND, THIRD}}


def test_days_that_are_asked_for_go_back_also_if_they_are_equal() -> None:
    assert rewound_days(DayRange(FIRST, SECOND)) == {
        FACT: {FIRST, SECOND},
        REVENUE: {FIRST, SECOND},
        RANKING: {FIRST},
    }
    assert rewound_days(DayRange(date(2016, 1, 1), date(2016, 1, 2))) == {}


@pytest.fixture
def lakehouse(tmp_path: Path) -> SmallLakehouse:
    found = SmallLakehouse(tmp_path)
    found.publish("one", {REVENUE: {FIRST: [1, 2], SECOND: [3]}})
    found.publish("two", {REVENUE: {SECOND: [4, 5]}}, code="v2")
    return found


def test_reclaiming_keeps_what_a_timeline_names_until_it_is_deleted(lakehouse: SmallLakehouse) -> None:
    storage, now = lakehouse.storage, lakehouse.now()
    asked = RewindRequest("back", (REVENUE,))
    made = create_timeline(
        storage, rewound_timeline(storage, registry.steps(), asked, find_moment(storage, "one", REVENUE), now)
    )
    copy = create_timeline(storage, copied_timeline(made, "copy", "ana", now))
    assert differing_from_main(storage, made) == {REVENUE: {SECOND}}
    (file,) = made.held(REVENUE)[SECOND].files
    lakehouse.minutes += 60 * 24 * 365 * 100
    for number in range(3):
        lakehouse.publish(f"later-{number}", {REVENUE: {FIRST: [6 + number]}})
    lakehouse.minutes += 60 * 24 * 365
    reclaim(lakehouse.publisher, REVENUE)
    assert storage.missing([f"{REVENUE}/{file.path}"]) == []
    delete_timeline(storage, made, lakehouse.now())
    reclaim(lakehouse.publisher, REVENUE)
    assert storage.missing([f"{REVENUE}/{file.path}"]) == []
    delete_timeline(storage, copy, lakehouse.now())
    reclaim(lakehouse.publisher, REVENUE)
    assert storage.missing([f"{REVENUE}/{file.path}"]) != []


def test_a_moment_whose_files_are_gone_is_refused_with_the_earliest_that_is_left(lakehouse: SmallLakehouse) -> None:
    storage, moment = lakehouse.storage, find_moment(lakehouse.storage, "one", REVENUE)
    asked = RewindRequest("back", (REVENUE,))
    (file,) = rewound_timeline(storage, registry.steps(), asked, moment, lakehouse.now()).held(REVENUE)[SECOND].files
    storage.delete(f"{REVENUE}/{file.path}")
    found = earliest_moment(storage, REVENUE)
    assert found is not None and found.publication == "two"
    with pytest.raises(PublicationRefused, match=f"{REVENUE}: 1 file gone, the earliest moment is two"):
        rewound_timeline(storage, registry.steps(), asked, moment, lakehouse.now() + timedelta(days=1))


def test_raw_is_not_rewound_and_nothing_that_does_not_differ(lakehouse: SmallLakehouse) -> None:
    moment = find_moment(lakehouse.storage, "two", REVENUE)
    with pytest.raises(InvalidRequest, match="raw is only ever appended to"):
        rewound_timeline(
            lakehouse.storage, registry.steps(), RewindRequest("x", ("raw_sales",)), moment, lakehouse.now()
        )
    with pytest.raises(InvalidRequest, match="there is nothing to rewind"):
        rewound_timeline(lakehouse.storage, registry.steps(), RewindRequest("x", (REVENUE,)), moment, lakehouse.now())
