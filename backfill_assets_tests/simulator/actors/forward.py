"""Days of a timeline are computed: all that it has again, on itself or on another one, or some that are asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.timeline.build import forward, run_on
from backfill_assets_tests.simulator.actors.timelines import FREE, chosen
from backfill_assets_tests.simulator.chain import COMPUTED, DAYS, RUN, lake_of
from backfill_assets_tests.simulator.world import Life, PlayedLife, simulated


def go_forward(life: Life) -> None:
    """By a version or the current one, with the rows that arrived since or without."""
    world = simulated(life)
    if (before := chosen(life, with_days=True)) is None:
        return
    version = life.draw.choice(["v1", "v2", ""]) if "sums" in before.targets else ""
    arrivals, other = life.draw.random() < 0.7, life.draw.choice([None, None, *FREE])
    seen = len(world.log.closed_at) if world else 0
    done = forward(lake_of(life.watched()), before, version, RUN, silent, arrivals=arrivals, other=other, by="ana")
    judge_computed(before, done.timeline)
    if world is not None:
        world.follow()
        world.timelines.answered.add(done.timeline.id)
        stale = world.timelines.stale_of_its_own(done.timeline)
        moved = not arrivals or len(world.log.closed_at) > seen
        assert moved or not stale, f"{done.timeline.name} went forward over what did not move, and {stale} are stale"
    life.world.tally["went forward"] += 1


def build_on(life: PlayedLife) -> None:
    """Some days of a step, from what the timeline shows."""
    if (before := chosen(life)) is None:
        return
    step, days = life.draw.choice(COMPUTED), sorted(life.draw.sample(DAYS, 2))
    asked = StepRequest(step, step.cadence.starts(days), life.draw.choice(step.versions).name)
    after = run_on(lake_of(life.watched()), before, [asked], RUN, silent).timeline
    judge_computed(before, after, [TableDay(step.name, day) for day in asked.days])
    assert {table: after.held(table).keys() | before.held(table).keys() for table in after.days} == {
        table: set(held) for table, held in after.records.items()
    }, f"days of {after.name} were lost"
    life.world.tally["built on a timeline"] += 1


def judge_computed(before: NamedTimeline, after: NamedTimeline, asked: Collection[TableDay] | None = None) -> None:
    """A day whose inputs, version and content are as they were is kept; and nobody computed what was not ``asked``."""
    for table, days in after.records.items():
        for day, now in days.items():
            if (was := before.held(table).get(day)) is None:
                assert asked is None or TableDay(table, day) in asked, f"{table} {day} of {after.name} is new"
            elif _made_of(was) == _made_of(now):
                assert _files(was) == _files(now), f"{table} {day} of {after.name} was as it is, and computed again"
            else:
                assert asked is None or TableDay(table, day) in asked, (
                    f"{table} {day} of {after.name} was not asked for"
                )


def _made_of(held: DayRecord) -> tuple[str, str] | None:
    return (held.content.inputs, held.content.code_version) if held.content else None


def _files(held: DayRecord) -> Sequence[str]:
    return sorted(file.path for file in held.files)
