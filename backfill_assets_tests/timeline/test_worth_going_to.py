"""The list of moments: publications, schema changes and failed gates, and that a long log is not read for it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets.lakehouse import campaign_journal
from backfill_assets.lakehouse.campaign_journal import HELD_BACK_DAYS, JournalEntry
from backfill_assets.lakehouse.delta_log import schema_at
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import GateVerdict
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.publication.compact import compact
from backfill_assets.timeline import worth_going_to
from backfill_assets.timeline.worth_going_to import moments_worth_going_to
from backfill_assets_tests.protocol.lake import D1, D2, Lake
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
REVENUE = "fact_daily_revenue"
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (6, 7, 8))


@pytest.fixture
def lakehouse(tmp_path: Path) -> SmallLakehouse:
    found = SmallLakehouse(tmp_path)
    found.publish("one", {REVENUE: {FIRST: [1, 2], SECOND: [3]}})
    found.publish("two", {REVENUE: {SECOND: [4, 5]}}, code="v2")
    return found


def test_publications_of_the_tables_newest_first(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("three", {"others": {FIRST: [1]}})
    found = moments_worth_going_to(lakehouse.storage, [REVENUE], 5)
    assert [(each.publication, dict(each.changed)) for each in found] == [("two", {REVENUE: 1}), ("one", {REVENUE: 2})]
    assert found[0].versions == {REVENUE: ("v2",)} and found[0].switched == {REVENUE: ("v1", "v2")}
    (newest,) = moments_worth_going_to(lakehouse.storage, [REVENUE], 1)
    assert newest.publication == "two" and newest.switched == {REVENUE: ("v1", "v2")}


def test_maintenance_is_passed_over_however_much_there_is(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("more", {REVENUE: {FIRST: [1]}}, mode="append")
    for number in range(8):
        lakehouse.minutes += 1
        compact(lakehouse.publisher, REVENUE, [FIRST, SECOND], id=f"c{number}")
        lakehouse.publish(f"a{number}", {"others": {FIRST: [number]}})
    found = moments_worth_going_to(lakehouse.storage, [REVENUE], 2)
    assert [each.publication for each in found] == ["more", "two"]


def test_a_publication_that_changed_the_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By halves: of twelve versions, a few are looked at."""
    lake = Lake(tmp_path)
    for number in range(12):
        lake.publish(f"p{number:02}", {"t": {D1: [f"a{number}"]}}, extra=1 if number >= 7 else 0)
    looked: list[int] = []

    def counting(storage: Storage, table: str, version: int) -> str:
        looked.append(version)
        return schema_at(storage, table, version)

    monkeypatch.setattr(worth_going_to, "schema_at", counting)
    found = {each.publication: each for each in moments_worth_going_to(lake.storage, ["t"], 20)}
    changed = {id: each.columns["t"] for id, each in found.items() if each.columns}
    assert changed.keys() == {"p07"} and changed["p07"].came == ("extra_0",) and not changed["p07"].went
    assert found["p07"].kinds == ("schema change",) and len(looked) <= 7


def test_what_gates_held_back_in_runs_and_in_campaigns(lakehouse: SmallLakehouse) -> None:
    staged = lakehouse.stage("20170601t120000-fact-daily-revenue-x", REVENUE, {SECOND: [7], THIRD: [8]})
    staged.open()
    broken = RuleOutcome("volume_within", "completeness", False, "7 rows", "at most 5")
    verdict = GateVerdict(input_fingerprint="x", passed=False, content=DayContent(1, "7"), rules=(broken,))
    staged.judge({SECOND: verdict, THIRD: verdict})
    days = {REVENUE: [f"{FIRST}..{SECOND}"], "others": [str(FIRST)]}
    report = {HELD_BACK_DAYS: days, "held_back": [f"{REVENUE} {FIRST}: duplicates: 3"]}
    entry = JournalEntry(kind="wave", at=datetime(2017, 6, 1, 12, 1, 30, tzinfo=UTC), by="ana", report=report)
    campaign_journal.write(lakehouse.storage, "campaign-0123456789abcdef", entry)
    found = moments_worth_going_to(lakehouse.storage, [REVENUE], 9)
    failed = {each.failed.why: (each.publication, each.failed) for each in found if each.failed}
    publication, gate = failed["volume_within"]
    assert (publication, gate.first_bad_day, gate.days) == ("two", SECOND, 2)
    publication, gate = failed[f"{REVENUE} {FIRST}: duplicates: 3"]
    assert (publication, gate.first_bad_day, gate.days) == ("one", FIRST, 2), "as of when it was stopped"
    assert [each.publication for each in found if not each.failed] == ["two", "one"]


def test_days_of_a_month_are_no_days_of_another_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["x"], D2: ["y"]}})
    (found,) = moments_worth_going_to(lake.storage, ["t"], 5)
    assert found.changed == {"t": 1}
