"""Which moments are worth going to, and what is said of each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.lakehouse import campaign_journal
from backfill_assets.lakehouse.campaign_journal import JournalEntry
from backfill_assets.lakehouse.campaign_reports import StagedReport
from backfill_assets.lakehouse.delta_log import schema_at
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import GateVerdict
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.publish.compact import compact
from backfill_assets.state.history import PublicationRecord, TablePart
from backfill_assets.timeline import moments_listed
from backfill_assets.timeline.moments_listed import (
    ColumnsChanged,
    FailedGate,
    MomentWorthGoingTo,
    columns_changed,
    first_gates,
    moments_worth_going_to,
    publications_worth_going_to,
    what_changed,
    with_failed_gates,
    with_switches,
)
from backfill_assets_tests.protocol.lake import D1, Lake
from backfill_assets_tests.small_lakehouse import SmallLakehouse, published_twice

NOW = datetime(2017, 6, 1, tzinfo=UTC)
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (1, 2, 3))


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
    (found,) = publications_worth_going_to(records, [FACT])
    assert (found.publication, found.changed) == ("a", {FACT: 1}), "days of other tables do not count"


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


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = published_twice(tmp_path, REVENUE, FIRST, SECOND)
    with clock.use(found.time):
        yield found


@pytest.mark.protocol
def test_publications_of_the_tables_newest_first(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("three", {"others": {FIRST: [1]}})
    found = moments_worth_going_to(lakehouse.storage, [REVENUE], 5)
    assert [(each.publication, dict(each.changed)) for each in found] == [("two", {REVENUE: 1}), ("one", {REVENUE: 2})]
    assert found[0].versions == {REVENUE: ("v2",)} and found[0].switched == {REVENUE: ("v1", "v2")}
    (newest,) = moments_worth_going_to(lakehouse.storage, [REVENUE], 1)
    assert newest.publication == "two" and newest.switched == {REVENUE: ("v1", "v2")}


@pytest.mark.protocol
def test_maintenance_is_passed_over_however_much_there_is(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("more", {REVENUE: {FIRST: [1]}}, mode="append")
    for number in range(5):
        lakehouse.minutes += 1
        compact(lakehouse.publisher, REVENUE, [FIRST, SECOND], id=f"c{number}")
        lakehouse.publish(f"a{number}", {"others": {FIRST: [number]}})
    found = moments_worth_going_to(lakehouse.storage, [REVENUE], 2)
    assert [each.publication for each in found] == ["more", "two"]


@pytest.mark.protocol
def test_a_publication_that_changed_the_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By halves: of twelve versions, a few are looked at."""
    lake = Lake(tmp_path)
    for number in range(12):
        lake.publish(f"p{number:02}", {"t": {D1: [f"a{number}"]}}, extra=1 if number >= 7 else 0)
    looked: list[int] = []

    def counting(storage: Storage, table: str, version: int) -> str:
        looked.append(version)
        return schema_at(storage, table, version)

    monkeypatch.setattr(moments_listed, "schema_at", counting)
    found = {each.publication: each for each in moments_worth_going_to(lake.storage, ["t"], 20)}
    changed = {id: each.columns["t"] for id, each in found.items() if each.columns}
    assert changed.keys() == {"p07"} and changed["p07"].came == ("extra_0",) and not changed["p07"].went
    assert found["p07"].kinds == ("schema change",) and len(looked) <= 7


@pytest.mark.protocol
def test_what_gates_held_back_in_runs_and_in_campaigns(lakehouse: SmallLakehouse) -> None:
    staged = lakehouse.stage("20170601t120000-fact-daily-revenue-x", REVENUE, {SECOND: [7], THIRD: [8]})
    staged.open()
    broken = RuleOutcome("volume_within", "completeness", False, "7 rows", "at most 5")
    verdict = GateVerdict(input_fingerprint="x", passed=False, content=DayContent(1, "7"), rules=(broken,))
    staged.judge({SECOND: verdict, THIRD: verdict})
    days = {REVENUE: (f"{FIRST}..{SECOND}",), "others": (str(FIRST),)}
    report = StagedReport(held_back_days=days, held_back=(f"{REVENUE} {FIRST}: duplicates: 3",))
    entry = JournalEntry(kind="wave", at=datetime(2017, 6, 1, 12, 1, 30, tzinfo=UTC), by="ana", report=report)
    campaign_journal.write(lakehouse.storage, "campaign-0123456789abcdef", entry)
    found = moments_worth_going_to(lakehouse.storage, [REVENUE], 9)
    failed = {each.failed.why: (each.publication, each.failed) for each in found if each.failed}
    publication, gate = failed["volume_within"]
    assert (publication, gate.first_bad_day, gate.days) == ("two", SECOND, 2)
    publication, gate = failed[f"{REVENUE} {FIRST}: duplicates: 3"]
    assert (publication, gate.first_bad_day, gate.days) == ("one", FIRST, 2), "as of when it was stopped"
    assert [each.publication for each in found if not each.failed] == ["two", "one"]
