"""The version of a table that readers are pinned to, also after an engine's clean-up has deleted that version.

The head of the log names a version by table. Engines that maintain a table (VACUUM, ALTER) write versions that change
no file, and clean up old ones. Maintenance pins such a table to its newest version while the old one can be compared
with it. A reader that meets a version that is gone takes the newest one, if its files are those that the log knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import LogState, VersionGone, newest_version, read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayState, Expected, InputRead, logical_of
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


# ------------------------------------------------------------------ what was published when staging began

States = Mapping[TableDay, DayState]
"""What the log knows of each day, by table and day."""


@dataclass(frozen=True)
class Pin:
    """What was published when staging began: captured *before* any input is read."""

    expected: Mapping[TableDay, Expected]
    inputs: Mapping[str, InputRead]
    states: States
    sequence: int


def capture(
    log: PublicationLog,
    storage: Storage,
    writes: Mapping[str, Iterable[date]],
    reads: Mapping[str, Iterable[date]],
    exact: frozenset[str],
    also: Iterable[str],
) -> Pin:
    """The expected state of the days to write, and the versions of the days to read.

    Inputs are read at the version of the last closed entry, so that a half-published table is never read.
    """
    head = log.head()
    states = log.day_states(head, {*writes, *reads, *also})
    expected = _expected_states(storage, states, writes)
    inputs = {table: _read(pinned_files(log, head, table), states, table, days, exact) for table, days in reads.items()}
    return Pin(expected, inputs, states, head.version)


def _read(files: LogState, states: States, table: str, days: Iterable[date], exact: frozenset[str]) -> InputRead:
    return InputRead(
        table=table,
        version=files.version if files.version >= 0 else None,
        days=logicals(files, states, table, days),
        exact=table in exact,
    )


def _expected_states(
    storage: Storage, states: States, writes: Mapping[str, Iterable[date]]
) -> dict[TableDay, Expected]:
    expected: dict[TableDay, Expected] = {}
    for table, days in writes.items():
        main = MainTable.open(storage, table)
        active = main.state().by_day() if main else {}
        for day in days:
            state = states.get(TableDay(table, day))
            expected[TableDay(table, day)] = Expected(
                files=tuple(sorted(active.get(day, ()))),
                publication=state.publication if state else "",
            )
    return expected


def files_at(storage: Storage, table: str, version: int | None) -> LogState:
    """The files of ``table`` at ``version``; none when it did not exist yet."""
    return LogState(-1, {}) if version is None else read_log(storage, table, version)


def logicals(files: LogState, states: States, table: str, days: Iterable[date]) -> dict[date, str]:
    """The logical fingerprint of each day, given the ``files`` that a reader of the last closed map sees."""
    active = files.by_day()
    return {
        day: logical_of(states.get(TableDay(table, day)), fingerprints.physical(active.get(day, ())))
        for day in sorted(set(days))
    }
