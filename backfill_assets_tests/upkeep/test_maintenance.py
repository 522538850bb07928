"""Maintenance: what it plans, what it does, and the three things that it never touches."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.lakehouse.timelines import open_timelines
from backfill_assets.publish.holds import put_hold
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets.upkeep.maintenance_plan import Chore
from backfill_assets_tests.begun_campaign import begin, give_up
from backfill_assets_tests.protocol.foreign import alter
from backfill_assets_tests.protocol.lake import D1, D2, Lake
from backfill_assets_tests.protocol.staging import stage

pytestmark = pytest.mark.protocol

PLAN = "plan-0123456789abcdef"


def maintenance(lake: Lake) -> Maintenance:
    return Maintenance(lake.publisher(), ["t", "u"], timeline_days=14, clock_checked=True)


def maintained(lake: Lake) -> dict[tuple[Chore, str], str]:
    """The outcome of every task."""
    found = maintenance(lake)
    return {(each.task.chore, each.task.table): each.outcome for each in found.carry_out(found.plan(), print)}


def planned(lake: Lake) -> set[tuple[Chore, str]]:
    return {(task.chore, task.table) for task in maintenance(lake).plan()}


# ------------------------------------------------------------------ what it does


def test_it_compacts_closes_and_reclaims_and_then_there_is_nothing_left(lake: Lake) -> None:
    """Planned without doing anything, done, and done once."""
    assert planned(lake) == set()
    for number in range(5):
        lake.append(f"a{number}", "t", {D1: [f"x{number}"]})
    put_hold(lake.storage, "campaign-dead", {"t": [D1]})
    stage(lake.storage, "u", "20170301t000000-dead-run", {D2: ["never"]}).open()
    lake.clock += timedelta(days=40)
    first = planned(lake)
    assert first == {(Chore.CLOSE, "u"), (Chore.RELEASE, ""), (Chore.COMPACT, "t"), (Chore.RECLAIM, "u")}
    assert planned(lake) == first
    assert maintained(lake) == {
        (Chore.CLOSE, "u"): "1 timeline closed",
        (Chore.RELEASE, ""): "1 hold dropped",
        (Chore.COMPACT, "t"): "1 day compacted",
        (Chore.RECLAIM, "u"): "2 files deleted",
    }
    assert lake.rows("t") == {D1: [f"x{number}" for number in range(5)]}
    assert len(lake.state("t").active) == 1 and not open_timelines(lake.storage, "u")
    assert planned(lake) == set()
    lake.clock += timedelta(days=31)
    assert maintained(lake) == {(Chore.RECLAIM, "t"): "10 files deleted"}


def test_what_others_wrote_past_the_protocol_goes_when_nothing_needs_it(lake: Lake) -> None:
    """Their files lie beside the timelines; once replaced, and after the window, no one can ask for them."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.foreign_rows("t", {D1: ["foreign"]})
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.clock += timedelta(days=29)
    assert planned(lake) == set()
    lake.clock += timedelta(days=2)
    assert maintained(lake) == {(Chore.RECLAIM, "t"): "3 files deleted"}
    assert lake.rows("t") == {D1: ["b"]}


# ------------------------------------------------------------------ the clock


def test_the_nightly_run_says_what_it_does_not_count(lake: Lake) -> None:
    """After a pause it goes on by itself; a person who has looked at the clock frees more."""
    lake.publish_daily("t", 2)
    lake.clock += timedelta(days=20)
    lake.publish_daily("t", 12)
    nightly = Maintenance(lake.publisher(), ["t", "u"], timeline_days=100)
    of_t = (Chore.RECLAIM, "t")
    assert of_t in planned(lake) and of_t not in {(task.chore, task.table) for task in nightly.plan()}
    lake.publish_daily("t", 20)
    (task,) = (task for task in nightly.plan() if (task.chore, task.table) == of_t)
    assert task.why.endswith(". 21 days of pauses are not counted: a clock may have been ahead")
    assert nightly.carry_out([task], print)[0].outcome == f"{len(task.items)} files deleted"


# ------------------------------------------------------------------ what it never touches


def test_a_rollback_within_its_window_works_after_maintenance(lake: Lake) -> None:
    """Its day was compacted meanwhile, twice; other publications since refuse it as ever."""
    lake.append("old", "t", {D1: ["a"]})
    lake.clock += timedelta(days=40)
    for number in range(4):
        lake.append(f"a{number}", "t", {D1: [f"x{number}"]})
    lake.publish("cut", {"u": {D1: ["u"]}})
    assert maintained(lake)[Chore.COMPACT, "t"] == "1 day compacted"
    roll_back(lake.publisher(), "a3", id="undo", steps=())
    assert lake.rows("t") == {D1: ["a", "x0", "x1", "x2"]}
    for number in range(4, 8):
        lake.append(f"a{number}", "t", {D1: [f"x{number}"]})
    lake.clock += timedelta(days=29)
    maintained(lake)
    lake.append("more", "t", {D1: ["more"]})
    with pytest.raises(PublicationRefused, match=str(D1)):
        roll_back(lake.publisher(), "a7", id="undo-again", steps=())
    roll_back(lake.publisher(), "more", id="undo-more", steps=())
    roll_back(lake.publisher(), "a7", id="undo-again", steps=())
    assert lake.rows("t") == {D1: ["a", "x0", "x1", "x2", "x4", "x5", "x6"]}


def test_what_an_open_plan_was_made_from_is_kept_however_old_it_is(lake: Lake) -> None:
    """A campaign may take longer than the window; its timelines and the versions it names wait for it."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    version = lake.table("t").version()
    plan = {"pinned": [{"table": "t", "version": version}], "steps": [{"rebuild": {"why": [str(D1)]}, "tables": ["u"]}]}
    keep_plan(lake.storage, PLAN, json.dumps(plan))
    begin(lake.storage, PLAN)
    stage(lake.storage, "u", "campaign-0123456789abcdef-1", {D1: ["staged"]}).open()
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.clock += timedelta(days=60)
    assert planned(lake) == set()
    assert lake.rows("t", version) == {D1: ["a"]}
    give_up(lake.storage, PLAN)
    assert planned(lake) == {(Chore.RECLAIM, "t"), (Chore.CLOSE, "u"), (Chore.RECLAIM, "u")}


def test_what_a_damaged_plan_was_made_from_is_kept_and_the_plan_is_named(lake: Lake) -> None:
    """Which versions it pinned is unknown, so all files stay until it is put back or removed."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.clock += timedelta(days=60)
    assert planned(lake) == {(Chore.RECLAIM, "t")}
    keep_plan(lake.storage, PLAN, '{"pinned": [{"ta')
    begin(lake.storage, PLAN)
    assert {(task.chore, PLAN in task.why) for task in maintenance(lake).plan()} == {(Chore.LOOK, True)}


def _append_only(lake: Lake) -> None:
    alter(lake.storage, "t", {"delta.appendOnly": "true"})


def _a_file_is_gone(lake: Lake) -> None:
    lake.storage.delete(f"t/{min(lake.state('t').active)}")


def _a_damaged_log(lake: Lake) -> None:
    lake.storage.replace_bytes(f"t/_delta_log/{lake.table('t').version():020}.json", b'{"add": {"path"')


@pytest.mark.parametrize(
    ("damage", "chore", "told", "error", "words"),
    [
        (
            _append_only,
            Chore.COMPACT,
            "compact t: refused: ",
            PublicationRefused,
            r"t cannot be published to: delta\.appendOnly=true",
        ),
        (_a_file_is_gone, Chore.COMPACT, "compact t: failed: ", LakehouseUnusable, "compact t failed: "),
        (
            _a_damaged_log,
            Chore.LOOK,
            "look at the table t: refused: ",
            LakehouseUnusable,
            "t was left alone, since what it needs cannot be read: .*it is not JSON",
        ),
    ],
    ids=["it takes no compaction", "one of its files is gone", "its log cannot be read"],
)
def test_a_table_that_cannot_be_maintained_does_not_hold_up_the_others(
    lake: Lake, damage: Callable[[Lake], None], chore: Chore, told: str, error: type[Exception], words: str
) -> None:
    """It is named, and its files stay; the others are maintained, and then the night ends with the reason."""
    for number in range(5):
        for table in ("t", "u"):
            lake.append(f"{table}{number}", table, {D1: [f"{table}{number}"]})
    damage(lake)
    found, lines = maintenance(lake), list[str]()
    assert {(task.chore, task.table) for task in found.plan()} >= {(chore, "t"), (Chore.COMPACT, "u")}
    with pytest.raises(error, match=words):
        found.carry_out(found.plan(), lines.append)
    assert any(line.startswith(told) for line in lines) and len(lake.state("u").active) == 1


def test_there_is_nothing_to_do_where_nothing_was_published_and_nothing_is_made(lake: Lake) -> None:
    assert Maintenance(lake.publisher(), ["t"], timeline_days=14).plan() == ()
    assert not lake.root.exists()
