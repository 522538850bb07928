"""What stands in the lakehouse now: the newest state of every day in the log, and the files the days really have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import LogState, newest_version, read_log
from backfill_assets.lakehouse.publication import DayState
from backfill_assets.lakehouse.publication_log import Head, PublicationLog, utc_now
from backfill_assets.lakehouse.published import anything_published
from backfill_assets.lakehouse.storage import Storage

_MOST_LOOKS = 20
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")  # a foreign writer may have left rows without any day

ReadLog = Callable[[Storage, str, int], LogState]
Physicals = Mapping[str, Mapping[str, str]]
"""Physical fingerprint by table and day, of the days that have files."""


@dataclass(frozen=True)
class Observed:
    """``newest`` is what main holds now; ``pinned`` what a build would read: the last closed entry's versions.

    ``open`` names the publications under way. Tables that they write are observed as of the last closed entry, in
    ``newest`` too: half of a publication is nobody's foreign write.
    """

    states: Mapping[tuple[str, str], DayState] = field(default_factory=dict)
    newest: Physicals = field(default_factory=dict)
    pinned: Physicals = field(default_factory=dict)
    open: tuple[str, ...] = ()
    sequence: int = -1
    """The log entry that all this is as of."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """The map of the last closed entry: Delta version by table."""
    writing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The tables that each open publication writes."""


def observe(storage: Storage, tables: Iterable[str], read: ReadLog = read_log) -> Observed:
    """Look at ``tables``; reads logs only, never data, and writes nothing. ``read`` gives the files of a version.

    Log, tables, log again: if it is the same, nothing was published meanwhile, which would look like a foreign write.
    """
    wanted = list(tables)
    if not anything_published(storage):
        return Observed(newest={table: _newest(storage, table, None, read) for table in wanted})
    log = PublicationLog(storage, utc_now)
    for _ in range(_MOST_LOOKS):
        head = log.head()
        found = _observe(storage, log, head, wanted, read)
        if log.head().version == head.version:
            return found
    raise LakehouseUnusable("The lakehouse did not stand still long enough to look at it.", hint="Try again later.")


def _observe(storage: Storage, log: PublicationLog, head: Head, wanted: list[str], read: ReadLog) -> Observed:
    pinned = {table: _physicals(storage, table, head.state.versions.get(table), read) for table in wanted}
    return Observed(
        states=log.day_states(head, wanted),
        newest={table: _now(storage, table, head, pinned[table], read) for table in wanted},
        pinned=pinned,
        open=tuple(head.state.open),
        sequence=head.version,
        versions=head.state.versions,
        writing={name: entry.writes for name, entry in head.state.open.items()},
    )


def _now(storage: Storage, table: str, head: Head, pinned: Mapping[str, str], read: ReadLog) -> Mapping[str, str]:
    if any(table in entry.writes for entry in head.state.open.values()):
        return pinned
    return _newest(storage, table, head.state.versions.get(table), read, pinned)


def _newest(
    storage: Storage,
    table: str,
    pinned_version: int | None,
    read: ReadLog,
    pinned: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    version = newest_version(storage, table)
    if pinned is not None and version == pinned_version:
        return pinned
    return _physicals(storage, table, version, read)


def _physicals(storage: Storage, table: str, version: int | None, read: ReadLog) -> Mapping[str, str]:
    if version is None:
        return {}
    files = read(storage, table, version).by_day()
    return {day: fingerprints.physical(paths) for day, paths in files.items() if _DAY.fullmatch(day)}
