"""Each command on a timeline dies at each of its steps, and is typed again: it ends, and all is as if it had not died.

Everything that it reads or writes is a step, in memory; beside it nobody works. The stories kill the same commands with
real signals on a real disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    TimelineVersion,
    create_timeline,
    delete_timeline,
    find_timeline,
    keep_timeline,
    opened_folder,
    rename_timeline,
)
from backfill_assets.lakehouse.timelines import open_timelines
from backfill_assets.publish.promote import silent
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.state.view import moment_before
from backfill_assets.timeline.build import forward, run_on
from backfill_assets.timeline.of_version import bring_up_to_date, create_of_version, keep_fresh
from backfill_assets.timeline.rewind import RewindRequest, new_timeline, rewound_timeline
from backfill_assets.timeline.switch import carry_out_switch, plan_switch
from backfill_assets_tests.simulator.actors.builder import publish_raw
from backfill_assets_tests.simulator.chain import CLEAN, COMPUTED, DAYS, RUN, STEPS, SUMS, lake_of
from backfill_assets_tests.simulator.chain_plans import publish_timeline
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.store import LAKES
from backfill_assets_tests.simulator.world import RETENTION_DAYS, PlayedLife, World
from backfill_assets_tests.simulator.wrong_days import alone, built_by, right_and_wrong, wrong_from_the_second_day

pytestmark = pytest.mark.protocol
Command = Callable[[Lake, World], object]
FEW, MOST = 5, 10_000


@cache
def begun() -> World:
    """Rows have arrived since days went wrong."""
    with alone(wrong_from_the_second_day()) as (life, lake):
        publish_raw(life, lake, {DAYS[1]: ("late.0=5",)})
        built_by(lake, CLEAN, [DAYS[1]], "v1")
    return life.world


def _rewind(lake: Lake, world: World) -> object:
    _, wrong = right_and_wrong(wrong_from_the_second_day())
    asked = RewindRequest("one", ["sums"])
    found = rewound_timeline(lake.storage, STEPS, asked, moment_before(lake.storage, wrong), clock.now())
    return create_timeline(lake.storage, found)


def _line(lake: Lake, name: str) -> Any:
    return find_timeline(lake.storage, name, clock.now())


COMMANDS: Mapping[str, Command] = {
    "rewind": _rewind,
    "create": lambda lake, _: create_timeline(lake.storage, new_timeline(lake.storage, "two", "ana", clock.now())),
    "forward as another": lambda lake, _: forward(lake, _line(lake, "one"), "v2", RUN, silent, other="three"),
    "forward": lambda lake, _: forward(lake, _line(lake, "one"), "v2", RUN, silent, arrivals=False),
    "build on": lambda lake, _: run_on(lake, _line(lake, "two"), [StepRequest(SUMS, DAYS[1:3], "v2")], RUN, silent),
    "open": lambda lake, _: lake.storage.put_if_absent(f"{opened_folder(_line(lake, 'three'))}/sums/log.json", b"{}"),
    "publish": lambda lake, _: publish_timeline(lake, STEPS, _line(lake, "one"), "campaign-typed"),
    "delete": lambda lake, _: delete_timeline(lake.storage, _line(lake, "three"), clock.now()),
    "rename": lambda lake, _: rename_timeline(lake.storage, _line(lake, "two"), "three", clock.now()),
    "keep": lambda lake, _: keep_timeline(lake.storage, _line(lake, "three"), None, clock.now()),
    "side by side": lambda lake, _: create_of_version(
        lake, "standby-sums-v1", SUMS, TimelineVersion(step="sums", version="v1"), "ana"
    ),
    "up to date": lambda lake, _: bring_up_to_date(lake, _line(lake, "standby-sums-v1"), RUN, silent),
    "fresh": lambda lake, _: keep_fresh(lake.storage, _line(lake, "standby-sums-v1"), clock.now(), fresh=True),
    "switch": lambda lake, _: carry_out_switch(
        lake, plan_switch(lake, _line(lake, "standby-sums-v1"), new_days_only=False), RUN
    ),
    "the way back": lambda lake, _: carry_out_switch(
        lake, plan_switch(lake, _line(lake, "standby-sums-v2"), new_days_only=False), RUN
    ),
}
"""One after the other."""


def typed(command: Command, before: World, *turns: Turn) -> tuple[World, list[int]]:
    """A lakehouse with the past of ``before`` after these turns, and how many steps each process passed to its end."""
    steps: list[int] = []

    def deed(life: PlayedLife) -> None:
        try:
            command(lake_of(life.watched()), life.world)
        finally:
            steps.append(life.process.passed)
            life.process.rest()  # it is typed once

    world = World(before.seed + 1, {"ana": deed})
    with world.begun():
        world.begin_as(before)
        for turn in turns:
            world.take(turn)
            world.judge()
        Publisher(world.storage, retention_days=RETENTION_DAYS).recover()
        world.judge()
    return world, steps


@cache
def undisturbed(name: str) -> tuple[World, World, int]:
    """A lakehouse before and after a command, and how many steps it passes."""
    earlier = list(COMMANDS)[: list(COMMANDS).index(name)]
    before = undisturbed(earlier[-1])[1] if earlier else begun()
    after, steps = typed(COMMANDS[name], before, Turn("ana", MOST))
    assert not after.tally.keys() & {"InvalidRequest", "PublicationRefused"}, f"{name} is refused"
    assert contents(after) != contents(before) or name in ("open", "keep"), f"{name} does nothing"
    return before, after, steps[0]


def contents(world: World) -> object:
    """What main and every timeline show, which versions are current, and whose staged days are not closed."""
    judge, log = world.timelines, world.log
    days = {step.name: step.cadence.starts(DAYS) for step in COMPUTED}
    lines = {
        each.name: (
            {(table, day): judge.shown(each)(table, day) for table in days for day in days[table]},
            {table: sorted(held) for table, held in each.records.items()},
            (each.versions, each.of_version, each.targets, each.keep_until, each.went_to),
        )
        for each in judge.kept
    }
    main = {(table, day): world.tables[table].at(log.map[table], day).rows for table in days for day in days[table]}
    return lines, main, log.current, len(log.outcomes)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("places", [FEW, pytest.param(MOST, marks=pytest.mark.long)], ids=["few", "all"])
@pytest.mark.parametrize("name", list(COMMANDS), ids=lambda name: str(name).replace(" ", "-"))
def test_who_dies_at_any_step_and_types_it_again_has_it(name: str, places: int) -> None:
    """Or is told that it was done."""
    before, after, steps = undisturbed(name)
    for step in range(0, steps, max(1, steps // places)):
        again, _ = typed(COMMANDS[name], before, Turn("ana", step, "dies"), Turn("ana", MOST))
        assert contents(again) == contents(after), f"{name} died after {step} of {steps} steps"


def test_a_timeline_that_is_deleted_leaves_nothing() -> None:
    """Its staged days are closed, and the plain tables of its revisions are gone."""
    before, after, _ = undisturbed("delete")
    (gone,) = [each for each in before.timelines.kept if each.name == "three"]
    paths = [path for path in after.files.contents if path.startswith(opened_folder(gone))]
    assert not paths and any(path.startswith(opened_folder(gone)) for path in before.files.contents)
    assert staged_by(before, gone) and not staged_by(after, gone)


def staged_by(world: World, line: NamedTimeline) -> list[str]:
    with world.begun():
        LAKES[world.storage.root] = world.files
        return [
            each.name for table in line.days for each in open_timelines(world.storage, table) if line.id in each.name
        ]
