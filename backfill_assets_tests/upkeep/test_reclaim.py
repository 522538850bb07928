"""Reclaiming: only what nothing retained refers to is deleted, and never while it is in use."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.lakehouse.timelines import AdoptedFrom, Timeline
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Conflict, Published, Publisher
from backfill_assets.upkeep import reclaim as reclaim_module
from backfill_assets.upkeep.reclaim import finish_reclaiming, reclaim, reclaimable
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake, dying_at
from backfill_assets_tests.protocol.staging import stage

pytestmark = pytest.mark.protocol


def _reclaimed(lake: Lake) -> list[str]:
    return reclaim(lake.publisher(), "t", clock_checked=True)


def test_replaced_files_go_when_the_window_is_over(lake: Lake) -> None:
    """Not a day earlier: a rollback may want them."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    path = f"t/{next(iter(lake.state('t').active))}"
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.clock += timedelta(days=29)
    assert _reclaimed(lake) == []
    lake.clock += timedelta(days=2)
    assert [each for each in _reclaimed(lake) if "/_delta_log/" not in each] == [path]
    assert not lake.storage.exists(path)
    assert lake.rows("t") == {D1: ["b"]}
    assert not lake.publisher().log.head().state.reclaiming


def test_what_a_rollback_within_the_window_needs_is_kept(lake: Lake) -> None:
    """The before-image of a publication is protected as long as it can be rolled back, however old its files are."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.clock += timedelta(days=40)
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.clock += timedelta(days=20)
    assert _reclaimed(lake) == []
    roll_back(lake.publisher(), "p2", id="undo", steps=())
    assert lake.rows("t") == {D1: ["a"]}


def test_the_version_that_readers_pin_is_kept(lake: Lake) -> None:
    """A foreign writer removed the day long ago, and nothing was published since: pinned readers still read it."""
    lake.publish("p1", {"t": {D1: ["a"], D2: ["b"]}})
    lake.table("t").delete(f"day = '{D1}'")
    lake.clock += timedelta(days=40)
    assert _reclaimed(lake) == []
    assert lake.rows("t", lake.publisher().log.head().state.versions["t"]) == {D1: ["a"], D2: ["b"]}


def test_open_timelines_are_kept(lake: Lake) -> None:
    """A campaign keeps its timeline until it is approved; one that is closed and was never published goes."""
    timeline = stage(lake.storage, "t", "campaign", {D1: ["a"]})
    timeline.open()
    lake.publish("p1", {"t": {D2: ["b"]}})
    lake.clock += timedelta(days=40)
    assert _reclaimed(lake) == []
    timeline.close()
    (data,) = [path for path in _reclaimed(lake) if "/_delta_log/" not in path]
    assert data.startswith(f"{timeline.path}/")


def test_what_a_campaign_has_adopted_is_kept_until_it_is_closed(lake: Lake) -> None:
    """The timeline that it was staged on may be deleted while the approval is waited for."""
    there = stage(lake.storage, "t", "timeline-1-a", {D1: ["a"]})
    campaign = Timeline(lake.storage, "t", "campaign-x-1")
    campaign.open()
    campaign.adopt(there.schema(), {D1: AdoptedFrom(timeline=there.name)})
    lake.publish("p1", {"t": {D2: ["b"]}})
    lake.clock += timedelta(days=40)
    assert _reclaimed(lake) == []
    campaign.close()
    assert any(path.startswith(f"{there.path}/") for path in _reclaimed(lake))


def _is_there(lake: Lake, timeline: Timeline) -> bool:
    return (lake.root / timeline.path).exists()


def test_a_dead_timeline_goes_with_its_log_and_its_folder(lake: Lake) -> None:
    """In years of daily runs they would outnumber everything else; not before the window is over."""
    timeline = stage(lake.storage, "t", "dead", {D1: ["never"], D2: ["never"]})
    lake.publish("p1", {"t": {D3: ["b"]}})
    lake.clock += timedelta(days=29)
    assert _reclaimed(lake) == [] and _is_there(lake, timeline)
    lake.clock += timedelta(days=2)
    assert any("/_delta_log/" in path for path in _reclaimed(lake))
    assert not _is_there(lake, timeline)
    assert lake.rows("t") == {D3: ["b"]}


def test_the_log_of_a_timeline_goes_with_its_last_file(lake: Lake) -> None:
    """One of its days is in main, and the other one was published over."""
    lake.publish("p1", {"t": {D1: ["a"], D2: ["a"]}})
    timeline = Timeline(lake.storage, "t", "p1-0")
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.clock += timedelta(days=31)
    assert len(_reclaimed(lake)) == 1
    assert timeline.days().keys() == {D1, D2}, "its log is whole"
    lake.publish("p3", {"t": {D2: ["c"]}})
    lake.clock += timedelta(days=31)
    _reclaimed(lake)
    assert not _is_there(lake, timeline)
    assert lake.rows("t") == {D1: ["b"], D2: ["c"]}


def test_a_publication_of_doomed_files_is_refused(lake: Lake) -> None:
    """The intent comes first: between it and the deletion no process may bring the file into main."""
    request = lake.request("late", {"t": {D1: ["late"]}})
    lake.clock += timedelta(days=31)
    with pytest.raises(Died):
        reclaim(lake.publisher(dying_at(CrashPoint.RECLAIM_INTENDED)), "t", clock_checked=True)
    path = f"t/{request.tables[0].days[0].adds[0].path}"
    assert lake.storage.exists(path)
    moved = lake.publisher().publish(request)
    assert isinstance(moved, Conflict)
    assert path in moved.reasons[0]
    assert not lake.storage.exists(path), "so that no build adopts the staged day again"


def test_a_publication_that_was_prepared_first_keeps_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The intent was decided on an older log, so it cannot be appended: what is reclaimable is looked up again."""
    request = lake.request("first", {"t": {D1: ["a"]}})
    lake.clock += timedelta(days=31)
    published: list[object] = []

    def overtaken(publisher: Publisher, table: str, *, clock_checked: bool) -> list[str]:
        found = reclaimable(publisher, table, clock_checked=clock_checked)
        if not published:
            assert found
            published.append(lake.publisher().publish(request))
        return found

    monkeypatch.setattr(reclaim_module, "reclaimable", overtaken)
    assert _reclaimed(lake) == []
    assert isinstance(published[0], Published)
    assert lake.rows("t") == {D1: ["a"]}


def test_an_intent_that_a_dead_process_left_is_carried_out(lake: Lake) -> None:
    """Half deleted is no state to stay in: the next who reclaims finishes it, also the folder of a dead timeline."""
    timeline = stage(lake.storage, "t", "dead", {D3: ["never"]})
    for number in range(3):
        lake.publish(f"p{number}", {"t": {D1: [f"a{number}"], D2: [f"b{number}"]}})
    lake.clock += timedelta(days=31)
    with pytest.raises(Died):
        reclaim(lake.publisher(dying_at(CrashPoint.RECLAIM_DELETED)), "t", clock_checked=True)
    assert lake.publisher().log.head().state.reclaiming and _is_there(lake, timeline)
    finish_reclaiming(lake.publisher())
    assert not lake.publisher().log.head().state.reclaiming and not _is_there(lake, timeline)
    assert len(list((lake.root / "t" / "_timelines").rglob("day=*/*.parquet"))) == 2
    assert lake.rows("t") == {D1: ["a2"], D2: ["b2"]}


def test_a_timeline_that_is_being_staged_is_kept(lake: Lake) -> None:
    """Nothing refers to it yet; its files are younger than the window."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    stage(lake.storage, "t", "now", {D2: ["b"]})
    lake.clock += timedelta(days=29)
    assert _reclaimed(lake) == []
    assert Timeline(lake.storage, "t", "now").days()
