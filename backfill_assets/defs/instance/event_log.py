"""Dagster's event log on sqlite, with one kept connection for each of its files.

Dagster's own opens, commits and closes two or three connections for each event; closing the last one also empties the
write-ahead log. This one keeps its connections, asks once which columns there are, and stores a batch of events in one
transaction for each file. What is stored, and where, is the same: either of them reads what the other has written.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.defs.private_dagster import (
    EVENT_BATCH_SIZE,
    INDEX_SHARD_NAME,
    SQLITE_BUSY_TIMEOUT_SECONDS,
    Connection,
    DagsterSqliteStorage,
    NullPool,
    SqliteEventLogStorage,
    SqliteEventLogStorageWatchdog,
    create_engine,
)

_BATCH = "1000"
_MOST_KEPT = 16
"""A web server reads the files of many runs."""


def batch_events() -> None:
    """Let Dagster hand over the events of a step in batches, unless the environment says how many."""
    os.environ.setdefault(EVENT_BATCH_SIZE, _BATCH)


class LocalStorage(DagsterSqliteStorage):
    """Dagster's storage on sqlite with this event log: named in ``dagster.yaml``, with the same folder as before."""

    def __init__(self, base_dir: str, inst_data: Any = None) -> None:
        super().__init__(base_dir, inst_data)
        self._event_log_storage = LocalEventLog(self._event_log_storage._base_dir)

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> LocalStorage:
        return cls.from_local(inst_data=inst_data, **config_value)


@dataclass(frozen=True)
class _Kept:
    """A connection, the process that opened it, and the file that it was opened on."""

    connection: Connection
    process: int
    file: tuple[int, int]


class LocalEventLog(SqliteEventLogStorage):
    """Dagster's event log with kept connections; threads take turns, as with Dagster's own."""

    def __init__(self, base_dir: str) -> None:
        self._turn = threading.RLock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._in_transaction: dict[str, Connection] = {}
        self._known_columns: set[str] = set()
        self._known_tables: set[str] = set()
        super().__init__(base_dir)

    # ------------------------------------------------------------- connections

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._turn:
            if shard in self._in_transaction:
                yield self._in_transaction[shard]
                return
            connection = self._connection(shard)
            with connection.begin():
                self._in_transaction[shard] = connection
                try:
                    yield connection
                finally:
                    del self._in_transaction[shard]

    def _connection(self, shard: str) -> Connection:
        kept = self._kept.get(shard)
        if kept is None or (kept.process, kept.file) != (os.getpid(), self._file(shard)):
            self._forget(shard)
            kept = self._kept[shard] = self._open(shard)
        self._kept.move_to_end(shard)
        for oldest in [name for name in self._kept if name != INDEX_SHARD_NAME][:-_MOST_KEPT]:
            self._forget(oldest)
        return kept.connection

    def _open(self, shard: str) -> _Kept:
        engine = create_engine(
            self.conn_string_for_shard(shard),
            poolclass=NullPool,
            connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
        )
        if shard not in self._initialized_dbs or self._file(shard) is None:
            self._initdb(engine)
            self._initialized_dbs.add(shard)
        connection = engine.connect()
        # Dagster writes in WAL mode: a killed process loses nothing, only a machine without power its last commits.
        sqlite: Any = connection.connection.dbapi_connection
        sqlite.execute("PRAGMA synchronous=NORMAL")
        return _Kept(connection, os.getpid(), self._file(shard) or (0, 0))

    def _file(self, shard: str) -> tuple[int, int] | None:
        """Which file the shard is: another one after it was deleted, as wiping a run does."""
        try:
            found = Path(self.path_for_shard(shard)).stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _forget(self, shard: str) -> None:
        kept = self._kept.pop(shard, None)
        # A forked process leaves the connection of its parent alone.
        if kept is not None and kept.process == os.getpid():
            kept.connection.close()

    def _forget_all(self) -> None:
        with self._turn:
            for shard in list(self._kept):
                self._forget(shard)

    # ----------------------------------------------------------------- batches

    def store_event_batch(self, events: Sequence[dg.EventLogEntry]) -> None:
        """Store ``events`` in one transaction for each file: that of their run, and the index over all runs."""
        with self._together(dict.fromkeys((INDEX_SHARD_NAME, *(event.run_id for event in events)))):
            for event in events:
                self.store_event(event)

    @contextmanager
    def _together(self, shards: Iterable[str]) -> Iterator[None]:
        with self._turn, ExitStack() as stack:
            for shard in shards:
                stack.enter_context(self._connect(shard))
            yield

    # ----------------------------------------------------- what is asked once

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        if column_name not in self._known_columns and super()._has_asset_key_col_on_connection(conn, column_name):
            self._known_columns.add(column_name)
        return column_name in self._known_columns

    def has_table(self, table_name: str) -> bool:
        if table_name not in self._known_tables and super().has_table(table_name):
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    # ------------------------------------------------------------ wipe, watch

    def wipe(self) -> None:
        self._forget_all()
        super().wipe()

    def upgrade(self) -> None:
        self._known_columns.clear()
        self._known_tables.clear()
        super().upgrade()

    def dispose(self) -> None:
        self._forget_all()
        super().dispose()

    def watch(self, run_id: str, cursor: str | None, callback: Any) -> None:
        """Call ``callback`` for new events of a run: they are in its write-ahead log before they are in its file."""
        super().watch(run_id, cursor, callback)
        observer: Any = self._obs
        observer.remove_handler_for_watch(*self._watchers[run_id][callback])
        follower = _WriteAheadWatchdog(self, run_id, callback, cursor)
        self._watchers[run_id][callback] = (follower, observer.schedule(follower, self._base_dir, recursive=True))


class _WriteAheadWatchdog(SqliteEventLogStorageWatchdog):
    def __init__(self, log: LocalEventLog, run_id: str, callback: Any, cursor: str | None) -> None:
        super().__init__(log, run_id, callback, cursor)
        self._patterns = [self._log_path, f"{self._log_path}-wal"]

    def on_modified(self, event: Any) -> None:
        self._process_log()
