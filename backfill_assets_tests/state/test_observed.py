"""What is published of a table, day by day: the true content, or none at all."""

from __future__ import annotations

from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.state.observed import LogView

FIRST, SECOND, THIRD = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)
AFTER = DayContent(rows=2, checksum="2", metrics={"total_eur": "68980.78", "nulls_rate": 0})
EMPTY = DayContent(rows=0, checksum="0")


def test_what_days_hold_as_a_build_would_find_them() -> None:
    """Published and untouched; overwritten by others; of others alone; emptied, or never there."""
    emptied, withdrawn = date(2017, 3, 4), date(2017, 3, 5)
    states = {
        TableDay("fact", FIRST): DayState("fact", FIRST, "p", 1, "files", AFTER),
        TableDay("fact", SECOND): DayState("fact", SECOND, "p", 1, "files", AFTER),
        TableDay("fact", emptied): DayState("fact", emptied, "p", 1, fingerprints.EMPTY_DAY, EMPTY),
        TableDay("fact", withdrawn): DayState("fact", withdrawn, "p", 1, fingerprints.EMPTY_DAY, None),
    }
    pinned = {"fact": {FIRST: "files", SECOND: "others", THIRD: "others"}}
    assert LogView(states=states, pinned=pinned).contents("fact") == {
        FIRST: AFTER,
        SECOND: None,
        THIRD: None,
        emptied: EMPTY,
    }
