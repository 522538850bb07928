"""The landed files of a source by day, and those that main has not ingested yet; by names, without reading them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.errors import SourceUnreadable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone, position_id


@dataclass(frozen=True)
class LandedDay:
    """The files that arrived on one day, relative to the landing zone; ``bytes`` are those of the waiting ones."""

    files: tuple[str, ...]
    waiting: tuple[str, ...] = ()
    bytes: int = 0
    changed: tuple[str, ...] = ()
    """Files that have another content than the one that was read; empty where they were not compared."""
    gone: tuple[str, ...] = ()
    """Files that were read and are no longer there; empty where they were not compared."""
    contents: str = ""
    """A fingerprint of the files that differ, with their content; empty without any."""


@dataclass(frozen=True)
class LandedSource:
    """What has landed for a raw table, by arrival day; ``problem`` says why it is not known."""

    days: Mapping[date, LandedDay] = field(default_factory=dict)
    problem: str = ""

    def waiting(self, days: Collection[date]) -> dict[date, int]:
        """The number of files that wait to be ingested, of those of ``days`` that have any."""
        return {day: len(found.waiting) for day, found in self.days.items() if day in days and found.waiting}


def landed_source(zone: LandingZone, storage: Storage, source: str, table: str) -> LandedSource:
    """Everything that ``source`` has landed; ``table`` is the raw table that takes it in."""
    try:
        return LandedSource(_by_day(zone, storage, source, table))
    except SourceUnreadable as error:
        return LandedSource(problem=str(error))


def landed_days(
    zone: LandingZone, storage: Storage, source: str, table: str, days: Collection[date]
) -> dict[date, LandedDay]:
    """Those of ``days`` that have a folder of ``source``, with the size of what waits there."""
    return {
        day: replace(found, bytes=sum((zone.root / path).stat().st_size for path in found.waiting))
        for day, found in _by_day(zone, storage, source, table).items()
        if day in days
    }


def _by_day(zone: LandingZone, storage: Storage, source: str, table: str) -> dict[date, LandedDay]:
    listed, taken = zone.paths(source), files_taken_in(storage, source, table)
    return {day: LandedDay(files, tuple(path for path in files if path not in taken)) for day, files in listed.items()}


def files_taken_in(storage: Storage, source: str, table: str) -> frozenset[str]:
    """The landed files of ``source`` that ``table`` has taken in, relative to the landing zone."""
    return frozenset(path for path, content in file_positions(storage, source, table).items() if content)


def file_positions(storage: Storage, source: str, table: str) -> dict[str, int]:
    """The content of each file that ``table`` has ever taken in; 0 for one that a rollback or an abort gave back."""
    main, prefix = MainTable.open(storage, table), position_id(source, "")
    taken = main.transactions() if main else {}
    return {id.removeprefix(prefix): content for id, content in taken.items() if id.startswith(prefix)}
