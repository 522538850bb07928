"""Small histories of a timeline, each for a rule of its own; the seeds play all others. Judged like these."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import pytest

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    create_timeline,
    delete_timeline,
    find_timeline,
    kept_timelines,
)
from backfill_assets.publish.crash_points import nowhere
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.state.view import find_moment, moment_before
from backfill_assets.timeline.build import forward, run_on
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets.timeline.view import stale_days
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.simulator.actors.bring import differing_days, judge_left, judge_shown
from backfill_assets_tests.simulator.actors.builder import publish_raw
from backfill_assets_tests.simulator.chain import CLEAN, DAYS, RUN, STEPS, SUMS, lake_of
from backfill_assets_tests.simulator.chain_plans import publish_timeline
from backfill_assets_tests.simulator.world import CHAIN, RETENTION_DAYS, PlayedLife
from backfill_assets_tests.simulator.wrong_days import (
    WEEKS,
    alone,
    built_by,
    right_and_wrong,
    wrong_from_the_second_day,
)

pytestmark = pytest.mark.protocol
BACK, OTHER, WEEK = DAYS[2], DAYS[3], WEEKS[1]
"""A day that goes back, the other one of its week, and that week."""


class Person:
    """Types one command after the other."""

    def __init__(self, life: PlayedLife) -> None:
        self.life = life
        self.lake = lake_of(life.watched(nowhere))
        self.right, self.wrong = right_and_wrong(life.world)

    def rewind(self, name: str, days: DayRange | None = None) -> NamedTimeline:
        """To the last moment at which everything was right."""
        storage = self.lake.storage
        moment = find_moment(storage, self.right, "") if days else moment_before(storage, self.wrong)
        made = rewound_timeline(storage, STEPS, RewindRequest(name, ["sums"], days), moment, clock.now())
        return self.judged(create_timeline(storage, made))

    def forward(self, name: str, other: str | None = None, *, arrivals: bool = True) -> NamedTimeline:
        """By the version that is right."""
        line = self.find(name)
        done = forward(self.lake, line, "v2", RUN, silent, arrivals=arrivals, other=other, by="ana")
        return self.judged(done.timeline)

    def publish(self, name: str) -> None:
        line, life = self.find(name), self.life
        differed = differing_days(life, line)
        publication = publish_timeline(self.lake, STEPS, line, f"campaign-{name}").published.publication
        life.world.judge()
        judge_left(life, line, publication)
        judge_shown(life, line, differed)

    def find(self, name: str) -> NamedTimeline:
        return find_timeline(self.lake.storage, name, clock.now())

    def stale(self, name: str) -> dict[str, set[date]]:
        found = stale_days(self.lake.storage, self.find(name), STEPS)
        return {table: set(days) for table, days in found.items()}

    def judged(self, line: NamedTimeline) -> NamedTimeline:
        self.life.world.timelines.answered.add(line.id)
        self.life.world.judge()
        return line

    def versions(self) -> list[str]:
        """Of the days of the fact in main."""
        self.life.world.follow()
        return [version for key, version in sorted(self.life.world.reports.version_of.items()) if key.table == "sums"]

    def main(self, table: str, day: date) -> list[str]:
        world = self.life.world
        world.follow()
        return sorted(world.tables[table].at(world.log.map[table], day).rows.elements())


@pytest.fixture
def ana() -> Iterator[Person]:
    with alone(wrong_from_the_second_day()) as (life, _):
        yield Person(life)


def test_publishing_leaves_days_that_the_timeline_does_not_hold(ana: Person) -> None:
    """The second of three days became right before, and then main took another version: it is main's own."""
    built_by(ana.lake, SUMS, [DAYS[2]], "v2")
    assert ana.rewind("one").held("sums").keys() == {DAYS[1], DAYS[3]}
    ana.forward("one")
    built_by(ana.lake, SUMS, [DAYS[2]], "v1")
    ana.publish("one")
    assert ana.versions() == ["v2", "v2", "v1", "v2"]


def test_a_history_of_one_rewind_from_its_moment_to_its_publication(ana: Person) -> None:
    """Rows arrive; what goes forward shares files with another one, which goes forward too, and that is published."""
    publish_raw(ana.life, ana.lake, {DAYS[1]: ("late.0=5",)})
    built_by(ana.lake, CLEAN, [DAYS[1]], "v1")
    ana.rewind("one")
    two = ana.forward("one", "two")
    three = ana.forward("two", "three")
    assert three.days == two.days, "nothing moved, and days were computed again"
    delete_timeline(ana.lake.storage, two, clock.now())
    ana.life.world.clock.pass_on(timedelta(days=RETENTION_DAYS, hours=1))
    for table in CHAIN:
        reclaim(ana.lake.publisher, table, clock_checked=True)
    ana.life.world.judge()
    assert [each.name for each in kept_timelines(ana.lake.storage, clock.now())] == ["one", "three"]
    ana.publish("three")
    assert ana.versions() == ["v2", "v2", "v2", "v2"] and "late=55" in ana.main("sums", DAYS[1])


def test_without_arrivals_the_other_days_of_a_week_are_of_the_moment_too(ana: Person) -> None:
    """A day of two goes back: its week is main's, stale; forward computes it from both as the timeline shows them."""
    for name, arrivals in (("one", True), ("two", False)):
        line = ana.rewind(name, DayRange(BACK, BACK))
        assert ana.stale(name) == {"weekly": {WEEK}}
        judge = ana.life.world.timelines
        assert judge.shown(line)("weekly", WEEK) == judge.at(line.base, "weekly", WEEK)
        line = ana.forward(name, arrivals=arrivals)
        shown = sorted(judge.shown(line)("sums", OTHER).elements())
        assert ana.stale(name) == {} and (shown == ana.main("sums", OTHER)) == arrivals


def test_publishing_computes_the_week_that_was_stale(ana: Person) -> None:
    """It goes by what is published together, and not by the record that the timeline keeps of the week."""
    before = ana.main("weekly", WEEK)
    ana.rewind("one", DayRange(BACK, BACK))
    run_on(ana.lake, ana.find("one"), [StepRequest(SUMS, [OTHER], "v2")], RUN, silent)
    assert ana.stale("one") == {"weekly": {WEEK}}
    ana.publish("one")
    amounts = [int(name.partition("=")[2]) for day in (BACK, OTHER) for name in ana.main("sums", day)]
    assert before != ana.main("weekly", WEEK) == [f"{len(amounts)}={sum(amounts)}"]
