"""What the package itself builds, approves and undoes, on a chain of four tables; and all who do something with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.undo import undo
from backfill_assets.campaign.undoable import require_in_force, undoable
from backfill_assets.lakehouse.records import DayContent, Position, Publication
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import PlanRequest, Scope
from backfill_assets.publish.crash_points import nowhere
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.walk import shadow
from backfill_assets_tests.simulator.actors.bring import bring
from backfill_assets_tests.simulator.actors.follow import follow_raw
from backfill_assets_tests.simulator.actors.forward import build_on, go_forward
from backfill_assets_tests.simulator.actors.rewind import rewind
from backfill_assets_tests.simulator.actors.standby import keep_side_by_side
from backfill_assets_tests.simulator.actors.timelines import name_timelines, sweep
from backfill_assets_tests.simulator.chain import LANDED, RUN, measured
from backfill_assets_tests.simulator.chain_plans import plan_context, shadow_steps
from backfill_assets_tests.simulator.staging import Names, change, stage
from backfill_assets_tests.simulator.world import Deed, Life

_NEWEST = 4


def land(life: Life) -> None:
    """A row of a new key arrives, or a newer version of one."""
    world, day = life.world, life.draw.choice(life.world.chain.days)
    known = sorted({name.partition(".")[0] for name in world.landed().get(day, ())})
    key = life.draw.choice([*known, f"{day.day}-{world.count('keys')}"])
    rows = {day: (f"{key}.{world.count('versions')}={life.draw.randint(1, 6)}",)}
    publish_raw(life, life.lake(), rows)


def publish_raw(life: Life, lake: Lake, rows: Mapping[date, Names], table: str = LANDED.name) -> None:
    """Appended once, with the position of their source."""
    id = life.new_id("l")
    position = Position(id=f"landed {id}", before=None, after=1)
    made = change(stage(life.storage, table, id, rows), rows, mode="append", positions=(position,))
    days = tuple(each.model_copy(update={"content": _content(rows[each.day])}) for each in made.days)
    lake.publisher.publish(Publication(id=id, kind="append", tables=(made.model_copy(update={"days": days}),)))


def _content(names: Names) -> DayContent:
    figures = measured(names)
    return DayContent(rows=figures.pop("rows"), checksum=str(figures.pop("checksum")), metrics=figures)


def build(life: Life) -> None:
    """One step or all, of the days that have landed; the fact by any version."""
    lake, days = life.lake(), sorted(life.world.landed())
    chain = life.world.chain
    for step in [life.draw.choice(chain.computed)] if life.draw.random() < 0.5 else chain.computed:
        version = life.draw.choice([AS_PUBLISHED, AS_PUBLISHED, "v1"])
        if days:
            Builder(lake).build(step, chain.starts(step, days), run=RUN, version=version)


def campaign(life: Life) -> None:
    """A version of the fact over some days, staged and then published with all that is computed from it."""
    lake, name = life.lake(), life.new_id("campaign")
    days, version = sorted(life.draw.sample(life.world.chain.days, 2)), life.draw.choice(["v1", "v2"])
    scope = life.draw.choice([Scope.WHOLE, Scope.ONWARDS])
    asked = PlanRequest(target="sums", days=f"{days[0]}..{days[1]}", version=version, scope=scope)
    planned = shadow_steps(life.world.chain.steps, make_plan(asked, plan_context(lake, life.world.chain.steps)))
    shadow(lake, name, planned, RUN, silent)
    life.reached("staged")
    cut_over(lake, name, planned, RUN, silent)


def take_back(life: Life) -> None:
    """A campaign together with what arrived since, a run by its files; as the command does it."""
    newest = life.world.published_so_far(life.world.chain.step_of)[-_NEWEST:]
    if not newest:
        return
    undone, lake = life.draw.choice(newest), life.lake()
    lake.publisher.recover()
    prepared = undoable(lake.publisher, undone)
    require_in_force(lake.publisher, prepared)
    if prepared.publication.provenance.campaign:
        undo(lake, undone, RUN, silent)
    elif prepared.publication.kind != "append":
        roll_back(lake.publisher, undone, id=lake.new_id("rollback"), steps=life.world.chain.steps)


def first_build(life: Life) -> None:
    """What all of them begin with: a row of each day, and all that is computed from it, by v1."""
    lake = life.lake(nowhere)
    chain = life.world.chain
    for day in chain.days:
        publish_raw(life, lake, {day: (f"{day.day}-0.0={day.day}",)})
    for step in chain.computed:
        Builder(lake).build(step, chain.starts(step), run=RUN, version="v1")


BUILDERS: dict[str, Deed] = {
    "source": land,
    "builder": build,
    "campaign": campaign,
    "undoer": take_back,
    "rewinder": rewind,
    "traveller": go_forward,
    "sidebuilder": build_on,
    "bringer": bring,
    "namer": name_timelines,
    "standby": keep_side_by_side,
    "follower": follow_raw,
    "sweeper": sweep,
}
