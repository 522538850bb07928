"""Readers: of several tables pinned to the log, and of newest versions without it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from backfill_assets.lakehouse.delta_log import VersionGone, newest_version
from backfill_assets.publish.log import PublicationLog
from backfill_assets_tests.simulator.staging import rows_at
from backfill_assets_tests.simulator.world import RETENTION_DAYS, TABLES, Life


def read_pinned(life: Life) -> None:
    """Takes the map of the newest entry, and then reads each table at its version, however slowly."""
    world = life.world
    world.record.asks(life.id, "read")
    log = PublicationLog(life.storage)
    head = log.head()
    versions = head.state.versions
    values = {key: state.publication for key, state in log.day_states(head).items()}
    world.pins(life, head.version, versions, values)
    pinned_at = world.clock.moment
    for table in sorted(versions):
        try:
            found = rows_at(life.storage, table, versions[table])
        except (FileNotFoundError, VersionGone):
            within = world.clock.moment - pinned_at <= timedelta(days=RETENTION_DAYS)
            if within and not world.was_taken_away(table):
                raise  # within the window, nothing that was pinned is gone
            world.record.told(life.id, "refused")
            return
        world.sees(life, table, versions[table], found)
    world.has_read(life, head.version)


def look_at_newest(life: Life) -> None:
    """Opens one table or several at their newest versions: each is whole, and together they promise nothing."""
    count = life.draw.choice([1, 1, 2, 4])
    _look_at(life, sorted(life.draw.sample(TABLES, count)))


def look_at_the_end(life: Life) -> None:
    """What everybody has left: by the log, and each table by itself."""
    read_pinned(life)
    for table in TABLES:
        _look_at(life, [table])


def _look_at(life: Life, tables: Sequence[str]) -> None:
    world = life.world
    world.record.asks(life.id, "read", pinned=False)
    for table in tables:
        version = newest_version(life.storage, table)
        world.sees(life, table, version, {} if version is None else rows_at(life.storage, table, version))
    world.has_read(life)
