"""Which moments are worth going to, and what is said of each."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from backfill_assets.published.history import PublicationRecord, TablePart
from backfill_assets.timeline.moments_listed import (
    ColumnsChanged,
    FailedGate,
    MomentWorthGoingTo,
    columns_changed,
    first_gates,
    publications_worth_going_to,
    what_changed,
    with_failed_gates,
    with_switches,
)

NOW = datetime(2017, 6, 1, tzinfo=UTC)
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


def moment(number: int, version: str, table: str = FACT) -> MomentWorthGoingTo:
    at = NOW + timedelta(hours=number)
    return MomentWorthGoingTo(f"p{number}", at, "ana", {table: number + 1}, {table: (version,)})


def gate(hours: float, day: date = FIRST, why: str = "no_duplicates", by: str = "run-x") -> FailedGate:
    return FailedGate(FACT, day, 2, why, NOW + timedelta(hours=hours), by)


def test_publications_of_the_tables_that_changed_days() -> None:
    def record(id: str, kind: str = "replace", outcome: str = "done", table: str = FACT) -> PublicationRecord:
        parts = {table: TablePart(days=[FIRST], code_versions={"v1"}), "others": TablePart(days=[FIRST])}
        return PublicationRecord(id, kind, NOW, outcome, NOW, tables=parts)

    records = [record("a"), record("b", kind="compact"), record("c", outcome="aborted"), record("d", table=REVENUE)]
    assert [each.publication for each in publications_worth_going_to(records, [FACT])] == ["a"]


def test_a_switch_of_version_is_seen_beside_the_publication_before() -> None:
    found = with_switches([moment(3, "v2"), moment(2, "v2"), moment(1, "v1", REVENUE), moment(0, "v1")])
    assert [each.switched for each in found] == [{}, {FACT: ("v1", "v2")}, {}, {}]
    assert found[1].kinds == ("version switch",) and found[0].kinds == ("publication",)
    assert what_changed(found[1]) == f"3 days of v2 (v1 before): {FACT}"


def test_columns_that_came_went_and_have_other_types() -> None:
    before, after = {"id": "long", "amount": "double", "old": "date"}, {"id": "long", "amount": "long", "new": "date"}
    found = columns_changed(before, after)
    assert found == ColumnsChanged(("new",), ("old",), {"amount": ("double", "long")})
    assert columns_changed(before, dict(before)) is None and str(found) == "+new, -old, amount double -> long"
    listed = MomentWorthGoingTo("p", NOW, "ana", {FACT: 1}, {FACT: ("v2",)}, columns={FACT: ColumnsChanged(("new",))})
    assert listed.kinds == ("schema change",) and what_changed(listed) == f"1 day of v2: {FACT}, columns +new"


def test_a_failed_gate_is_listed_with_what_was_published_then() -> None:
    found = with_failed_gates([moment(2, "v1"), moment(1, "v1")], [gate(1.5), gate(0.5), gate(9, SECOND, "other")], 9)
    assert [(each.publication, each.failed is not None) for each in found] == [
        ("p2", True),
        ("p2", False),
        ("p1", True),
        ("p1", False),
    ]
    assert found[0].kinds == ("failed gate",)
    assert what_changed(found[0]) == f"gate failed: 2 days of {FACT} held back, the first is {SECOND}: other"
    assert len(with_failed_gates([moment(2, "v1"), moment(1, "v1")], [gate(1.5)], 2)) == 2


def test_of_a_gate_that_failed_again_and_again_the_first_bad_day_counts() -> None:
    (found,) = first_gates([gate(2, FIRST), gate(3, SECOND)])
    assert (found.first_bad_day, found.at) == (FIRST, NOW + timedelta(hours=3))
    assert len(first_gates([gate(2), gate(2, why="other"), gate(2, by="campaign-y")])) == 3
