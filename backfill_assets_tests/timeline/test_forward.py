"""Which version each step of a timeline goes forward by."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.timeline.build import versions_to_use

NOW = datetime(2017, 6, 1, tzinfo=UTC)
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
DAY = DayRecord(day=date(2017, 3, 1))
REWOUND = NamedTimeline(
    id="timeline-x",
    name="x",
    made_at=NOW,
    base=TimelineBase(),
    changed_at=NOW,
    targets=(FACT,),
    days={FACT: (DAY,), REVENUE: (DAY,)},
)


def test_the_version_is_that_of_the_rewound_table_and_others_have_their_current_one() -> None:
    current = {name: CATALOG.step(name).current for name in (FACT, REVENUE)}
    assert versions_to_use(CATALOG.steps, REWOUND, "") == current
    assert versions_to_use(CATALOG.steps, REWOUND, "v1") == {**current, FACT: "v1"}


def test_a_version_that_no_rewound_table_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidRequest, match=f"{FACT} has v1, v2"):
        versions_to_use(CATALOG.steps, REWOUND, "v9")
