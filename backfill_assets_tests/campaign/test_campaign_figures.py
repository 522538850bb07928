"""What is published beside what is staged: the true number, or none at all."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from backfill_assets.campaign.breaker import Nulls, StagedSums
from backfill_assets.campaign.breaker_input import nulls_of, sums_of
from backfill_assets.campaign.metadata_difference import MeasureChange, change_sentence, table_difference
from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.published.observed import LogView

FIRST, SECOND, THIRD = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)
BEFORE = DayContent(rows=2, checksum="1")
"""Published before its total and its nulls were measured."""
AFTER = DayContent(rows=2, checksum="2", metrics={"total_eur": "68980.78", "nulls_rate": 0})
EMPTY = DayContent(rows=0, checksum="0")


def test_a_total_that_is_declared_after_days_were_published_is_unknown() -> None:
    """Not 0: the person who approves would believe it. The count of rows is known."""
    found = table_difference("fact", {FIRST: BEFORE, SECOND: AFTER}, {FIRST: AFTER, SECOND: AFTER})
    rows, total = found.beside
    assert rows == MeasureChange("fact", "rows", Decimal(4), Decimal(4)) and rows.share == 0
    assert (total.published, total.staged, total.share) == (None, Decimal("137961.56"), None)
    assert change_sentence(found) == ("fact: 1 of 2 days change; eur by an unknown amount: it was not measured before.")


def test_days_that_hold_nothing_are_zero_and_foreign_writes_are_unknown() -> None:
    """Never published, and published without rows, is 0."""
    nothing = table_difference("fact", {SECOND: EMPTY}, {FIRST: AFTER, SECOND: AFTER})
    assert [each.published for each in nothing.beside] == [0, 0]
    foreign = table_difference("fact", {FIRST: None}, {FIRST: AFTER})
    assert [each.published for each in foreign.beside] == [None, None]
    assert foreign.changed == (FIRST,)


def test_the_breaker_gets_an_unknown_as_unknown() -> None:
    """On either side: a day that was staged before the total was declared, and is adopted, lacks it as well."""
    assert sums_of("fact", [BEFORE], [AFTER])[1] == StagedSums("fact", "eur", None, Decimal("68980.78"))
    assert sums_of("fact", [AFTER, AFTER], [AFTER, BEFORE])[1].staged is None
    assert nulls_of("fact", [BEFORE], [AFTER]) == [Nulls("fact", "rate", None, Decimal(0))]
    assert sums_of("fact", [None], [AFTER])[0].published is None


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
