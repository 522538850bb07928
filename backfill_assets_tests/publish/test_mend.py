"""A lost file of a Delta log is written anew from the publication log: all that was published is read as before."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import InvalidRequest, LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.records import Position
from backfill_assets.publish.compact import compact
from backfill_assets.publish.mend import MendPlan, carry_out, plan_mend
from backfill_assets.publish.publisher import CrashPoint, Published
from backfill_assets.state import observed
from backfill_assets.state.observed import observe, observe_each
from backfill_assets.state.reading import published_versions, read_published
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake, dying_at

pytestmark = pytest.mark.protocol

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


def _several(log: Path) -> None:
    for commit in _commits(log)[3:9]:
        commit.unlink()


def _half(log: Path) -> None:
    commit = _commits(log)[-2]
    commit.write_bytes(commit.read_bytes()[:200])


LOSSES: dict[str, Lose] = {
    "the-oldest": _without_checkpoint(lambda log: _commits(log)[0].unlink()),
    "the-second": _without_checkpoint(lambda log: _commits(log)[1].unlink()),
    "one-in-the-middle": _without_checkpoint(lambda log: _commits(log)[7].unlink()),
    "the-newest-but-one": lambda log: _commits(log)[-2].unlink(),
    "the-newest": lambda log: _commits(log)[-1].unlink(),
    "half-of-one": _half,
    "an-empty-one": lambda log: _commits(log)[-2].write_bytes(b""),
    "several": _without_checkpoint(_several),
    "a-checkpoint-and-what-it-stands-for": _checkpoint_of_a_short_log,
    "half-a-checkpoint-and-a-commit": _damaged_checkpoint,
    "all-of-it": shutil.rmtree,
}


_IDS = ("p1", "p2", "p3", "undo-p3", "p4", "p5", "c1", *(f"q{number}" for number in range(12)))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A table with a past: days replaced and appended to, an undo, an abort, a foreign write, a column that came."""
    lake = Lake(tmp_path_factory.mktemp("played") / "lakehouse")
    with clock.use(lake.time):
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
        yield lake


def _abort_one(lake: Lake) -> None:
    """It is in the first table when another writer changes the second one."""
    lake.die(CrashPoint.TABLE_COMMITTED, lake.request("aborted", {"t": {D1: ["z"]}, "u": {D1: ["z"]}}))
    lake.foreign_rows("u", {D1: ["foreign"]})
    assert lake.publisher().recover() == {"aborted": "aborted"}


def _files(lake: Lake, version: int) -> dict[str, AddedFile]:
    """In full, with their statistics."""
    return read_log(lake.storage, "t", version).active


def _mend(lake: Lake, table: str = "t") -> MendPlan:
    plan = plan_mend(lake.publisher(), table)
    carry_out(lake.publisher(), plan, by="ana")
    return plan


_IN_SMALL = ("the-oldest", "the-newest-but-one", "the-newest", "a-checkpoint-and-what-it-stands-for", "all-of-it")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _IN_SMALL else pytest.mark.long) for name in LOSSES]
)
def test_what_is_lost_is_written_anew(played: Lake, tmp_path: Path, name: str) -> None:
    """Each version that readers may have pinned is what it was, and all goes on as if nothing had been."""
    lake = played.copy(tmp_path / "lakehouse")
    LOSSES[name](lake.root / "t" / "_delta_log")
    broken = observe_each(lake.storage, ["t", "u"])
    assert set(broken.unreadable) == {"t"} and broken.pinned.keys() == {"u"}
    assert broken.unreadable["t"].next_step == "backfill maintain --mend t"
    with pytest.raises(LakehouseUnusable):
        lake.publish("over-it", {"t": {D1: ["over it"]}})
    plan = _mend(lake)
    assert plan.is_needed and not plan_mend(lake.publisher(), "t").is_needed, "once is enough"
    pins = {id: published_versions(lake.storage, id)["t"] for id in _IDS}
    kept = {id: version for id, version in pins.items() if version >= (plan.checkpoint or 0)}
    assert {id: _files(lake, version) for id, version in kept.items()} == {
        id: _files(played, version) for id, version in kept.items()
    }
    for id in (min(kept, key=kept.__getitem__), "q11"):
        pinned = read_published(lake.storage, "t", id)
        assert pinned.dataset().count_rows() == sum(len(rows) for rows in played.rows("t", pinned.version).values())
    assert lake.table("t").version() == played.table("t").version()
    if plan.checkpoint is None and name != "all-of-it":
        assert lake.table("t").metadata().id == played.table("t").metadata().id
    view = observe(lake.storage, ["t"])
    assert view.newest == view.pinned == observe(played.storage, ["t"]).pinned
    assert view.states.items() <= played.publisher().log.day_states(played.publisher().log.head()).items()
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


@pytest.mark.parametrize("step", [CrashPoint.PREPARED, CrashPoint.TABLE_COMMITTED, CrashPoint.ABORT_DECIDED])
@pytest.mark.parametrize("lose", [-1, -2], ids=["the-newest", "the-newest-but-one"])
def test_an_open_entry_ends_as_it_would_have(tmp_path: Path, step: CrashPoint, lose: int) -> None:
    """Its commit may be the lost one: FINISH makes it again, or fences the table."""
    lake = Lake(tmp_path / "lakehouse")
    for number in range(3):
        lake.publish(f"p{number}", {"t": {D1: [f"{number}"]}, "u": {D1: [f"{number}"]}})
    if step is CrashPoint.ABORT_DECIDED:
        lake.die(CrashPoint.TABLE_COMMITTED, lake.request("open", {"t": {D1: ["z"]}, "u": {D1: ["z"]}}))
        lake.foreign_rows("u", {D1: ["foreign"]})
        with pytest.raises(Died):
            lake.publisher(dying_at(step)).recover()
    else:
        lake.die(step, lake.request("open", {"t": {D1: ["z"]}, "u": {D1: ["z"]}}))
    whole = lake.copy(tmp_path / "whole")
    _commits(lake.root / "t" / "_delta_log")[lose].unlink()
    if plan_mend(lake.publisher(), "t").is_needed:
        _mend(lake)
    assert lake.publisher().recover(["t"]) == whole.publisher().recover(["t"])
    assert lake.rows("t") == whole.rows("t") and lake.rows("u") == whole.rows("u")


def test_a_table_that_may_not_be_read_has_lost_nothing(played: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may not be read by this user is not written over."""

    def denied(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(observed, "pinned_files", denied)
        found = observe_each(played.storage, ["t"]).unreadable["t"]
    assert "Permission denied" in found.why and "--mend" not in found.next_step
