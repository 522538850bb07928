"""What is published beside what is staged: the true number, or none at all."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from backfill_assets.campaign.breaker_input import input_of
from backfill_assets.days import TableDay
from backfill_assets.difference.metadata import Contents, table_difference
from backfill_assets.difference.records import Sums, TableDifference
from backfill_assets.difference.sentences import change_sentence
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
    rows, total = found.sums["rows"], found.sums["eur"]
    assert rows == Sums(before=Decimal(4), after=Decimal(4)) and rows.share == 0 and not rows.differs
    assert (total.before, total.after, total.share) == (None, Decimal("137961.56"), None) and total.differs
    assert list(found.sums) == ["rows", "eur"], "in the order that people see"
    assert change_sentence(found) == ("fact: 1 of 2 days change; eur by an unknown amount: it was not measured before.")


def test_days_that_hold_nothing_are_zero_and_foreign_writes_are_unknown() -> None:
    """Never published, and published without rows, is 0."""
    nothing = table_difference("fact", {SECOND: EMPTY}, {FIRST: AFTER, SECOND: AFTER})
    assert [each.before for each in nothing.sums.values()] == [0, 0]
    foreign = table_difference("fact", {FIRST: None}, {FIRST: AFTER})
    assert [each.before for each in foreign.sums.values()] == [None, None]
    assert foreign.changed == (FIRST,)


def test_the_breaker_gets_an_unknown_as_unknown() -> None:
    """On either side: a day that was staged before the total was declared, and is adopted, lacks it as well."""
    unmeasured = to_the_breaker({FIRST: BEFORE}, {FIRST: AFTER})
    assert unmeasured.sums["eur"] == Sums(before=None, after=Decimal("68980.78"))
    assert unmeasured.nulls == {"rate": Sums(before=None, after=Decimal(0))}
    adopted = to_the_breaker({FIRST: AFTER, SECOND: AFTER}, {FIRST: AFTER, SECOND: BEFORE})
    assert adopted.sums["eur"].after is None
    assert to_the_breaker({FIRST: None}, {FIRST: AFTER}).sums["rows"].before is None


def test_the_breaker_compares_only_days_that_were_published_before() -> None:
    """A first build differs from nothing."""
    found = to_the_breaker({FIRST: AFTER}, {FIRST: AFTER, SECOND: AFTER})
    assert found.sums["rows"] == Sums(before=Decimal(2), after=Decimal(2))
    assert to_the_breaker({}, {FIRST: AFTER}).sums == {"rows": Sums()}


def to_the_breaker(published: Contents, staged: dict[date, DayContent]) -> TableDifference:
    (found,) = input_of([], {"fact": staged}, {"fact": published}, Decimal(0), None).tables
    return found


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
