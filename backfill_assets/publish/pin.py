"""What was published when staging began, captured before any input is read: compare-and-swap compares with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import LogState, read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayState, Expected, InputRead, logical_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.pinned import pinned_files

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
