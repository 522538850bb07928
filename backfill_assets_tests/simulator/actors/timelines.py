"""Timelines get names, are kept for some days, and are forgotten; files go that none of them needs."""

from __future__ import annotations

from datetime import timedelta

from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    delete_timeline,
    find_timeline,
    keep_timeline,
    kept_timelines,
    rename_timeline,
)
from backfill_assets.timeline.rewind import create_whole, timeline_based_on
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.simulator.actors.claimer import NAMES as CLAIMED
from backfill_assets_tests.simulator.world import CHAIN, RETENTION_DAYS, Life, PlayedLife

FREE = ("one", "two", "three")
"""What people call them; a timeline of a version has a name of its own."""
NEWEST = 4


def chosen(life: Life, *, with_days: bool = False, gone_forward: bool = False) -> NamedTimeline | None:
    """One of those that are kept, as it is now; rather one with days of its own, or that has gone forward, if asked.

    None if there are none. Those of :mod:`claimer` are left to it.
    """
    kept = [each for each in kept_timelines(life.storage, life.world.clock.now()) if each.name not in CLAIMED]
    rather = [each for each in kept if (each.days or not with_days) and (each.versions or not gone_forward)]
    names = [each.name for each in rather or kept]
    return find_timeline(life.storage, life.draw.choice(names), life.world.clock.now()) if names else None


def name_timelines(life: PlayedLife) -> None:
    """A new one at main, at a publication or at another one; or one is renamed, kept for a day, or forgotten."""
    now, name, found = life.world.clock.now(), life.draw.choice(FREE), chosen(life)
    what = life.draw.choice(["create", "rename", "rename", "keep", "keep", "forget"])
    if what == "create" or found is None:
        bases = ["main", *([found.name] if found else []), *life.world.published_so_far(CHAIN)[-NEWEST:]]
        base = life.draw.choice(bases)
        made = create_whole(life.storage, lambda: timeline_based_on(life.storage, base, name, "ana", now))
        life.world.timelines.answered.add(made.id)
    elif what == "rename":
        rename_timeline(life.storage, found, name, now)
    elif what == "keep":
        keep_timeline(life.storage, found, life.draw.choice([None, 1]), now)
        life.world.clock.pass_on(timedelta(hours=life.draw.choice([1, 20])))
    else:
        delete_timeline(life.storage, found, now)
    life.world.tally[f"timelines: {what}"] += 1


def sweep(life: PlayedLife) -> None:
    """What nothing needs of a table is deleted, and a kept timeline needs what it names, and its bases."""
    life.world.clock.pass_on(timedelta(days=RETENTION_DAYS, hours=1))
    gone = reclaim(life.publisher(), life.draw.choice(CHAIN), clock_checked=True)
    life.world.tally["files reclaimed"] += len(gone)
