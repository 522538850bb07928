"""What is published beside what is staged, from metadata alone: the true number, or none at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

from backfill_assets.difference.difference import Sums, TableDifference, changes, table_difference
from backfill_assets.lakehouse.records import DayChange, DayContent, Publication, TableChange

FIRST, SECOND, THIRD = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)
BEFORE = DayContent(rows=2, checksum="1")
"""Published before its total and its nulls were measured."""
AFTER = DayContent(rows=2, checksum="2", metrics={"total_eur": "68980.78", "nulls_rate": 0})
EMPTY = DayContent(rows=0, checksum="0")


def sums(before: str, after: str) -> Sums:
    return Sums(before=Decimal(before), after=Decimal(after))


def nulls(rows: int, found: int) -> DayContent:
    return DayContent(rows=rows, checksum="3", metrics={"nulls_rate": found})


def test_a_total_that_is_declared_after_days_were_published_is_unknown() -> None:
    """Not 0: the person who approves would believe it. The count of rows is known."""
    found = table_difference("fact", {FIRST: BEFORE, SECOND: AFTER}, {FIRST: AFTER, SECOND: AFTER})
    rows, total = found.sums["rows"], found.sums["eur"]
    assert rows == Sums(before=Decimal(4), after=Decimal(4)) and rows.share == 0 and not rows.differs
    assert (total.before, total.after, total.share) == (None, Decimal("137961.56"), None) and total.differs
    assert list(found.sums) == ["rows", "eur"], "in the order that people see"


def test_days_that_hold_nothing_are_zero_and_foreign_writes_are_unknown() -> None:
    """Never published, and published without rows, is 0."""
    nothing = table_difference("fact", {SECOND: EMPTY}, {FIRST: AFTER, SECOND: AFTER})
    assert [each.before for each in nothing.sums.values()] == [0, 0]
    foreign = table_difference("fact", {FIRST: None}, {FIRST: AFTER})
    assert [each.before for each in foreign.sums.values()] == [None, None]
    assert foreign.changed == (FIRST,)


def test_days_are_changed_or_unchanged_by_their_rows() -> None:
    """Ascending. The count and the checksum decide: other logic that gives the same rows changes nothing."""
    same = replace(BEFORE, code_version="v2", inputs="other")
    published = {FIRST: BEFORE, SECOND: BEFORE, THIRD: BEFORE}
    found = table_difference("fact", published, {THIRD: same, SECOND: replace(BEFORE, rows=3), FIRST: AFTER})
    assert (found.table, found.changed, found.unchanged) == ("fact", (FIRST, SECOND), (THIRD,))
    march = [date(2017, 3, n) for n in range(1, 32)]
    half = table_difference("fact", dict.fromkeys(march[:15], BEFORE), dict.fromkeys(reversed(march), BEFORE))
    assert (half.unchanged, half.changed) == (tuple(march[:15]), tuple(march[15:]))


def test_without_staged_days_there_is_nothing_to_sum() -> None:
    """No row, no total, and no share of nulls."""
    assert table_difference("fact", {FIRST: AFTER}, {}) == TableDifference("fact", sums={"rows": Sums()})


def test_only_days_that_are_staged_are_summed_before() -> None:
    """The rest of the table stays as it is on both sides."""
    found = table_difference("fact", {FIRST: AFTER, SECOND: AFTER}, {SECOND: replace(BEFORE, rows=5)})
    assert found.sums == {"rows": sums("2", "5")}


def test_totals_are_by_name_and_other_metrics_are_no_sums() -> None:
    """A total that no staged day has any more is left out."""
    staged = DayContent(rows=1, checksum="4", metrics={"total_usd": "2.5", "duplicates": 7, "total_eur": 3})
    published = DayContent(rows=1, checksum="5", metrics={"total_eur": "1.25", "total_usd": 1, "total_gbp": 9})
    found = table_difference("fact", {FIRST: published}, {FIRST: staged})
    assert list(found.sums.items()) == [("rows", sums("1", "1")), ("eur", sums("1.25", "3")), ("usd", sums("1", "2.5"))]
    assert found.nulls == {}


def test_a_share_of_nulls_is_one_of_all_rows() -> None:
    """Not the mean of the days' shares; without rows it is 0."""
    found = table_difference("fact", {FIRST: nulls(2, 1), SECOND: nulls(6, 1)}, {FIRST: nulls(0, 0), SECOND: EMPTY})
    assert found.nulls == {"rate": sums("0.25", "0")}


def test_a_share_of_nulls_is_unknown_where_they_were_not_counted() -> None:
    """Or where the rows are not known."""
    uncounted = table_difference("fact", {FIRST: BEFORE}, {FIRST: nulls(4, 1)})
    foreign = table_difference("fact", {FIRST: None}, {FIRST: nulls(4, 1)})
    assert uncounted.nulls == foreign.nulls == {"rate": Sums(before=None, after=Decimal("0.25"))}


def a_change(table: str, days: dict[date, DayContent | None]) -> TableChange:
    brought = tuple(DayChange(day=day, content=content) for day, content in days.items())
    return TableChange(table=table, table_schema="", days=brought)


def test_a_publication_is_compared_table_by_table() -> None:
    """In its order; a day whose content is not known afterwards is left out."""
    tables = (a_change("report", {SECOND: AFTER, FIRST: None}), a_change("fact", {FIRST: BEFORE}))
    publication = Publication(id="p", kind="replace", tables=tables)
    report, fact = changes(publication, {"fact": {FIRST: BEFORE}, "other": {FIRST: AFTER}})
    assert (report.table, report.changed, report.sums["rows"]) == ("report", (SECOND,), sums("0", "2"))
    assert fact == TableDifference("fact", unchanged=(FIRST,), sums={"rows": sums("2", "2")})
    assert changes(Publication(id="p", kind="replace", tables=()), {"fact": {FIRST: BEFORE}}) == []
