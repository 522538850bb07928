"""Readers: of several tables pinned to the log, and of newest versions without it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from backfill_assets.lakehouse.delta_log import VersionGone, newest_version
from backfill_assets.publish.log import PublicationLog
from backfill_assets_tests.simulator.staging import DAYS, rows_at
from backfill_assets_tests.simulator.world import RETENTION_DAYS, TABLES, Life


def read_pinned(life: Life) -> None:
    """Takes the map of the newest entry, and then reads each table at its version, however slowly."""
    world = life.world
    world.record.asks(life.id, "read")
    log = PublicationLog(life.storage)
    head = log.head()
    versions = head.state.versions
    values = {key: state.publication for key, state in log.day_states(head).items()}
    reads, pinned_at = world.saw(life, head.version, versions, values), world.clock.moment
    for table in sorted(versions):
        try:
            found = rows_at(life.storage, table, versions[table])
        except (FileNotFoundError, VersionGone):
            taken_away = world.tables[table].lost or table in world.cleaned
            if world.clock.moment - pinned_at <= timedelta(days=RETENTION_DAYS) and not taken_away:
                raise  # within the window, nothing that was pinned is gone
            world.record.told(life.id, "refused")
            return
        wanted = {day: image.rows for day, image in world.tables[table].days[versions[table]].items() if image.rows}
        assert {day: rows for day, rows in found.items() if rows} == wanted, f"{life.id}: {table} reads {found}"
    world.record.told(life.id, "ok", reads=reads, position=head.version)


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
    reads: dict[tuple[str, str], str | None] = {}
    for table in tables:
        version = newest_version(life.storage, table)
        if version is not None:
            found = rows_at(life.storage, table, version)
            world.follow()
            images = {day: world.tables[table].at(version, day) for day in DAYS}
            assert all(found.get(day, image.rows) == image.rows for day, image in images.items()), f"{table} {found}"
            reads |= {(table, str(day)): image.value for day, image in images.items()}
        else:
            reads |= {(table, str(day)): None for day in DAYS}
    world.record.told(life.id, "ok", reads=reads)
