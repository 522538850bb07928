"""The landed files of a source by day, and those that main has not ingested yet; by names, without reading them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone, position_id


@dataclass(frozen=True)
class LandedDay:
    """The files that arrived on one day, relative to the landing zone; ``bytes`` are those of the waiting ones."""

    files: tuple[str, ...]
    waiting: tuple[str, ...] = ()
    bytes: int = 0


def landed_days(
    zone: LandingZone, storage: Storage, source: str, table: str, days: Collection[date]
) -> dict[date, LandedDay]:
    """Those of ``days`` that have a folder of ``source``; ``table`` is the raw table that takes them in."""
    listed, taken = zone.paths(source), files_taken_in(storage, source, table)
    landed = {}
    for day in listed.keys() & set(days):
        files = listed[day]
        waiting = tuple(path for path in files if path not in taken)
        landed[day] = LandedDay(files, waiting, sum((zone.root / path).stat().st_size for path in waiting))
    return landed


def files_taken_in(storage: Storage, source: str, table: str) -> frozenset[str]:
    """The landed files of ``source`` that ``table`` has taken in, relative to the landing zone."""
    main, prefix = MainTable.open(storage, table), position_id(source, "")
    taken = main.transactions() if main else {}
    return frozenset(id.removeprefix(prefix) for id, content in taken.items() if content and id.startswith(prefix))
