"""A lost file of a Delta log is written anew from the publication log: all that was published is read as before."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import InvalidRequest, LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.records import Position
from backfill_assets.publish.compact import compact
from backfill_assets.publish.mend import MendPlan, carry_out, plan_mend
from backfill_assets.publish.publisher import CrashPoint, Published
from backfill_assets.state.observed import observe, observe_each
from backfill_assets.state.reading import published_versions, read_published
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake

Lose = Callable[[Path], object]


def _commits(log: Path) -> list[Path]:
    return sorted(log.glob("*.json"))


def _checkpoint_of_a_short_log(log: Path) -> None:
    """Its first commits were cleaned up, as Delta does once they are old."""
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    for commit in _commits(log):
        if commit.name[:20] < checkpoint.name[:20]:
            commit.unlink()
    checkpoint.unlink()


def _damaged_checkpoint(log: Path) -> None:
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    _commits(log)[3].unlink()
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])


def _without_checkpoint(lose: Lose) -> Lose:
    def lost(log: Path) -> None:
        for file in (*log.glob("*.checkpoint.parquet"), log / "_last_checkpoint"):
            file.unlink()
        lose(log)

    return lost


def _half(log: Path) -> None:
    commit = _commits(log)[-2]
    commit.write_bytes(commit.read_bytes()[:200])


LOSSES: dict[str, Lose] = {
    "the oldest": _without_checkpoint(lambda log: _commits(log)[0].unlink()),
    "the second": _without_checkpoint(lambda log: _commits(log)[1].unlink()),
    "one in the middle": _without_checkpoint(lambda log: _commits(log)[7].unlink()),
    "the newest but one": lambda log: _commits(log)[-2].unlink(),
    "the newest": lambda log: _commits(log)[-1].unlink(),
    "half of one": _half,
    "an empty one": lambda log: _commits(log)[-2].write_bytes(b""),
    "several": _without_checkpoint(lambda log: [commit.unlink() for commit in _commits(log)[3:9]]),
    "a checkpoint and what it stands for": _checkpoint_of_a_short_log,
    "half a checkpoint and a commit": _damaged_checkpoint,
    "all of it": shutil.rmtree,
}


_IDS = ("p1", "p2", "p3", "undo-p3", "p4", "p5", "c1", *(f"q{number}" for number in range(12)))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A table with a past: days replaced and appended to, an undo, an abort, a foreign write, a column that came."""
    lake = Lake(tmp_path_factory.mktemp("played") / "lakehouse")
    lake.publish("p1", {"t": {D1: ["a"], D2: ["b"]}, "u": {D1: ["x"]}})
    lake.append("p2", "t", {D2: ["c"]}, Position(id="topic-0", before=None, after=5))
    lake.publish("p3", {"t": {D1: ["d", "e"]}})
    roll_back(lake.publisher(), "p3", id="undo-p3", steps=())
    lake.foreign_rows("t", {D3: ["foreign"]})
    _abort_one(lake)
    lake.append("p4", "t", {D2: ["f"], D3: ["g"]}, Position(id="topic-0", before=5, after=9))
    lake.publish("p5", {"t": {D1: ["h"]}, "u": {D1: ["y"]}})
    compact(lake.publisher(), "t", [D2], id="c1")
    for number in range(12):
        lake.clock += timedelta(minutes=1)
        lake.publish(f"q{number}", {"t": {D1: [f"{number}"]}}, extra=int(number > 4))
    return lake


def _abort_one(lake: Lake) -> None:
    """It is in the first table when another writer changes the second one."""
    lake.die(CrashPoint.TABLE_COMMITTED, lake.request("aborted", {"t": {D1: ["z"]}, "u": {D1: ["z"]}}))
    lake.foreign_rows("u", {D1: ["foreign"]})
    assert lake.publisher().recover() == {"aborted": "aborted"}


def _contents(lake: Lake, table: str = "t") -> dict[int, object]:
    found: dict[int, object] = {}
    for version in range(lake.table(table).version() + 1):
        try:
            found[version] = lake.rows(table, version)
        except DeltaError:
            continue
    return found


def _mend(lake: Lake, table: str = "t") -> MendPlan:
    plan = plan_mend(lake.publisher(), table)
    carry_out(lake.publisher(), plan, by="ana")
    return plan


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_lost_is_written_anew(played: Lake, tmp_path: Path, name: str) -> None:
    lake = played.copy(tmp_path / "lakehouse")
    before, pins = _contents(lake), {id: published_versions(lake.storage, id)["t"] for id in _IDS}
    states, transactions = lake.publisher().log.day_states(lake.publisher().log.head()), lake.table("t").version()
    LOSSES[name](lake.root / "t" / "_delta_log")
    broken = observe_each(lake.storage, ["t", "u"])
    assert set(broken.unreadable) == {"t"} and broken.pinned.keys() == {"u"}
    assert broken.unreadable["t"].next_step == "backfill maintain --mend t"
    with pytest.raises(LakehouseUnusable):
        lake.publish("over-it", {"t": {D1: ["over it"]}})
    plan = _mend(lake)
    assert plan.is_needed and not plan_mend(lake.publisher(), "t").is_needed, "once is enough"
    after = _contents(lake)
    first = min(after)
    named = [version for version in pins.values() if version >= first]
    assert {version: before[version] for version in named} == {version: after[version] for version in named}
    for id, version in pins.items():
        if version >= first:
            pinned = read_published(lake.storage, "t", id)
            assert pinned.version == version and pinned.dataset().count_rows() == sum(
                map(len, before[version].values())
            )
    assert lake.publisher().log.day_states(lake.publisher().log.head()) == states
    assert lake.table("t").version() == transactions and lake.table("t").transaction_version("topic-0") == 9
    view = observe(lake.storage, ["t", "u"])
    assert view.pinned["t"] == observe(played.storage, ["t"]).pinned["t"] and view.newest["t"] == view.pinned["t"]
    _goes_on(lake)


def _goes_on(lake: Lake) -> None:
    """Published, appended to, undone and compacted as if nothing had been."""
    assert isinstance(lake.publish("after", {"t": {D1: ["after"], D3: ["new"]}}, extra=1), Published)
    position = Position(id="topic-0", before=9, after=12)
    more = lake.request("more", {"t": {D1: ["more"]}}, kind="append", positions=(position,), extra=1)
    assert isinstance(lake.publisher().publish(more), Published)
    assert lake.rows("t")[D1] == ["after", "more"]
    compact(lake.publisher(), "t", [D1], id="c2")
    assert lake.rows("t")[D1] == ["after", "more"]
    roll_back(lake.publisher(), "c2", id="undo-c2", steps=())
    roll_back(lake.publisher(), "more", id="undo-more", steps=())
    roll_back(lake.publisher(), "after", id="undo-after", steps=())
    assert lake.rows("t")[D1] == ["11"] and lake.rows("t")[D2] == ["b", "c", "f"]
    assert lake.table("t").transaction_version("topic-0") == 9
    DeltaTable(lake.storage.uri("t")).create_checkpoint()
    assert lake.rows("t")[D1] == ["11"]


def test_nothing_is_written_that_names_files_which_are_gone(played: Lake, tmp_path: Path) -> None:
    lake = played.copy(tmp_path / "lakehouse")
    _commits(lake.root / "t" / "_delta_log")[-2].unlink()
    file = next((lake.root / "t" / "_timelines").glob("q11*/**/*.parquet"))
    file.unlink()
    plan = plan_mend(lake.publisher(), "t")
    assert plan.gone == (str(file.relative_to(lake.root)),)
    with pytest.raises(PublicationRefused, match=file.name):
        carry_out(lake.publisher(), plan)
    assert set(observe_each(lake.storage, ["t"]).unreadable) == {"t"}


def test_a_sound_table_and_an_unknown_one(played: Lake) -> None:
    assert not plan_mend(played.publisher(), "u").is_needed
    with pytest.raises(InvalidRequest, match="Nothing was published to v"):
        plan_mend(played.publisher(), "v")
