"""Maintenance as a person starts it, of all tables; engines that tidy tables by themselves; plans that keep files."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from backfill_assets.lakehouse.delta_log import files_at, newest_version, open_table
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import PlanRequest
from backfill_assets.publish.promote import silent
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets_tests.begun_campaign import begin, give_up
from backfill_assets_tests.simulator.chain import DAYS, STEPS, lake_of
from backfill_assets_tests.simulator.chain_plans import plan_context
from backfill_assets_tests.simulator.delta import DeltaLog
from backfill_assets_tests.simulator.judges.tables import FOREIGN
from backfill_assets_tests.simulator.world import CHAIN, RETENTION_DAYS, TABLES, Deed, PlayedLife

_ALL = (*TABLES, *CHAIN)
_WINDOW = timedelta(days=RETENTION_DAYS, hours=1)
_PLANS = 3
"""As many are open at once."""


def maintain(life: PlayedLife) -> None:
    """Close, pin, put together, fold, gather, reclaim: what there is to do; a window may have passed before."""
    world = life.world
    if life.draw.random() < 0.5:
        world.clock.pass_on(_WINDOW)
    tables = [table for table in _ALL if newest_version(life.storage, table) is not None]
    tables = life.draw.sample(tables, min(len(tables), 3))
    found = Maintenance(life.watched(), tables, timeline_days=RETENTION_DAYS, clock_checked=True)
    for done in found.carry_out(found.plan(), silent):
        world.tally[f"maintained: {done.task.chore.value}"] += 1
    for plan, files in world.planned_with.items():
        gone = [path for path in files if path not in world.files.contents and not world.is_lost(path)]
        assert not gone, f"{plan} is open, and {gone} are reclaimed"


def tidy(life: PlayedLife) -> None:
    """An engine writes a version that changes no file, or deletes commits of a window ago that a checkpoint holds.

    No commits where others write past the protocol: a person has to publish or to give up then, and to say how.
    """
    world, table = life.world, life.draw.choice(_ALL)
    version = newest_version(life.storage, table)
    if version is None:
        return
    beside_others = table in CHAIN or any(name.startswith("foreign") for name in world.actors)
    if beside_others or life.draw.random() < 0.5:
        handle = open_table(life.storage, table, version)
        properties = CommitProperties(custom_metadata={FOREIGN: life.new_id("engine")}, max_commit_retries=0)
        try:
            handle.create_write_transaction([], "append", handle.schema(), ["day"], commit_properties=properties)
        except CommitFailedError:
            return
        world.tally["versions without files"] += 1
        return
    world.follow()  # what nobody has judged is not deleted
    log, oldest = DeltaLog(world.files, table), world.clock.milliseconds() - _WINDOW / timedelta(milliseconds=1)
    old = [each for each in range(version) if world.files.written.get(log.commit_file(each), oldest) < oldest]
    if old and log.checkpoint_file(version) not in world.files.contents:
        world.files.call("check point", table, lambda: log.write_checkpoint(version))
        world.cleaned.add(table)
    for each in old:
        world.files.call("clean up", log.commit_file(each), partial(world.files.drop, log.commit_file(each)))
        world.tally["commits cleaned up"] += 1


def plan(life: PlayedLife) -> None:
    """A plan of the chain is opened, and all that it was made from is kept; or one is closed."""
    world, began = life.world, life.world.clock.moment
    if world.planned_with and (len(world.planned_with) >= _PLANS or life.draw.random() < 0.3):
        chosen = life.draw.choice(sorted(world.planned_with))
        del world.planned_with[chosen]
        give_up(life.storage, chosen)
        return
    first, last = sorted(life.draw.sample(DAYS, 2))
    lake = lake_of(life.watched())
    made = make_plan(PlanRequest(target="sums", days=f"{first}..{last}", version="v1"), plan_context(lake, STEPS))
    keep_plan(life.storage, made.id, made.to_json())
    begin(life.storage, made.id)
    read = [(each.table, each.version) for each in made.pinned if each.version is not None]
    files = frozenset(
        f"{table}/{path}" for table, version in read for path in files_at(life.storage, table, version).active
    )
    if world.clock.moment - began < timedelta(days=RETENTION_DAYS):
        world.planned_with[made.id] = frozenset(files)
        world.tally["plans opened"] += 1


MAINTAINERS: dict[str, Deed] = {"keeper": maintain, "engine": tidy, "hoarder": plan}
