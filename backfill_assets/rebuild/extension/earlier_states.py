"""Finds what a day of an input held earlier: in what this process remembers, else in the publication log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import VersionGone, read_log
from backfill_assets.publish.files import among, equal
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.extension.extension_plan import EarlierState

_KEPT_STATES = 4
_MOST_PARTS = 16
"""Of the log, some 32 files each: a day whose state lies further back is built whole."""
_COLUMNS = ["event", "table", "day", "rows", "checksum", "table_version"]


@dataclass
class InputMemory:
    """The last states of input days that a process has seen. A stream keeps one, to spare it the look into the log."""

    _states: dict[TableDay, dict[str, EarlierState]] = field(default_factory=dict)
    _paused: dict[TableDay, datetime] = field(default_factory=dict)

    def pause(self, key: TableDay, until: datetime) -> None:
        """Leave a day alone until then: it was built whole, and its gates held it back."""
        self._paused[key] = until

    def paused_until(self, key: TableDay, now: datetime) -> datetime | None:
        """Until when a day is left alone; None if it is not."""
        until = self._paused.get(key)
        return until if until is not None and until > now else None

    def remember(self, key: TableDay, state: EarlierState) -> None:
        """Keep the newest states of ``key``."""
        states = self._states.setdefault(key, {})
        states.pop(state.logical, None)
        states[state.logical] = state
        for oldest in list(states)[:-_KEPT_STATES]:
            del states[oldest]

    def of(self, key: TableDay) -> list[EarlierState]:
        """What is known of ``key``, newest first."""
        return list(self._states.get(key, {}).values())[::-1]


def find_earlier_states(
    log: PublicationLog, table: str, wanted: Mapping[date, Callable[[str], bool]]
) -> dict[date, EarlierState]:
    """The newest published state of each day of ``table`` whose logical fingerprint is ``wanted``, if it can be read.

    A compaction has a state of its own, with the content of the one before: so days can be extended after one.
    """
    if not wanted:
        return {}
    left, found = dict(wanted), dict[date, EarlierState]()
    files = log.files().holding("table", [table]).between("day", str(min(wanted)), str(max(wanted)))
    for part, rows in enumerate(files.newest_first(_COLUMNS)):
        for day, logical, version in _published(rows, table, left):
            if day in left and left[day](logical):
                del left[day]
                found |= _state(log, table, day, logical, version)
        if not left or part >= _MOST_PARTS:
            break
    return found


def _published(rows: pa.Table, table: str, days: Iterable[date]) -> list[tuple[date, str, int]]:
    rows = among(equal(rows, event="published", table=table), "day", map(str, days))
    known = rows.filter(pc.is_valid(rows.column("rows"))).to_pylist()[::-1]
    return [
        (date.fromisoformat(row["day"]), fingerprints.logical(row["rows"], row["checksum"]), row["table_version"])
        for row in known
    ]


def _state(log: PublicationLog, table: str, day: date, logical: str, version: int) -> dict[date, EarlierState]:
    try:
        files = read_log(log.storage, table, version).by_day().get(day, frozenset())
    except VersionGone:
        return {}
    return {day: EarlierState(logical, files)}
