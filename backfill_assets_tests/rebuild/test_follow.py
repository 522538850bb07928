"""Days that gained rows are followed beside others that keep publishing: those that are left say so. No JVM starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import partial

import pytest
from pyspark.errors import PySparkException

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish.books import say
from backfill_assets.publish.closed_days import BookEntry, BookWord, DaysClosed
from backfill_assets.publish.holds import put_hold
from backfill_assets.publish.promote import silent
from backfill_assets.publish.publisher import NO_READERS, Conflict, Published, Readers
from backfill_assets.rebuild import follow as follow_module
from backfill_assets.rebuild import walk
from backfill_assets.rebuild.follow import FollowBuild, Followed
from backfill_assets.rebuild.growing import InputMemory
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.main_build import MainBuild
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets_tests.simulator.actors.arrivals import bring
from backfill_assets_tests.simulator.chain import RUN
from backfill_assets_tests.simulator.priced import CLEAN, DAILY, DAYS, SUMS
from backfill_assets_tests.simulator.story import Story, story
from backfill_assets_tests.simulator.world import Life

pytestmark = pytest.mark.protocol
ONE, TWO, THREE = DAYS[:3]
STEPS = (CLEAN, SUMS, DAILY)


def arrived(told: Story, days: Sequence[date]) -> Story:
    for day in days:
        assert told.do(partial(bring, what="late row", day=day)) == "done"
    return told


@pytest.fixture
def played() -> Iterator[Story]:
    """Three days have gained rows."""
    with story() as told:
        yield arrived(told, (ONE, TWO, THREE))


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

    def moving(publication: Publication, readers: Readers = NO_READERS) -> Published | Conflict:
        return Conflict({CLEAN.name: frozenset({left.pop(0)})}) if left else publish(publication, readers)

    lake.publisher.publish = moving  # type: ignore[method-assign]
    return lake


def test_all_steps_are_published_together_and_nothing_is_left_to_follow(played: Story) -> None:
    done = follow(played.lake())
    assert staged(done) == EVERYTHING and done.publication
    again = follow(played.lake())
    assert (again.publication, staged(again)) == ("", set())


def test_a_day_that_keeps_moving_is_left_and_the_others_are_published(played: Story) -> None:
    done = follow(beside(played.lake(), ONE, ONE, ONE))
    assert done.left == {ONE: "other publications kept changing it"}
    assert staged(done) == all_tables(TWO, THREE) and done.publication
    assert staged(follow(played.lake())) == all_tables(ONE)


def test_what_the_last_try_did_not_publish_is_taken_over_by_the_next_one(played: Story) -> None:
    """None of it may be taken for published: a stream would show stale facts until more events come."""
    with pytest.raises(PublicationRefused, match="other publications kept changing 1 day"):
        follow(beside(played.lake(), ONE, ONE, ONE, TWO))
    done = follow(played.lake())
    assert staged(done) == EVERYTHING
    assert not set().union(*(step.build.computed for step in done.steps))


def test_a_day_that_a_campaign_holds_is_left(played: Story) -> None:
    lake = played.lake()
    hold = put_hold(lake.storage, "campaign-x", {SUMS.name: [TWO]})
    done = follow(lake)
    assert done.left == {TWO: "a campaign is cutting it over"} and staged(done) == all_tables(ONE, THREE)
    hold.release()
    assert staged(follow(lake)) == all_tables(TWO)


def said(lake: Lake, word: BookWord, day: date, table: str = "") -> BookEntry:
    """Somebody closes a day, or reopens it."""
    declared, now = lake.publisher.declared, clock.now()
    entry = BookEntry(id=f"{word}-{day}-{table}", word=word, table=table, first=day, last=day, by="ana", at=now)
    known = {"takes_rows": declared.takes_rows, "cadences": declared.cadences, "reason": "reported"}
    return say(lake.publisher, entry.model_copy(update=known)).entry


def test_rows_of_a_closed_day_wait_and_other_days_are_published(played: Story) -> None:
    """It is built when it is reopened."""
    lake = played.lake()
    closing = said(lake, "close", ONE)
    done = follow(lake)
    assert done.closed == {ONE: closing.said} and staged(done) == all_tables(TWO, THREE) and done.publication
    assert follow(lake).publication == "", "it is not tried again and again"
    assert f"{ONE} is closed by ana" in str(done)
    said(lake, "reopen", ONE, SUMS.name)
    assert staged(follow(lake)) == set(), "what it is made of is closed"
    said(lake, "reopen", ONE)
    assert staged(follow(lake)) == all_tables(ONE)


def test_a_build_keeps_closed_days_whoever_asks_for_them(played: Story) -> None:
    """One that was never built stays so."""
    lake, unbuilt = played.lake(), DAYS[-1] + timedelta(days=30)
    for day in (ONE, unbuilt):
        said(lake, "close", day)
    before = lake.states(CLEAN)
    request = StepRequest(CLEAN, [ONE, TWO, unbuilt], force=True)
    built = MainBuild(lake, request, RUN, silent).publish()
    found = {each.day: (each.reused, each.is_there, each.stays) for each in built.days if each.table == CLEAN.name}
    assert found[ONE] == (True, True, Cause.CLOSED) and found[TWO] == (False, True, None)
    assert found[unbuilt] == (True, False, Cause.CLOSED)
    assert lake.states(CLEAN)[TableDay(CLEAN.name, ONE)] == before[TableDay(CLEAN.name, ONE)]
    said(lake, "reopen", ONE)
    assert TableDay(CLEAN.name, ONE) in staged(follow(lake))


def test_a_day_that_is_closed_while_it_is_staged_is_refused(played: Story) -> None:
    """The next time it is left out."""
    lake, publish = played.lake(), played.lake().publisher.publish

    def closing(publication: Publication, readers: Readers = NO_READERS) -> Published | Conflict:
        said(lake, "close", ONE)
        return publish(publication, readers)

    lake.publisher.publish = closing  # type: ignore[method-assign]
    with pytest.raises(DaysClosed, match="closed by ana"):
        follow(lake)
    assert staged(follow(played.lake())) == all_tables(TWO, THREE)
    said(lake, "reopen", ONE)
    assert staged(follow(played.lake())) == all_tables(ONE)


def test_days_of_a_version_that_was_edited_are_left_until_it_is_put_right(
    played: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream goes on with raw. It looks again while there is such a version, and once where there is none."""
    edited, looks, memory = [EditedLogic("daily", ("daily",), "v1", (ONE,), ("f",), ("sums",))], [0], InputMemory()

    def look(*_: object) -> tuple[EditedLogic, ...]:
        looks[0] += 1
        return tuple(edited)

    monkeypatch.setattr(follow_module, "edited_logic", look)
    done = follow(played.lake(), memory)
    assert not done.publication and set(done.left) == {ONE, TWO, THREE}
    assert "made with another logic than v1 has now (sums changed) -> put v1 back" in done.left[TWO]
    edited.clear()
    assert staged(follow(played.lake(), memory)) == EVERYTHING
    before = looks[0]
    follow(played.lake(), memory)
    assert looks[0] == before


def test_however_many_days_cannot_be_computed_the_others_follow(played: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign gives up after some bad days: its logic is broken. A stream goes on for the days that it can."""
    stage, (good, *bad) = StepBuild.stage, DAYS
    arrived(played, bad[-1:])
    monkeypatch.setattr(walk, "_MOST_BAD_DAYS", 2)

    def failing(build: StepBuild, days: Sequence[date]) -> None:
        if build.step.name == CLEAN.name and set(days).intersection(bad):
            raise PySparkException("a value cannot be cast")
        stage(build, days)

    with monkeypatch.context() as patch:
        patch.setattr(StepBuild, "stage", failing)
        done = FollowBuild(played.lake(), STEPS, RUN, silent, InputMemory()).publish([good, *bad])
    assert staged(done) == all_tables(good) and done.publication
    assert {each.day for each in done.held_back} == set(bad)


def test_killed_anywhere_and_followed_again_it_gives_what_it_gives_at_once() -> None:
    def follows(life: Life) -> None:
        follow(life.lake())

    def shown(told: Story) -> dict[TableDay, tuple[str, ...]]:
        return {key: told.rows(*key) for key in EVERYTHING}

    with story() as told:
        before = arrived(told, (ONE, TWO, THREE)).world.record.steps
        assert told.do(follows) == "done"
        whole, passed = shown(told), told.world.record.steps - before
    for share in (0.1, 0.5, 0.9):
        with story() as killed:
            arrived(killed, (ONE, TWO, THREE))
            assert [killed.do(follows, dies_after=int(share * passed)), killed.do(follows)] == ["died", "done"]
            assert shown(killed) == whole
