"""Rolls one of the newest publications back, which may itself be a rollback."""

from __future__ import annotations

from backfill_assets.campaign.rollback import roll_back
from backfill_assets_tests.simulator.world import TABLES, Life

_NEWEST = 4


def undo(life: Life) -> None:
    newest = life.world.published_so_far(TABLES)[-_NEWEST:]
    if not newest:
        return
    undone, id = life.draw.choice(newest), life.new_id("r")
    life.world.intends(life, id, *life.world.undoing(undone))
    life.world.told(life, id, roll_back(life.publisher(), undone, id=id, steps=()))
