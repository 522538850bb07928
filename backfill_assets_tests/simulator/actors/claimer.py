"""Who creates, renames, keeps and deletes named timelines: of few names, so that they meet."""

from __future__ import annotations

from datetime import timedelta

from backfill_assets.lakehouse.named_timelines import (
    NamedTimeline,
    TimelineBase,
    change_timeline,
    create_timeline,
    delete_timeline,
    kept_timelines,
    new_timeline_id,
    rename_timeline,
)
from backfill_assets_tests.simulator.world import PlayedLife

NAMES = ("n", "m", "a")
_AGE = timedelta(hours=8)


def claim_names(life: PlayedLife) -> None:
    now, names, draw = life.world.clock.now(), life.world.names, life.draw
    kept = [each for each in kept_timelines(life.storage, now) if each.name in NAMES]
    how = draw.choice(["create", "rename", "rename", "keep longer", "delete"]) if kept else "create"
    if how == "create":
        names.told(create_timeline(life.storage, _new(life)))
        life.world.tally["timelines named"] += 1
        return
    timeline = draw.choice(kept)
    life.reached("chosen")
    if how == "rename":
        names.told(rename_timeline(life.storage, timeline, draw.choice(NAMES), life.world.clock.now()))
        life.world.tally["timelines renamed"] += 1
    elif how == "keep longer":
        longer = timeline.model_copy(update={"keep_until": None})
        names.told(change_timeline(life.storage, longer, "kept longer", life.world.clock.now()))
    else:
        names.may_go.add(timeline.id)
        delete_timeline(life.storage, timeline, life.world.clock.now())


def _new(life: PlayedLife) -> NamedTimeline:
    """One that is kept, or whose age is reached some time."""
    now = life.world.clock.now()
    until = now + _AGE if life.draw.random() < 0.4 else None
    return NamedTimeline(
        id=new_timeline_id(now),
        name=life.draw.choice(NAMES),
        made_at=now,
        changed_at=now,
        base=TimelineBase(),
        keep_until=until,
    )
