"""The version of a table that readers are pinned to, also after an engine's clean-up has deleted that version.

The head of the log names a version by table. Engines that maintain a table (VACUUM, ALTER) write versions that change
no file, and clean up old ones. Maintenance pins such a table to its newest version while the old one can be compared
with it. A reader that meets a version that is gone takes the newest one, if its files are those that the log knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import LogState, VersionGone, newest_version, read_log
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import Entry, Head, PublicationLog

ReadLog = Callable[[Storage, str, int], LogState]
_NOTHING = LogState(-1, {})


def pinned_files(log: PublicationLog, head: Head, table: str, read: ReadLog = read_log) -> LogState:
    """The files of ``table`` at the version that readers are pinned to; none if nothing was published to it.

    Raises :class:`VersionGone` if that version cannot be read and the newest one is not what the log knows.
    """
    version = head.state.versions.get(table)
    if version is None:
        return _NOTHING
    try:
        return read(log.storage, table, version)
    except VersionGone as error:
        newest = _newest_if_known(log, head, table, read)
        if newest is None:
            raise VersionGone(
                f"{error.message} It is what readers are pinned to, and others have changed {table} since.",
                hint=f"Publish a day of {table} (backfill run with --force): that pins it to its newest version.",
            ) from error
        return newest


def pinned_versions(log: PublicationLog, head: Head, tables: Iterable[str]) -> dict[str, int]:
    """Delta version by table that readers are pinned to, of those ``tables`` that were published."""
    return {table: pinned_files(log, head, table).version for table in tables if table in head.state.versions}


def _newest_if_known(log: PublicationLog, head: Head, table: str, read: ReadLog) -> LogState | None:
    """The newest version, if each day has just the files that the log knows; half a publication is not known."""
    version = newest_version(log.storage, table)
    if version is None or _is_written(head, table):
        return None
    newest = read(log.storage, table, version)
    known = {day: state.physical for (_, day), state in log.day_states(head, {table}).items()}
    physical_of = {day: fingerprints.physical(paths) for day, paths in newest.by_day().items()}
    same = all(physical_of.get(day, fingerprints.EMPTY_DAY) == files for day, files in known.items())
    return newest if same and physical_of.keys() <= known.keys() else None


def _is_written(head: Head, table: str) -> bool:
    return any(table in entry.writes for entry in head.state.open.values())


def moved_pins(log: PublicationLog, head: Head, tables: Iterable[str]) -> dict[str, int]:
    """The newest version of each table that has the same files as the older one that readers are pinned to."""
    moved = {}
    for table in tables:
        pinned, newest = head.state.versions.get(table), newest_version(log.storage, table)
        if pinned is None or newest is None or newest == pinned or _is_written(head, table):
            continue
        if _same_files(log, head, table, newest):
            moved[table] = newest
    return moved


def _same_files(log: PublicationLog, head: Head, table: str, newest: int) -> bool:
    try:
        return pinned_files(log, head, table).active.keys() == read_log(log.storage, table, newest).active.keys()
    except VersionGone:
        return False  # others changed it: an own publication pins it again


def pin_again(log: PublicationLog, tables: Iterable[str]) -> Mapping[str, int]:
    """Pin ``tables`` to newer versions that changed nothing, by one entry of the log; gives those that moved."""
    wanted = list(tables)
    moved: dict[str, int] = {}

    def pin(head: Head) -> Entry | None:
        moved.clear()
        moved.update(moved_pins(log, head, wanted))
        versions = {**head.state.versions, **moved}
        row = {"event": "pinned", "detail": json.dumps(dict(sorted(versions.items())))}
        return ([row], lambda file: head.state.pinning(versions)) if moved else None

    log.settle("Pinning tables to their newest versions", pin)
    return moved
