"""Days that gained rows are followed beside others that keep publishing: those that are left say so. No JVM starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

import pytest
from pyspark.errors import PySparkException

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish.holds import put_hold
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets.rebuild import follow as follow_module
from backfill_assets.rebuild.builder import silent
from backfill_assets.rebuild.follow import FollowBuild, Followed
from backfill_assets.rebuild.growing import InputMemory
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets_tests.campaign.undo_lakehouse import (
    BRONZE,
    DAILY,
    DAYS,
    DIED,
    DONE,
    FACT,
    RUN,
    Life,
    UndoLakehouse,
    begun_lakehouse,
)

pytestmark = pytest.mark.protocol
ONE, TWO, THREE = DAYS[:3]
STEPS = (BRONZE, FACT, DAILY)
MANY = 10_000
"""More crash points than following passes."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UndoLakehouse]:
    with begun_lakehouse(tmp_path_factory.mktemp("begun")) as found:
        yield found


def arrived(begun: UndoLakehouse, days: Sequence[date]) -> UndoLakehouse:
    found = begun.copy()
    for day in days:
        assert found.do(*found.arrive("late row", day, "raw")) == DONE
    return found


@pytest.fixture(scope="module")
def gained(begun: UndoLakehouse) -> Iterator[UndoLakehouse]:
    """Three days have gained rows."""
    found = arrived(begun, (ONE, TWO, THREE))
    yield found
    found.remove()


@pytest.fixture
def played(gained: UndoLakehouse) -> Iterator[UndoLakehouse]:
    found = gained.copy()
    yield found
    found.remove()


def follow(lake: Lake, memory: InputMemory | None = None) -> Followed:
    return FollowBuild(lake, STEPS, RUN, silent, memory or InputMemory(), hold_seconds=0.0).publish([ONE, TWO, THREE])


def staged(done: Followed) -> set[TableDay]:
    return {TableDay(step.step, day) for step in done.steps for day in step.staged}


def all_tables(*days: date) -> set[TableDay]:
    return {TableDay(step.name, day) for step in STEPS for day in days}


EVERYTHING = all_tables(ONE, TWO, THREE)


def beside(lake: Lake, *moved: date) -> Lake:
    """Another day is published by others at each try; then they stop."""
    left, publish = list(moved), lake.publisher.publish

    def moving(publication: Publication) -> Published | Conflict:
        return Conflict({BRONZE.name: frozenset({left.pop(0)})}) if left else publish(publication)

    lake.publisher.publish = moving  # type: ignore[method-assign]
    return lake


def test_all_steps_are_published_together_and_nothing_is_left_to_follow(played: UndoLakehouse) -> None:
    done = follow(played.lake(Life()))
    assert staged(done) == EVERYTHING and done.publication
    again = follow(played.lake(Life()))
    assert (again.publication, staged(again)) == ("", set())
    played.end()


def test_a_day_that_keeps_moving_is_left_and_the_others_are_published(played: UndoLakehouse) -> None:
    done = follow(beside(played.lake(Life()), ONE, ONE, ONE))
    assert done.left == {ONE: "other publications kept changing it"}
    assert staged(done) == all_tables(TWO, THREE) and done.publication
    assert staged(follow(played.lake(Life()))) == all_tables(ONE)


def test_what_the_last_try_did_not_publish_is_taken_over_by_the_next_one(played: UndoLakehouse) -> None:
    """None of it may be taken for published: a stream would show stale facts until more events come."""
    with pytest.raises(PublicationRefused, match="other publications kept changing 1 day"):
        follow(beside(played.lake(Life()), ONE, ONE, ONE, TWO))
    done = follow(played.lake(Life()))
    assert staged(done) == EVERYTHING
    assert not set().union(*(step.build.computed for step in done.steps))


def test_a_day_that_a_campaign_holds_is_left(played: UndoLakehouse) -> None:
    lake = played.lake(Life())
    hold = put_hold(lake.storage, "campaign-x", {FACT.name: [TWO]})
    done = follow(lake)
    assert done.left == {TWO: "a campaign is cutting it over"} and staged(done) == all_tables(ONE, THREE)
    hold.release()
    assert staged(follow(lake)) == all_tables(TWO)


def test_days_of_a_version_that_was_edited_are_left_until_it_is_put_right(
    played: UndoLakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream goes on with raw. It looks again while there is such a version, and once where there is none."""
    edited, looks, memory = [EditedLogic("daily", ("daily",), "v1", (ONE,), ("f",), ("sums",))], [0], InputMemory()

    def look(*_: object) -> tuple[EditedLogic, ...]:
        looks[0] += 1
        return tuple(edited)

    monkeypatch.setattr(follow_module, "edited_logic", look)
    done = follow(played.lake(Life()), memory)
    assert not done.publication and set(done.left) == {ONE, TWO, THREE}
    assert "made with another logic than v1 has now (sums changed) -> put v1 back" in done.left[TWO]
    edited.clear()
    assert staged(follow(played.lake(Life()), memory)) == EVERYTHING
    before = looks[0]
    follow(played.lake(Life()), memory)
    assert looks[0] == before


def test_however_many_days_cannot_be_computed_the_others_follow(
    begun: UndoLakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign gives up after some bad days: its logic is broken. A stream goes on for the days that it can."""
    stage, (good, *bad) = StepBuild.stage, DAYS[:6]
    played = arrived(begun, DAYS[:6])

    def failing(build: StepBuild, days: Sequence[date]) -> None:
        if build.step.name == BRONZE.name and set(days).intersection(bad):
            raise PySparkException("a value cannot be cast")
        stage(build, days)

    monkeypatch.setattr(StepBuild, "stage", failing)
    done = FollowBuild(played.lake(Life()), STEPS, RUN, silent, InputMemory()).publish([good, *bad])
    assert staged(done) == all_tables(good) and done.publication
    assert {each.day for each in done.held_back} == set(bad)
    played.remove()


def test_killed_anywhere_and_followed_again_it_gives_what_it_gives_at_once(
    gained: UndoLakehouse, played: UndoLakehouse
) -> None:
    life = Life(MANY)
    follow(played.lake(life))
    assert played.do(lambda lake: None) == DONE  # it is judged, too
    whole = {key: played.names(*key) for key in EVERYTHING}
    for share in (0.1, 0.5, 0.9):
        killed = gained.copy()
        assert killed.do(follow, dies_after=int(share * (MANY - (life.left or 0)))) == DIED
        assert {key: killed.names(*key) for key in EVERYTHING} == whole
        killed.remove()
