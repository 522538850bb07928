"""Timelines get names, are kept for some days, and are forgotten; which of them somebody works on."""

from __future__ import annotations

from datetime import timedelta

from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    create_timeline,
    delete_timeline,
    find_timeline,
    keep_timeline,
    kept_timelines,
    rename_timeline,
)
from backfill_assets.timeline.rewind import timeline_based_on
from backfill_assets_tests.simulator.world import CHAIN, Life

FREE = ("one", "two", "three")
"""What people call them; a timeline of a version has a name of its own."""
NEWEST = 4


def chosen(life: Life) -> NamedTimeline | None:
    """One of those that are kept, as it is now; None if there are none."""
    names = [each.name for each in kept_timelines(life.storage, life.world.clock.now())]
    return find_timeline(life.storage, life.draw.choice(names), life.world.clock.now()) if names else None


def name_timelines(life: Life) -> None:
    """A new one at main, at a publication or at another one; or one is renamed, kept for a day, or forgotten."""
    now, name, found = life.world.clock.now(), life.draw.choice(FREE), chosen(life)
    what = life.draw.choice(["create", "rename", "rename", "keep", "forget", "let time pass"])
    if what == "create" or found is None:
        bases = ["main", *([found.name] if found else []), *life.world.published_so_far(CHAIN)[-NEWEST:]]
        create_timeline(life.storage, timeline_based_on(life.storage, life.draw.choice(bases), name, "ana", now))
    elif what == "rename":
        rename_timeline(life.storage, found, name, now)
    elif what == "keep":
        keep_timeline(life.storage, found, life.draw.choice([None, 1]), now)
    elif what == "forget":
        delete_timeline(life.storage, found, now)
    else:
        life.world.clock.pass_on(timedelta(hours=7))
    life.world.tally[f"timelines: {what}"] += 1
