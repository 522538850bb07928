"""What keeps a lakehouse in shape: compaction, reclaiming, notices, and what an old log becomes."""

from __future__ import annotations

from datetime import timedelta

from backfill_assets.publish.compact import compact
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.publish.fold import SETTLED, fold, trim
from backfill_assets.publish.pinned import pin_again
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.simulator.judges.tables import SHARED
from backfill_assets_tests.simulator.model import Wish, Wishes
from backfill_assets_tests.simulator.staging import DAYS
from backfill_assets_tests.simulator.world import RETENTION_DAYS, TABLES, Life


def put_together(life: Life) -> None:
    """The files of each day of a table become one; nobody reads other rows."""
    table, id = life.draw.choice(TABLES), life.new_id("c")
    several = [day for day in DAYS if life.world.has_several_files(table, day)]
    if several:
        wished = Wish("replace", dict.fromkeys(several, ()), {})
        life.world.intends(life, id, Wishes("compact", {table: wished}), {table: several})
        life.world.told(life, id, compact(life.publisher(), table, several, id=id, transaction=SHARED))


def delete_what_nothing_needs(life: Life) -> None:
    """Of a table or of the log itself; a person has checked the clock. Before it, a window may pass."""
    if life.draw.random() < 0.5:
        life.world.clock.pass_on(timedelta(days=RETENTION_DAYS, hours=1))
    gone = reclaim(life.publisher(), life.draw.choice([*TABLES, LOG_TABLE]), clock_checked=True)
    life.world.tally["files reclaimed"] += len(gone)


def tell(life: Life) -> None:
    """Send the notices that are due."""
    deliver(life.publisher(), life.world)


def fold_the_log(life: Life) -> None:
    """Settled entries become a file a month, and commits that a checkpoint holds are deleted."""
    life.world.clock.pass_on(SETTLED + timedelta(hours=1))
    log = life.publisher().log
    life.world.tally["entries folded"] += fold(log, life.world.clock.now())
    life.world.tally["commits trimmed"] += trim(log, life.world.clock.now())


def pin_to_newest(life: Life) -> None:
    """Tables that an engine has committed nothing new to are pinned to that version."""
    moved = pin_again(life.publisher().log, TABLES)
    life.world.tally["pinned again"] += len(moved)
