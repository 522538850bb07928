"""The publication log: journal, audit log, and what consistent readers pin to.

One Delta table, ``_publications``, that is only ever appended to, each append on exactly the version it was decided
on. Every commit carries the whole head (open entries, the last closed map, where the day states are), so that
reading it takes one look at the newest commit, however long the log is.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from pydantic import Field as ModelField

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.arrow_dataset import dataset_of
from backfill_assets.lakehouse.delta_log import commits_back
from backfill_assets.lakehouse.log_rows import ARROW_SCHEMA, DAY_COLUMNS, DAY_SCHEMA, DELTA_SCHEMA, Row, day_states
from backfill_assets.lakehouse.publication import DayState, Outcome, Prepared, Record
from backfill_assets.lakehouse.storage import Storage

if TYPE_CHECKING:
    import pyarrow.dataset as ds

LOG_TABLE = "_publications"
_HEAD = "backfill.head"
_INDEX_EVERY = 32
_REMEMBERED_OUTCOMES = 64


class OpenEntry(Record):
    """A publication that was prepared and not yet closed; ``file`` holds it in full."""

    publication: str
    file: str
    writes: frozenset[str]
    reads: frozenset[str]
    aborting: bool = False


class HeadState(Record):
    """The part of the head that is stored in every commit."""

    open: Mapping[str, OpenEntry] = ModelField(default_factory=dict)
    versions: Mapping[str, int] = ModelField(default_factory=dict)
    """The map of the last closed entry: Delta version by table."""
    index: str = ""
    """A file with the newest state of every day as of some entry; ``since`` lists the entries after it."""
    since: tuple[str, ...] = ()
    outcomes: Mapping[str, Outcome] = ModelField(default_factory=dict)
    """How the newest publications ended, newest last."""
    reclaiming: Mapping[str, str] = ModelField(default_factory=dict)
    """Open reclaim intents: the file that lists what is being deleted, by intent."""
    due: Mapping[str, str] = ModelField(default_factory=dict)
    """Publications that are done and of which nobody has been told: the file that holds each in full."""


@dataclass(frozen=True)
class Head:
    """The log at one version; everything decided on it can only be appended to that very version."""

    version: int
    state: HeadState
    handle: DeltaTable


class PublicationLog:
    """Reads and appends to ``_publications``. Knows nothing of the protocol; :mod:`publish` does."""

    def __init__(self, storage: Storage, now: Callable[[], datetime]) -> None:
        self._storage = storage
        self._now = now
        self._day_tables: dict[str, pa.Table] = {}
        """What the files of the newest head say of days: a file of the log never changes, and a run asks many times."""

    def head(self) -> Head:
        """The newest state; creates the log the first time."""
        handle = self._load()
        for _, commit in commits_back(self._storage, LOG_TABLE, handle.version()):
            if _HEAD in commit:  # the newest, unless somebody optimised the log: such commits carry no head
                return Head(handle.version(), HeadState.model_validate_json(commit[_HEAD]), handle)
        if self.rows("closed", columns=["event"]):
            raise LakehouseUnusable(
                f"The newest entries of {self._storage.uri(LOG_TABLE)} are gone: others wrote to it and cleaned it up.",
                hint="Restore its _delta_log from a backup; nothing may be published until then.",
            )
        return Head(handle.version(), HeadState(), handle)

    def _load(self) -> DeltaTable:
        uri = self._storage.uri(LOG_TABLE)
        try:
            return DeltaTable(uri, storage_options=dict(self._storage.options))
        except TableNotFoundError:
            return self._create(uri)

    def _rows(self) -> ds.Dataset:
        return dataset_of(self._storage, LOG_TABLE, self._load())

    def _create(self, uri: str) -> DeltaTable:
        configuration: dict[str, str | None] = {
            "delta.appendOnly": "true",
            "delta.checkpointInterval": "20",
            "delta.enableDeletionVectors": "false",
        }
        try:
            DeltaTable.create(
                uri,
                DELTA_SCHEMA,
                mode="ignore",
                configuration=configuration,
                storage_options=dict(self._storage.options),
            )
        except CommitFailedError:
            pass  # somebody else created it in the same moment: theirs is as good
        except (OSError, DeltaError) as error:
            raise LakehouseUnusable(
                f"The lakehouse {self._storage.root} cannot be written: {error}",
                hint="Check that the folder exists, its owner and permissions, and the free disk space.",
            ) from error
        return DeltaTable(uri, storage_options=dict(self._storage.options))

    def append(self, head: Head, rows: Sequence[Row], change: Callable[[str], HeadState]) -> bool:
        """Append ``rows`` as one entry on exactly ``head``; False when somebody else appended first.

        ``change`` gives the new head from the name of the file that holds the entry.
        """
        file = f"{LOG_TABLE}/{head.version + 1:020d}-{uuid.uuid4().hex[:12]}.parquet"
        size = self._storage.write_parquet(file, self._entry(head.version + 1, rows))
        return self._commit(head, file, size, len(rows), change(file)) or self._landed(head.version + 1, file)

    def _landed(self, version: int, file: str) -> bool:
        """After a refused commit: an object store may have taken it and lost the answer. If not, drop the file."""
        commit = self._storage.read_json_lines(f"{LOG_TABLE}/_delta_log/{version:020d}.json")
        if any(f"{LOG_TABLE}/{action['add']['path']}" == file for action in commit if "add" in action):
            return True
        self._storage.delete(file)
        return False

    def _entry(self, sequence: int, rows: Sequence[Row]) -> pa.Table:
        common = {"sequence": sequence, "at": self._now()}
        return pa.Table.from_pylist([{**row, **common} for row in rows], schema=ARROW_SCHEMA)

    def _commit(self, head: Head, file: str, size: int, rows: int, state: HeadState) -> bool:
        name = file.removeprefix(f"{LOG_TABLE}/")
        stats = json.dumps({"numRecords": rows})
        add = AddAction(name, size, {}, int(self._now().timestamp() * 1000), True, stats)
        try:
            head.handle.create_write_transaction(
                [add],
                "append",
                DELTA_SCHEMA,
                commit_properties=CommitProperties(
                    custom_metadata={_HEAD: state.model_dump_json()},
                    max_commit_retries=0,
                ),
            )
        except CommitFailedError:
            return False
        return True

    def prepared(self, entry: OpenEntry) -> Prepared:
        """The open entry in full, before-images included."""
        return self.prepared_in(entry.file)

    def prepared_in(self, file: str) -> Prepared:
        """The prepared entry that ``file`` of the log holds."""
        details = self._storage.read_parquet(file, ["detail"]).column("detail").to_pylist()
        return Prepared.model_validate_json(next(detail for detail in details if detail))

    def intended(self, file: str) -> list[str]:
        """The paths that a reclaim intent names, below the lakehouse root."""
        return [str(path) for path in self._storage.read_parquet(file, ["detail"]).column("detail").to_pylist()]

    def outcome(self, head: Head, publication: str) -> Outcome | None:
        """How a publication ended, from the log; None while it is open or if it was never prepared."""
        if publication in head.state.outcomes:
            return head.state.outcomes[publication]
        for row in self.rows("closed", columns=["publication", "outcome", "event"]):
            if row["publication"] == publication:
                outcome: Outcome = row["outcome"]
                return outcome
        return None

    def rows(self, *events: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
        """Entries of the given kinds (all kinds if none is named), oldest first: the whole history, for audits."""
        table = self._rows().to_table(columns=columns)
        if events:
            table = table.filter(pc.field("event").isin(list(events)))
        order = [("sequence", "ascending")] if "sequence" in table.column_names else []
        rows: list[dict[str, Any]] = (table.sort_by(order) if order else table).to_pylist()
        return rows

    def prepared_since(self, moment: datetime, table: str = "") -> list[Prepared]:
        """Every publication (that names ``table``) prepared at or after ``moment``, whatever became of it."""
        chosen = (pc.field("event") == "prepared") & (pc.field("at") >= pa.scalar(moment))
        details = self._rows().to_table(columns=["detail"], filter=chosen).column("detail").to_pylist()
        return [Prepared.model_validate_json(detail) for detail in details if detail and table in detail]

    def prepared_of(self, publications: Iterable[str]) -> list[Prepared]:
        """The prepared entries of several publications, in one look at the log."""
        named = pa.array(sorted(set(publications)), pa.string())
        chosen = (pc.field("event") == "prepared") & pc.field("publication").isin(named)
        details = self._rows().to_table(columns=["detail"], filter=chosen).column("detail")
        return [Prepared.model_validate_json(detail) for detail in details.to_pylist() if detail]

    def find_prepared(self, publication: str) -> tuple[Prepared, datetime] | None:
        """The prepared entry of any publication, also a closed one, and when it was prepared."""
        chosen = (pc.field("event") == "prepared") & (pc.field("publication") == publication)
        for row in self._rows().to_table(columns=["detail", "at"], filter=chosen).to_pylist():
            if row["detail"]:
                return Prepared.model_validate_json(row["detail"]), row["at"]
        return None

    def day_states(self, head: Head, tables: Iterable[str] | None = None) -> dict[tuple[str, str], DayState]:
        """The newest state of every published day (of ``tables``), by table and day."""
        wanted = None if tables is None else set(tables)
        states: dict[tuple[str, str], DayState] = {}
        files = [file for file in (head.state.index, *head.state.since) if file]
        known = self._day_tables
        self._day_tables = {file: known[file] if file in known else self._day_rows(file) for file in files}
        for rows in self._day_tables.values():
            for state in day_states(rows):
                if wanted is None or state.table in wanted:
                    states[state.table, state.day] = state
        return states

    def _day_rows(self, file: str) -> pa.Table:
        """Without an expression: PyArrow imports pandas to make one, a fifth of what most commands take."""
        rows = self._storage.read_parquet(file, DAY_COLUMNS)
        return rows.filter(pc.is_valid(rows.column("table")))

    def index(self, head: Head, since: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Fold long ``since`` lists into a new index file: reading day states stays flat."""
        if len(since) < _INDEX_EVERY:
            return head.state.index, tuple(since)
        newest: dict[tuple[str, str], dict[str, Any]] = {}
        for file in (head.state.index, *since):
            for row in self._day_rows(file).to_pylist() if file else ():
                newest[row["table"], row["day"]] = row
        path = f"{LOG_TABLE}/_index/{head.version + 1:020d}-{uuid.uuid4().hex[:12]}.parquet"
        self._storage.write_parquet(path, pa.Table.from_pylist(list(newest.values()), schema=DAY_SCHEMA))
        return path, ()


def remembered(outcomes: Mapping[str, Outcome], publication: str, outcome: Outcome) -> dict[str, Outcome]:
    """The newest outcomes, so that a publisher whose entry somebody else finished learns of it without a search."""
    newest = [
        *((key, value) for key, value in outcomes.items() if key != publication),
        (publication, outcome),
    ]
    return dict(newest[-_REMEMBERED_OUTCOMES:])


def utc_now() -> datetime:
    """The wall clock, in UTC: for log entries only, never inside a transform."""
    return datetime.now(UTC)
