"""Rolls one of the newest publications back, which may itself be a rollback."""

from __future__ import annotations

from backfill_assets.campaign.rollback import roll_back
from backfill_assets_tests.simulator.model import Wish, Wishes
from backfill_assets_tests.simulator.world import Life

_NEWEST = 4


def undo(life: Life) -> None:
    newest = life.world.published_so_far()[-_NEWEST:]
    if not newest:
        return
    undone, id = life.draw.choice(newest), life.new_id("r")
    wanted = life.world.wishes[undone].tables
    positions = {table: {s: (b, a) for s, (a, b) in wish.positions.items()} for table, wish in wanted.items()}
    tables = {table: Wish("replace", {}, {}, positions=positions[table]) for table in wanted}
    days = {table: list(life.world.tables[table].commits[undone].after) for table in wanted}
    life.world.intends(life, id, Wishes("rollback", tables, undoes=undone), days)
    life.world.told(life, id, roll_back(life.publisher(), undone, id=id, steps=()))
