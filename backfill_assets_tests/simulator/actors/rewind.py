"""Days go back on a timeline: to a publication, or to just before it; all that differ, or some."""

from __future__ import annotations

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.state.view import find_moment, moment_before
from backfill_assets.timeline.rewind import RewindRequest, create_whole, rewound_timeline
from backfill_assets_tests.simulator.actors.timelines import FREE, NEWEST
from backfill_assets_tests.simulator.chain import DAYS, STEP_OF, STEPS
from backfill_assets_tests.simulator.world import CHAIN, Life, World, simulated


def rewind(life: Life) -> None:
    """The fact, bronze or the report, with what is computed from it."""
    newest = life.world.published_so_far(CHAIN)[-NEWEST:]
    if not newest:
        return
    publication, target = life.draw.choice(newest), life.draw.choice(["sums", "sums", "clean", "weekly"])
    first, last = sorted((life.draw.choice(DAYS), life.draw.choice(DAYS)))
    days = life.draw.choice([None, None, DayRange(first, last)])
    asked = RewindRequest(life.draw.choice(FREE), [target], days, by="ana")
    before = life.draw.random() < 0.5
    moment = moment_before(life.storage, publication) if before else find_moment(life.storage, publication, target)
    now = life.world.clock.now()
    made = create_whole(life.storage, lambda: rewound_timeline(life.storage, STEPS, asked, moment, now))
    if (world := simulated(life)) is not None:
        world.timelines.answered.add(made.id)
        judge_days(world, made, target, days)
    life.world.tally["rewound"] += 1


def judge_days(world: World, made: NamedTimeline, target: str, days: DayRange | None) -> None:
    """Those of the table that differ go back, or those that were asked for, and no others."""
    then, judge = made.moment_base, world.timelines
    world.follow()
    assert then is not None
    known = STEP_OF[target].cadence.starts(DAYS)
    if days is None:
        wanted = {day for day in known if judge.at(then, target, day) != judge.at(made.base, target, day)}
    else:
        wanted = {day for day in known if day in STEP_OF[target].cadence.starts(days)}
    assert made.held(target).keys() == wanted, f"{made.name} has {target} of {sorted(made.held(target))}, not {wanted}"
