"""What a walk promises, over pasts that a seed makes in the simulator: what arrived, and what was built of it.

``WALKS`` and ``WALKS_SEED`` ask for more pasts, or others, than the default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from backfill_assets.days import TableDay
from backfill_assets.errors import CampaignStopped
from backfill_assets.lakehouse.timelines import CAMPAIGN, Timeline
from backfill_assets.model.declaration import Metrics, Table
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild import decide, step_build
from backfill_assets.rebuild import stage as staging
from backfill_assets.rebuild.decide import Decision
from backfill_assets.rebuild.grow import Grown
from backfill_assets.rebuild.growing import Gain, Growing, InputMemory
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.place import Place
from backfill_assets.rebuild.step_look import StepDecision, StepRequest
from backfill_assets.rebuild.walk import StepBuilt, Walk, shadow
from backfill_assets_tests.simulator.actors.arrivals import arrive, bring
from backfill_assets_tests.simulator.chain import RUN
from backfill_assets_tests.simulator.priced import CLEAN, DAILY, DAYS, SUMS, WEEKLY
from backfill_assets_tests.simulator.story import Story, story
from backfill_assets_tests.simulator.world import Life

pytestmark = pytest.mark.protocol
SEED, WALKS = int(os.environ.get("WALKS_SEED", "20170401")), int(os.environ.get("WALKS", "4"))
SOUND = SEED + 3
"""A past in which no day fails its gates."""
OWNER, BESIDE = f"{CAMPAIGN}walked", f"{CAMPAIGN}beside"
RACES_AND_KILLS = {
    "a run on main": (
        "rebuild/test_main_build.py::test_another_version_that_is_published_meanwhile_is_not_overwritten",
        "stories/test_adoption.py::test_what_a_killed_run_staged_is_published_by_the_next",
        "stories/test_killed_builds.py::test_killed_at_random_moments",
    ),
    "a campaign": (
        "campaign/test_approved_is_published.py::test_what_moves_in_the_seconds_of_the_cut_over_is_judged_as_well",
        "stories/test_killed_cut_over.py::test_all_tables_are_old_or_new_wherever_the_cut_over_is_killed",
    ),
    "a run on a timeline": (
        "stories/test_run_on_timeline.py::test_inputs_are_those_of_the_base_however_main_moves",
        "stories/test_run_on_timeline.py::test_a_killed_run_leaves_the_timeline_as_it_was",
    ),
    "a timeline that is rewound or goes forward": (
        "simulator/test_typed_again.py::test_who_dies_at_any_step_and_types_it_again_has_it",
        "stories/test_killed_rewind.py::test_every_command_is_killed_everywhere_and_ends_as_if_it_had_not_been",
    ),
    "a version that is kept fresh and switched to": (
        "cli/verbs/test_as_current.py::test_a_switch_that_main_moved_under_is_refused_and_leaves_nothing",
        "publish/test_switches.py::test_a_killed_switch_is_finished_by_the_next_process_days_and_version_together",
    ),
    "days that grow": (
        "rebuild/test_follow.py::test_a_day_that_keeps_moving_is_left_and_the_others_are_published",
        "rebuild/test_follow.py::test_killed_anywhere_and_followed_again_it_gives_what_it_gives_at_once",
    ),
    "an undo": (
        "simulator/test_campaigns.py::test_no_seed_publishes_what_was_not_approved_or_contradicts_what_main_shows",
    ),
}
"""Who walks through steps and days, and the tests in which others race it and it is killed."""
Contents = Mapping[TableDay, tuple[str, str]]
"""What each day holds, and what it was made of."""


@dataclass(frozen=True)
class Past:
    """What happened before a walk, and what it is asked for."""

    arrivals: int
    days: tuple[date, ...]
    version: str
    bad: Collection[date]
    """Days of the fact that fail their gates in a campaign."""

    @classmethod
    def of(cls, seed: int) -> Past:
        draw = random.Random(seed)
        first = draw.randrange(len(DAYS) - 2)
        days = draw.choice([DAYS, DAYS[first : first + 3]])
        return cls(draw.randrange(4), days, draw.choice(["v1", "v2", "v2"]), draw.sample(days, draw.randrange(2)))

    def requests(self) -> list[StepRequest]:
        versions = {SUMS.name: self.version}
        return [
            StepRequest(step, step.cadence.starts(self.days), versions.get(step.name, ""))
            for step in (SUMS, DAILY, WEEKLY)
        ]


@dataclass(frozen=True)
class Lived:
    """A world with a past."""

    past: Past
    told: Story

    def begin(self, lake: Lake | None = None, owner: str = OWNER) -> Walk:
        """A walk by a process of its own."""
        return Walk(lake or self.told.lake(), Place(owner), RUN, silent)

    def walk(self, lake: Lake | None = None, owner: str = OWNER) -> Walk:
        """Through all steps."""
        walk = self.begin(lake, owner)
        for asked in self.past.requests():
            walk.take(asked)
        return walk


@pytest.fixture(scope="module", params=range(SEED, SEED + WALKS), ids=lambda seed: f"WALKS_SEED={seed}")
def lived(request: pytest.FixtureRequest) -> Iterator[Lived]:
    """Walks write into places of their own, each test into others: all of them share the world of a past."""
    past = Past.of(request.param)
    with story(request.param) as told, pytest.MonkeyPatch.context() as patch:
        real = staging.measured_days

        def measured_days(spark: object, table: Table, timeline: Timeline, days: Sequence[date]) -> dict[date, Metrics]:
            found = real(spark, table, timeline, days)  # type: ignore[arg-type]
            broken = past.bad if table.name == SUMS.name and timeline.name.startswith(CAMPAIGN) else ()
            return {day: {**metrics, "violating": int(day in broken)} for day, metrics in found.items()}

        patch.setattr(staging, "measured_days", measured_days)
        for _ in range(past.arrivals):
            assert told.do(arrive) == "done"
        yield Lived(past, told)


@dataclass(frozen=True)
class Walked:
    """A walk through all steps, what was decided before each of them, and how many steps of a process it took."""

    walk: Walk
    looks: Sequence[StepDecision]
    passed: int


@pytest.fixture(scope="module")
def walked(lived: Lived) -> Walked:
    looks, done = list[StepDecision](), list[Walk]()

    def walks(life: Life) -> None:
        walk = lived.begin(life.lake())
        for asked in lived.past.requests():
            looks.append(walk.look(asked)[1])
            walk.take(asked)
        done.append(walk)

    before = lived.told.world.record.steps
    assert lived.told.do(walks) == "done"
    return Walked(done[0], looks, lived.told.world.record.steps - before)


def contents(walk: Walk) -> Contents:
    """Of all days that are kept or staged, and not held back."""
    found = {}
    for done in walk.done:
        for key in (TableDay(done.step, day) for day in (*done.kept, *done.from_main, *done.staged)):
            content = done.build.content(key)
            assert content is not None, key
            found[key] = (content.logical, content.input_fingerprint)
    return found


def held_back(walk: Walk) -> set[TableDay]:
    return {TableDay(each.table, each.day) for done in walk.done for each in done.held_back}


def test_what_a_look_decides_is_what_the_walk_does(walked: Walked) -> None:
    for found, done in zip(walked.looks, walked.walk.done, strict=True):
        assert set(found.days(Decision.KEEP)) == set(done.kept)
        assert set(found.days(Decision.BLOCKED)) == {each.day for each in done.held_back if each.because_of}
        tried = {*done.staged, *(each.day for each in done.held_back if not each.because_of)}
        assert set(found.days(Decision.COMPUTE)) == tried


def test_no_day_lies_over_main_that_was_made_from_one_that_is_held_back(walked: Walked) -> None:
    out: dict[str, frozenset[date]] = {}
    for done in walked.walk.done:
        laid = walked.walk.place.overlay.days.get(done.step, {})
        assert not decide.days_reading(done.build.step, done.build.version, list(laid), out)
        out[done.step] = frozenset(each.day for each in done.held_back)
        assert not out[done.step].intersection(laid)


def test_it_agrees_with_itself_and_walked_again_nothing_is_computed(lived: Lived, walked: Walked) -> None:
    """Every day that is not held back is made of just what the place shows after the walk."""
    walk = walked.walk
    for asked in lived.past.requests():
        _, found = walk.look(asked)
        out = {key.day for key in held_back(walk) if key.table == asked.step.name}
        assert set(found.days(Decision.KEEP)) == set(asked.days) - out
    again = lived.walk()
    assert (contents(again), held_back(again)) == (contents(walk), held_back(walk))
    assert not set().union(*(done.build.computed for done in again.done)) - {day for _, day in held_back(again)}


def test_with_or_without_what_was_staged_before_and_in_other_chunks_it_gives_the_same(
    lived: Lived, walked: Walked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was staged before saves work, and never changes a result."""
    monkeypatch.setattr(decide, "_MOST_DAYS", 1)
    beside = lived.walk(owner=BESIDE)
    assert (contents(beside), held_back(beside)) == (contents(walked.walk), held_back(walked.walk))


def test_killed_anywhere_and_walked_again_it_gives_what_it_gives_at_once(lived: Lived, walked: Walked) -> None:
    """Once in each third of the walk."""
    chance, part = random.Random(walked.passed), walked.passed // 6
    for points in (chance.randrange(part * third, part * (third + 1)) for third in range(3)):
        owner = f"{OWNER}-{points}"
        assert lived.told.do(lambda life, owner=owner: lived.walk(life.lake(), owner), dies_after=points) == "died"  # type: ignore[misc]
        again = lived.walk(owner=owner)
        assert (contents(again), held_back(again)) == (contents(walked.walk), held_back(walked.walk)), points


@pytest.mark.parametrize("lived", [SEED], indirect=True)
def test_one_who_watches_can_end_it_within_a_step_and_what_was_staged_is_kept(
    lived: Lived, walked: Walked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With chunks of a day each, it is called after the first day, while the second is judged."""
    monkeypatch.setattr(decide, "_MOST_DAYS", 1)
    seen: list[list[tuple[str, int]]] = []

    def watch(done: Sequence[StepBuilt]) -> None:
        seen.append([(each.step, len(each.staged) + len(each.held_back)) for each in done])
        if len(done) == 1:
            raise CampaignStopped("too many days are held back")

    fact, *_ = lived.past.requests()
    with pytest.raises(CampaignStopped):
        shadow(lived.told.lake(), f"{OWNER}-watched", lived.past.requests(), RUN, silent, watch)
    assert seen == [[(SUMS.name, 1)]] and len(fact.days) > 2
    again = lived.walk(owner=f"{OWNER}-watched")
    assert (contents(again), held_back(again)) == (contents(walked.walk), held_back(walked.walk))
    assert again.done[0].build.computed < set(fact.days)


def failing(days: Collection[date], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these days of the fact fail to be computed, whatever the place."""
    real = staging.measured_days

    def measured_days(spark: object, table: Table, timeline: Timeline, asked: Sequence[date]) -> Mapping[date, Metrics]:
        if table.name == SUMS.name and set(asked).intersection(days):
            raise PySparkException("a rate of zero")
        return real(spark, table, timeline, asked)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "measured_days", measured_days)


@pytest.mark.parametrize("lived", [SOUND], indirect=True)
def test_days_that_a_timeline_keeps_do_not_show_that_the_logic_works(
    lived: Lived, walked: Walked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all that has to be computed fails, the walk fails, however many days are as they are. A campaign goes on: of
    the same logic it has staged the others."""
    fact = lived.past.requests()[0]
    *others, last = fact.days
    staged = walked.walk.place.overlay
    assert {last, *others} == staged.days[SUMS.name].keys()
    failing([last], monkeypatch)
    timeline = Place("timeline-kept", staged.without_days([SUMS.name], [last]))
    with pytest.raises(PySparkException, match="a rate of zero"):
        Walk(lived.told.lake(), timeline, RUN, silent).take(fact)
    done = Walk(lived.told.lake(), Place(f"{CAMPAIGN}goes-on"), RUN, silent).take(fact)
    assert [(each.day, each.error) for each in done.held_back] == [(last, "a rate of zero")]
    assert set(done.staged) == set(others)


# ------------------------------------------------------------------ days that grow


def with_days_that_grow(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> Walk:
    """A walk in which facts follow bronze row by row. What a day gains is played: all of its rows are made again."""

    def grow_chunk(growing: Growing, chunk: staging.Chunk, gains: object, timelines: Mapping[str, Timeline]) -> Grown:
        staged = staging.stage_chunk(growing.lake.spark(), growing.lake.storage, chunk, timelines)
        return Grown({each.day: [each] for each in staged})

    monkeypatch.setattr(step_build, "grow_chunk", grow_chunk)
    lake, days = lived.told.lake(), lived.past.days
    fact = replace(SUMS, versions=tuple(replace(version, follows="rows") for version in SUMS.versions))
    steps, memory = (CLEAN, fact, DAILY), InputMemory()
    walk = Walk(lake, Place(), RUN, silent, growing=Growing.begin(lake, steps, days, memory))
    assert walk.growing is not None
    for step in steps:
        done = walk.take(StepRequest(step, days, decide.AS_PUBLISHED))
        if step is CLEAN:
            keys: Any = SimpleNamespace(counts={SUMS.name: {}})
            walk.growing.grown |= {TableDay(CLEAN.name, day): Gain((), keys=keys) for day in done.staged}
    return walk


def test_days_grow_only_by_rows_that_came_since_they_were_made_and_give_what_a_whole_build_gives(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day that lacks anything else, such as another rate, is made whole."""
    days = lived.past.days
    with lived.told.copy() as told:
        for day in days[:2]:
            assert told.do(partial(bring, what="late row", day=day)) == "done"
        judge, shown = told.world.agreement, told.world.agreement.shown
        facts = {day: TableDay(SUMS.name, day) for day in days}
        lack_only_rows = {
            day for day, key in facts.items() if key in shown.versions and judge.is_made_of_what_is_shown(shown, key)
        }
        walk = with_days_that_grow(replace(lived, told=told), monkeypatch)
        clean, sums, daily = (done.build for done in walk.done)
        assert sums.grown == lack_only_rows.intersection(clean.staged) and not clean.grown | daily.grown
        assert all(sums.whole[day] for day in sums.staged.keys() - sums.grown)
        whole = Walk(told.lake(), Place(), RUN, silent)
        for step in (CLEAN, SUMS, DAILY):
            whole.take(StepRequest(step, days, decide.AS_PUBLISHED))
        assert (contents(walk), held_back(walk)) == (contents(whole), held_back(whole))


def test_the_races_and_kills_of_each_walker_are_played() -> None:
    named = [each.split("::") for tests in RACES_AND_KILLS.values() for each in tests]
    assert [test for file, test in named if f"def {test}(" not in (Path(__file__).parents[1] / file).read_text()] == []
