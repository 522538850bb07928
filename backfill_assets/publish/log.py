"""The publication log ``_publications``: journal, audit log, and what consistent readers pin.

Each append is on exactly the version it was decided on. Commits carry the whole head, which can be rebuilt from rows;
an entry without its file is read through the table: a platform's maintenance costs time, never an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake._internal import RemoveAction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import CommitRefused, LakehouseUnusable
from backfill_assets.lakehouse import open_handles
from backfill_assets.lakehouse.delta_log import (
    commit_file,
    commits_back,
    newest_version,
    open_again,
    open_table,
    version_from,
    written_at,
)
from backfill_assets.lakehouse.disk import explain_failure
from backfill_assets.lakehouse.records import DayLineage, DayState, Outcome, Prepared
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.torn_commit import drop_torn_commit
from backfill_assets.publish.files import ENTRIES, LOG_TABLE, LogFiles, read_entry, statistics
from backfill_assets.publish.head import HeadState, OpenEntry, is_rebuilt, parse_head, rebuilt_head
from backfill_assets.publish.past import WITH_ORIGIN, Closed, InFull, closed_entries, days_after, prepared_entries
from backfill_assets.publish.rows import (
    ARROW_SCHEMA,
    DAY_COLUMNS,
    DAY_SCHEMA,
    DELTA_SCHEMA,
    PREPARING_DAY,
    Row,
    day_states,
    newest_days,
    with_origins,
)

__all__ = ["LOG_TABLE", "Head", "HeadState", "OpenEntry", "PublicationLog"]

HEAD = "backfill.head"
PROPERTIES: Mapping[str, str] = {
    "delta.logRetentionDuration": "interval 36500 days",
    "delta.enableExpiredLogCleanup": "false",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""Only ``fold`` trims the log. Replaced files may go after a day, since checkpoints carry their tombstones: a stream
leaves some thirty thousand a day.
"""
_INDEX = f"{LOG_TABLE}/_index"
_INDEX_EVERY = 32
NO_LOG = -1


def anything_published(storage: Storage) -> bool:
    return storage.exists(f"{LOG_TABLE}/_delta_log")


_NO_DAYS = pa.Table.from_batches([], DAY_SCHEMA)
_NO_DAYS_WITH_ORIGIN = pa.Table.from_batches([], pa.schema([ARROW_SCHEMA.field(name) for name in WITH_ORIGIN]))
_MOST_OPENINGS, _TRIMMED = 5, "File not found"
Entry = tuple[Sequence[Row], Callable[[str], HeadState]]


@dataclass(frozen=True)
class Head:
    version: int
    state: HeadState
    opener: Callable[[], DeltaTable] = field(repr=False, compare=False)
    is_empty: bool = False

    @cached_property
    def handle(self) -> DeltaTable:
        return self.opener()


class PublicationLog:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._days: tuple[list[str], pa.Table] = [], _NO_DAYS
        """Of the files read so far: files of the log never change."""
        self._rebuilt: tuple[int, HeadState] = (-1, HeadState())
        self._seen: int | None = None
        """The next look starts at this version, and lists nothing."""
        self._listed: tuple[int, LogFiles] | None = None
        self._closed: tuple[str, Mapping[str, int]] = ("", {})

    def head(self) -> Head:
        version, opener = self._newest()
        if version == NO_LOG:
            return Head(NO_LOG, HeadState(), opener)
        is_empty = False
        for number, commit in commits_back(self.storage, LOG_TABLE, version):
            is_empty = is_empty or (number == version and not commit)
            if HEAD in commit:  # the newest, unless others committed to the log: such commits carry no head
                return Head(version, parse_head(commit[HEAD]), opener, is_empty)
        return Head(version, self._rebuild(opener()) if version else HeadState(), opener, is_empty)

    def _newest(self) -> tuple[int, Callable[[], DeltaTable]]:
        version = self._newest_by_names()
        if version is not None:
            self._seen = version
            return version, partial(self._open, version)
        handle = self._load()
        if handle is None:
            return NO_LOG, self._create
        self._seen = handle.version()
        return self._seen, lambda: handle

    def _open(self, version: int) -> DeltaTable:
        """Each handle is of one head."""
        return open_again(self.storage, LOG_TABLE, version, open_handles.take(self.storage, LOG_TABLE))

    def _newest_by_names(self) -> int | None:
        if self._seen is not None:
            return version_from(self.storage, LOG_TABLE, self._seen)
        return newest_version(self.storage, LOG_TABLE) if self.storage.is_folder else None

    def _rebuild(self, handle: DeltaTable) -> HeadState:
        if self._rebuilt[0] != handle.version():
            self._rebuilt = handle.version(), rebuilt_head(LogFiles.of(self.storage, handle))
        return self._rebuilt[1]

    def begin(self) -> None:
        """Raises :class:`LakehouseUnusable` if not writable."""
        if self._seen is None and not anything_published(self.storage):
            self._create()

    def _load(self) -> DeltaTable | None:
        """Reading creates no log: a mistyped path would become a lakehouse."""
        if not anything_published(self.storage):
            return None
        if (known := open_handles.take(self.storage, LOG_TABLE)) is not None:
            with suppress(DeltaError):
                known.update_incremental()
                return known
        retry = Retry("Opening the publication log", most=_MOST_OPENINGS)
        while True:
            try:
                return open_table(self.storage, LOG_TABLE)
            except TableNotFoundError:
                return None  # another process is just creating it
            except DeltaError as error:
                if retry.lost_attempts == _MOST_OPENINGS - 1 or _TRIMMED not in str(error):
                    raise
                retry.lost("old commits were trimmed between listing and reading them")

    @property
    def identity(self) -> str:
        """A log that is created again at the same place has another."""
        return str((self._load() or self._create()).metadata().id)

    def files(self) -> LogFiles:
        """Listed once for each version."""
        version, opener = self._newest()
        if self._listed is None or self._listed[0] != version:
            # On a disk the version was found by names, and may be trimmed by now; else it is open already.
            handle = self._load() if self.storage.is_folder or version == NO_LOG else opener()
            self._listed = NO_LOG if handle is None else handle.version(), LogFiles.of(self.storage, handle)
            if handle is not None and self.storage.is_folder:
                open_handles.give_back(self.storage, LOG_TABLE, handle)
        return self._listed[1]

    def _create(self) -> DeltaTable:
        uri = self.storage.uri(LOG_TABLE)
        configuration: dict[str, str | None] = {
            "delta.appendOnly": "true",
            "delta.checkpointInterval": "20",
            "delta.enableDeletionVectors": "false",
            **PROPERTIES,
        }
        try:
            DeltaTable.create(
                uri,
                DELTA_SCHEMA,
                mode="ignore",
                configuration=configuration,
                storage_options=dict(self.storage.options),
            )
        except CommitFailedError:
            pass  # another process created it in the same moment: theirs is as good
        except (OSError, DeltaError) as error:
            raise LakehouseUnusable(
                f"The lakehouse {self.storage.root} cannot be written: {error}",
                hint="Check that the folder exists, its owner and permissions, and the free disk space.",
            ) from error
        return open_table(self.storage, LOG_TABLE)

    def append(
        self, head: Head, rows: Sequence[Row], change: Callable[[str], HeadState], needs: Iterable[str] = ()
    ) -> bool:
        """Append ``rows`` as one entry on exactly ``head``; False if another writer was first.

        ``change`` gives the new head, by the entry's file. Files in ``needs``, and commits that the new map names, are
        synced first, the entry before this returns.
        """
        if head.version == NO_LOG:
            handle = head.handle
            if handle.version():
                return False
            head = Head(0, head.state, lambda: handle)
        if not self._is_there(head) or self._keep_for_good(head):
            return False
        file, entry = entry_file(head.version + 1), self._entry(head.version + 1, rows)
        size = self.storage.write_parquet(file, entry)
        added, state = [self._add(file, size, entry)], change(file)
        self.storage.keep([*needs, file, *_first_kept(head, state)])
        taken = self._commit(head, added, state) or self._was_taken(head.version + 1, file)
        self.storage.keep(written_at(LOG_TABLE, [head.version + 1]))
        return taken

    def without_a_torn_entry(self) -> Head:
        """A torn commit is deleted: it was never acknowledged."""
        try:
            head = self.head()
        except LakehouseUnusable:
            version = self._newest()[0]
            if not drop_torn_commit(self.storage, LOG_TABLE, version):
                raise
            return self._head_before(version)
        if head.is_empty and drop_torn_commit(self.storage, LOG_TABLE, head.version):
            return self._head_before(head.version)
        return head

    def _head_before(self, version: int) -> Head:
        self._seen = version - 1 if version else None
        return self.head()

    def keep(self, head: Head) -> None:
        self.storage.keep(written_at(LOG_TABLE, [head.version]))

    def settle(self, what: str, change: Callable[[Head], Entry | None]) -> None:
        retry = Retry(what)
        while (entry := change(head := self.head())) is not None:
            if self.append(head, *entry):
                return
            retry.lost("other writers append to the log")

    def _is_there(self, head: Head) -> bool:
        try:
            return head.handle.version() == head.version
        except DeltaError:
            if not self._was_trimmed(head):
                raise
            return False

    def _keep_for_good(self, head: Head) -> bool:
        if PROPERTIES.items() <= head.handle.metadata().configuration.items():
            return False
        try:
            head.handle.alter.set_table_properties(dict(PROPERTIES), commit_properties=_carrying(head.state))
        except CommitFailedError as error:
            self._require_lost_race(head, error)
        return True

    def _require_lost_race(self, head: Head, error: CommitFailedError) -> None:
        """Raises :class:`CommitRefused` unless another writer made the next version."""
        if self.storage.missing([commit_file(LOG_TABLE, head.version + 1)]):
            raise CommitRefused(
                f"The log {self.storage.uri(LOG_TABLE)} refuses an entry, and no other writer was faster: {error}",
                hint="Take back what was changed on this table (a property, a feature): nothing can be published"
                " until then.",
            ) from error

    def replace_files(self, head: Head, old: Sequence[tuple[str, int]], new: Mapping[str, pa.Table]) -> bool:
        """Move rows into ``new`` files, in a commit that changes no data, which append-only permits. False if the race
        was lost.
        """
        adds = [
            self._add(path, self.storage.write_parquet(path, rows), rows, changes=False) for path, rows in new.items()
        ]
        self.storage.keep([*new, *_first_kept(head, head.state)])
        moment = int(clock.now().timestamp() * 1000)
        removes = [RemoveAction(_name(path), False, moment, size, {}) for path, size in old]
        if self._commit(head, [*adds, *removes], head.state):
            self.storage.keep(written_at(LOG_TABLE, [head.version + 1]))
            return True
        landed = [self._was_taken(head.version + 1, path) for path in new]
        return all(landed)

    def _was_taken(self, version: int, file: str) -> bool:
        """An object store may have taken a refused commit and lost the answer. If not, delete the file."""
        name = commit_file(LOG_TABLE, version)
        commit = [] if self.storage.missing([name]) else self.storage.read_json_lines(name)
        if any(f"{LOG_TABLE}/{action['add']['path']}" == file for action in commit if "add" in action):
            return True
        self.storage.delete(file)
        return False

    def _entry(self, sequence: int, rows: Sequence[Row]) -> pa.Table:
        common = {"sequence": sequence, "at": clock.now()}
        return pa.Table.from_pylist([{**row, **common} for row in rows], schema=ARROW_SCHEMA)

    def _add(self, file: str, size: int, rows: pa.Table, *, changes: bool = True) -> AddAction:
        return AddAction(_name(file), size, {}, int(clock.now().timestamp() * 1000), changes, statistics(rows))

    def _commit(self, head: Head, actions: Sequence[AddAction | RemoveAction], state: HeadState) -> bool:
        try:
            with explain_failure(f"No entry can be appended to {self.storage.uri(LOG_TABLE)}"):
                head.handle.create_write_transaction(
                    list(actions), "append", DELTA_SCHEMA, commit_properties=_carrying(state)
                )
        except CommitFailedError as error:
            try:
                self._require_lost_race(head, error)
            except CommitRefused:
                for action in actions:
                    if isinstance(action, AddAction):
                        self.storage.delete(f"{LOG_TABLE}/{action.path}")
                raise
            return False
        except DeltaError:
            if not self._was_trimmed(head):
                raise
            return False
        open_handles.give_back(self.storage, LOG_TABLE, head.handle)
        return True

    def _was_trimmed(self, head: Head) -> bool:
        """Writing a number freed by trimming would leave a gap."""
        newest = newest_version(self.storage, LOG_TABLE) or 0
        own = commit_file(LOG_TABLE, head.version)
        return newest > head.version and bool(self.storage.missing([own]))

    def prepared_in(self, file: str) -> Prepared:
        details = self._entry_rows(file, ["detail"]).column("detail").to_pylist()
        return Prepared.model_validate_json(next(detail for detail in details if detail))

    def _entry_rows(self, file: str, columns: Sequence[str]) -> pa.Table:
        try:
            return read_entry(self.storage, file, columns)
        except FileNotFoundError:
            return self.files().rows(columns, sequence=entry_sequence(file)).select(list(columns))

    def reclaim_paths(self, file: str) -> list[str]:
        return [str(path) for path in self._entry_rows(file, ["detail"]).column("detail").to_pylist()]

    def outcome(self, head: Head, publication: str) -> Outcome | None:
        """Returns None while it is open, or if it was never prepared."""
        if publication in head.state.outcomes:
            return head.state.outcomes[publication]
        return entry.outcome if (entry := self.closed(publication)) else None

    def closed(self, publication: str, *, maps: bool = False) -> Closed | None:
        """Its closing entry; None while it is open, or if it was never prepared."""
        return next(closed_entries(self.files(), maps=maps, publication=publication), None)

    def closed_at(self, publication: str) -> int:
        """The entry's sequence, or -1."""
        return entry.sequence if (entry := self.closed(publication)) else -1

    def remember_closed(self, publication: str, versions: Mapping[str, int]) -> None:
        self._closed = publication, versions

    def versions_of(self, publication: str) -> dict[str, int]:
        if self._closed[0] == publication:
            return dict(self._closed[1])
        return next(closed_entries(self.files(), maps=True, publication=publication)).versions

    def prepared_since(self, moment: datetime, table: str = "", days: Collection[str] | None = None) -> list[Prepared]:
        """Publications of any outcome. Files without one of ``days`` are not read: a stream's entries take gigabytes a
        month.
        """
        files = self.files().between("at", low=moment)
        files = files.holding("table", [table]) if table else files
        files = files if days is None else files.holding("day", days)
        entries = (each for path in files.paths for each in _prepared_in(files.only([path]), table, days))
        return [each.prepared for each in entries if each.at >= moment and table in each.detail]

    def prepared_of(self, publications: Iterable[str]) -> list[Prepared]:
        """Oldest first."""
        return [each.prepared for each in prepared_entries(self.files(), publication=publications)][::-1]

    def find_prepared(self, publication: str) -> tuple[Prepared, datetime] | None:
        found = next(prepared_entries(self.files(), publication=publication), None)
        return (found.prepared, found.at) if found else None

    def day_states(self, head: Head, tables: Iterable[str] | None = None) -> dict[TableDay, DayState]:
        wanted = None if tables is None else set(tables)
        rows = self._days_of([file for file in (head.state.index, *head.state.since) if file])
        return {TableDay(state.table, state.day): state for state in day_states(rows, wanted)}

    def states_at(
        self, sequence: int, tables: Iterable[str], days: Iterable[date] | None = None
    ) -> dict[TableDay, DayState]:
        """What the days of ``tables``, or at least ``days`` of them, held after log entry ``sequence``."""
        wanted = list(tables)
        if (head := self.head()).version == sequence:
            return self.day_states(head, wanted)
        among = {} if days is None else {"day": [*map(str, days)]}
        rows = days_after(self.files(), sequence, table=wanted, **among)
        return {TableDay(state.table, state.day): state for state in day_states(rows)}

    def _days_of(self, files: list[str]) -> pa.Table:
        read, rows = self._days
        if files[: len(read)] != read:
            read, rows = [], _NO_DAYS
        if new := files[len(read) :]:
            rows = pa.concat_tables([rows, self._day_rows(new)]).combine_chunks()
        self._days = files, rows
        return rows

    def _day_rows(self, files: Sequence[str]) -> pa.Table:
        """Uses no PyArrow expression: that would import pandas, a fifth of most commands' time."""
        parts = self.storage.each(self._day_rows_in, files)
        rows = pa.concat_tables([_NO_DAYS_WITH_ORIGIN, *parts], promote_options="default")
        rows = rows.filter(pc.is_valid(rows.column("table")))
        return with_origins(rows) if rows.column("origin").null_count else rows.select(DAY_COLUMNS)

    def _day_rows_in(self, file: str) -> pa.Table:
        try:
            rows = read_entry(self.storage, file, WITH_ORIGIN)
        except FileNotFoundError:
            return self._lost_day_rows(file)
        # An older index, without origins, does not say what kind of publication brought a day.
        is_older = file.startswith(f"{_INDEX}/") and rows.column("origin").null_count
        return self._lost_day_rows(file) if is_older else rows

    def _lost_day_rows(self, file: str) -> pa.Table:
        last, files = entry_sequence(file), self.files()
        if not file.startswith(f"{_INDEX}/"):
            return with_origins(files.rows(WITH_ORIGIN, sequence=last, event="published"))
        return days_after(files, last)

    def index(self, head: Head, since: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        if len(since) < _INDEX_EVERY and not is_rebuilt(head.state.index):
            return head.state.index, tuple(since)
        rows = newest_days([self._day_rows([file for file in (head.state.index, *since) if file])])
        path = f"{_INDEX}/{head.version + 1:020d}-{clock.token(6)}.parquet"
        self.storage.write_parquet(path, rows)
        return path, ()


def _prepared_in(files: LogFiles, table: str, days: Collection[str] | None) -> Iterator[InFull]:
    if days is None:
        return prepared_entries(files)
    ids = files.rows(["publication"], table=table, day=days).column("publication").to_pylist()
    return prepared_entries(files, publication=ids)


Lineages = Mapping[TableDay, DayLineage]


def lineages(storage: Storage, publications: Iterable[str]) -> dict[tuple[str, datetime], Lineages]:
    """Keyed by publication and time of preparation. Days that were not computed, and old publications, have none."""
    columns = ["at", "table", "day", "detail"]
    rows = PublicationLog(storage).files().rows(columns, event=PREPARING_DAY, publication=publications)
    rows = rows.filter(pc.is_valid(rows.column("detail")))
    lineage_of: dict[tuple[str, datetime], dict[TableDay, DayLineage]] = {}
    for row in rows.to_pylist():
        days = lineage_of.setdefault((row["publication"], row["at"]), {})
        days[TableDay(row["table"], date.fromisoformat(row["day"]))] = DayLineage.model_validate_json(row["detail"])
    return dict(lineage_of)


def entry_file(version: int) -> str:
    return f"{ENTRIES}/{version:020d}-{clock.token(6)}.parquet"


def _first_kept(head: Head, state: HeadState) -> list[str]:
    """What is synced before ``state``: a loss of power takes at most the log's newest commit, and no map names a lost
    version.
    """
    before = head.state.versions
    commits = [each for t, v in state.versions.items() for each in written_at(t, range(before.get(t, -1) + 1, v + 1))]
    index = [state.index] if state.index != head.state.index else []
    return [*index, *commits, *written_at(LOG_TABLE, [head.version])]


def entry_sequence(file: str) -> int:
    """The log version in the name of an entry's file or an index."""
    return int(file.rsplit("/", 1)[1][:20])


def _name(file: str) -> str:
    return file.removeprefix(f"{LOG_TABLE}/")


def _carrying(state: HeadState) -> CommitProperties:
    return CommitProperties(custom_metadata={HEAD: state.model_dump_json()}, max_commit_retries=0)
