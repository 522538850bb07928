"""The state of the lakehouse now: the newest state of every day in the log, and the files the days really have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import LogState, newest_version, read_log
from backfill_assets.lakehouse.records import DayContent, DayRecord, DayRecords, DayState
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.current_versions import with_current
from backfill_assets.model.declaration import Step
from backfill_assets.publish.log import Head, PublicationLog
from backfill_assets.publish.pinned import ReadLog, pinned_files

_MOST_LOOKS = 20

Physicals = Mapping[str, Mapping[date, str]]
"""Physical fingerprint by table and day, of the days that have files."""


@dataclass(frozen=True)
class LogView:
    """``newest`` is what main holds now; ``pinned`` what a build would read: the last closed entry's versions.

    ``open`` names the publications under way. Tables that they write are observed as of the last closed entry, in
    ``newest`` too: half a publication is no foreign write.
    """

    states: Mapping[TableDay, DayState] = field(default_factory=dict)
    newest: Physicals = field(default_factory=dict)
    pinned: Physicals = field(default_factory=dict)
    open: tuple[str, ...] = ()
    sequence: int = -1
    """The log entry that all this is as of."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """The map of the last closed entry: Delta version by table."""
    writing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The tables that each open publication writes."""
    switches: Mapping[str, str] = field(default_factory=dict)
    """The versions of the logic that publications made current, by step."""

    def with_current(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        """``steps``, as they are declared, with the versions that were current then."""
        return with_current(steps, self.switches)

    def over(self, records: DayRecords) -> LogView:
        """This view with days laid over it, in place of those it has.

        Such a day is of no publication. One that was never published is missing, also if this view has it.
        """
        states = {
            TableDay(table, day): DayState(table, day, "", self.sequence, each.physical, each.content)
            for table, days in records.items()
            for day, each in days.items()
        }
        files = {table: _files_over(self.pinned.get(table, {}), days) for table, days in records.items()}
        pinned = {**self.pinned, **files}
        return replace(self, states={**self.states, **states}, newest=pinned, pinned=pinned)

    def contents(self, table: str) -> dict[date, DayContent | None]:
        """What the days of ``table`` hold that a build would find; None for a foreign write."""
        files = self.pinned.get(table, {})
        published = {day: state for (name, day), state in self.states.items() if name == table and state.content}
        known = {
            day: state.content
            for day, state in published.items()
            if state.physical == files.get(day, fingerprints.EMPTY_DAY)
        }
        return {**dict.fromkeys(files), **known}


def _files_over(files: Mapping[date, str], over: Mapping[date, DayRecord]) -> Mapping[date, str]:
    below = {day: physical for day, physical in files.items() if day not in over}
    return below | {day: each.physical for day, each in over.items() if each.files}


def observe(
    storage: Storage, tables: Iterable[str], read: ReadLog = read_log, log: PublicationLog | None = None
) -> LogView:
    """Look at ``tables``; reads logs only, never data, and writes nothing. ``read`` gives the files of a version.

    A ``log`` that was read before knows the days of most of its files.

    Log, tables, log again: if it says the same of ``tables``, nothing was published to them meanwhile, which would look
    like a foreign write. Publications of other tables do not matter.
    """
    wanted = list(tables)
    log = log or PublicationLog(storage)
    retry = Retry(f"Looking at {', '.join(wanted)}", most=_MOST_LOOKS)
    while True:
        head = log.head()
        view = _observe(storage, log, head, wanted, read)
        if log.head().state.news_of(wanted) == head.state.news_of(wanted):
            return view
        retry.lost("they were published to at every look")


def _observe(storage: Storage, log: PublicationLog, head: Head, wanted: list[str], read: ReadLog) -> LogView:
    files = {table: pinned_files(log, head, table, read) for table in wanted}
    pinned = {table: _by_day(state) for table, state in files.items()}
    versions = {table: state.version for table, state in files.items() if state.version >= 0}
    return LogView(
        states=log.day_states(head, wanted),
        newest={table: _now(storage, table, head, files[table].version, pinned[table], read) for table in wanted},
        pinned=pinned,
        open=tuple(head.state.open),
        sequence=head.version,
        versions={**head.state.versions, **versions},
        writing={name: entry.writes for name, entry in head.state.open.items()},
        switches=head.state.switches,
    )


def _now(
    storage: Storage, table: str, head: Head, pinned_version: int, pinned: Mapping[date, str], read: ReadLog
) -> Mapping[date, str]:
    """What main holds now; that is ``pinned`` if main is still at ``pinned_version``."""
    if any(table in entry.writes for entry in head.state.open.values()):
        return pinned
    if newest_version(storage, table) == pinned_version:
        return pinned
    return _newest(storage, table, read)


def _newest(storage: Storage, table: str, read: ReadLog) -> Mapping[date, str]:
    version = newest_version(storage, table)
    return {} if version is None else _by_day(read(storage, table, version))


def _by_day(state: LogState) -> Mapping[date, str]:
    return {day: fingerprints.physical(paths) for day, paths in state.by_day().items()}
