"""Delta tables in memory, as far as the package asks delta-rs: the same files, the same refusals, in no time.

``in_memory`` puts them in place of delta-rs. What a commit writes is what delta-rs writes, so that the package's own
reading of logs is under test; a test plays the same seeds over delta-rs and over this, and wants the same histories.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Schema
from deltalake._internal import RemoveAction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from pydantic_core import from_json

from backfill_assets.lakehouse import delta_log, main_table, timelines
from backfill_assets.publish import log as publication_log
from backfill_assets_tests.simulator.store import LAKES, Content, Files, SimulatedStorage

Action = dict[str, Any]
_RETRIES, _DAY_MS = 15, 86_400_000
_TEXTS, _MAP = pa.list_(pa.string()), pa.map_(pa.string(), pa.string())
_KEPT = {
    "protocol": pa.struct(
        {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32(), "writerFeatures": _TEXTS}.items()
    ),
    "metaData": pa.struct(
        {"id": pa.string(), "schemaString": pa.string(), "partitionColumns": _TEXTS, "configuration": _MAP}.items()
    ),
    "txn": pa.struct({"appId": pa.string(), "version": pa.int64()}.items()),
    "add": pa.struct(
        {
            "path": pa.string(),
            "partitionValues": _MAP,
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "stats": pa.string(),
        }.items()
    ),
    "remove": pa.struct(
        {"path": pa.string(), "dataChange": pa.bool_(), "deletionTimestamp": pa.int64(), "size": pa.int64()}.items()
    ),
}
"""What a checkpoint holds of each kind of action."""
_WRITES = frozenset({"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"})


@dataclass(frozen=True)
class Snapshot:
    """One version of a table."""

    version: int
    protocol: Action
    metadata: Action
    adds: Mapping[str, Action]
    transactions: Mapping[str, int]

    @cached_property
    def listed(self) -> pa.Table:
        """Its files with their statistics, flat."""
        adds = list(self.adds.values())
        columns: dict[str, list[Any]] = {
            "path": [add["path"] for add in adds],
            "size_bytes": [add["size"] for add in adds],
        }
        stats = [_statistics(add["stats"]) for add in adds]
        columns["num_records"] = [each.get("numRecords") for each in stats]
        kinds = {"path": pa.string(), "size_bytes": pa.int64(), "num_records": pa.int64()}
        found = {name: pa.array(values, kinds[name]) for name, values in columns.items()}
        for kind, short in (("minValues", "min"), ("maxValues", "max"), ("nullCount", "null_count")):
            if adds:
                of_kind = pa.array([each.get(kind, {}) for each in stats])
                names = (f"{short}.{field.name}" for field in of_kind.type)
                found |= dict(zip(names, of_kind.flatten(), strict=True))
        return pa.table(found)

    def after(self, version: int, actions: Iterable[Action]) -> Snapshot:
        protocol, metadata, adds = self.protocol, self.metadata, dict(self.adds)
        transactions = dict(self.transactions)
        listed = list(actions)
        for action in listed:
            if "remove" in action:
                adds.pop(action["remove"]["path"], None)
        for action in listed:
            if "add" in action:
                adds[action["add"]["path"]] = action["add"]
            elif "txn" in action:
                transactions[action["txn"]["appId"]] = action["txn"]["version"]
            protocol, metadata = action.get("protocol", protocol), action.get("metaData", metadata)
        return Snapshot(version, protocol, metadata, adds, transactions)


NOTHING = Snapshot(-1, {}, {}, {}, {})


@lru_cache(4096)
def _statistics(text: str) -> Action:
    return cast("Action", from_json(text))


@dataclass
class DeltaLog:
    """The log of one table: its commits, and the checkpoints over them."""

    held: Files
    path: str

    def commit_file(self, version: int) -> str:
        return f"{self.path}/_delta_log/{version:020d}.json"

    def checkpoint_file(self, version: int) -> str:
        return f"{self.path}/_delta_log/{version:020d}.checkpoint.parquet"

    def _numbers(self, ending: str) -> list[int]:
        names = (name for name in self.held.names(f"{self.path}/_delta_log") if name.endswith(ending))
        return [int(name[:20]) for name in names if name[:20].isdigit()]

    def newest(self) -> int | None:
        return max([*self._numbers(".json"), *self._numbers(".checkpoint.parquet")], default=None)

    def at(self, version: int | None) -> Snapshot:
        newest = self.newest()
        if newest is None:
            raise TableNotFoundError(f"no log files in {self.path}")
        version = newest if version is None else version
        if version > newest:
            raise DeltaError(f"Invalid table version: {version}")
        return self._state(version)

    def _state(self, version: int) -> Snapshot:
        base = max((each for each in self._numbers(".checkpoint.parquet") if each <= version), default=-1)
        found = NOTHING
        if base >= 0:
            rows = self.held.contents[self.checkpoint_file(base)]
            if not isinstance(rows, pa.Table):
                raise DeltaError(f"Invalid checkpoint: {self.checkpoint_file(base)}")
            found = self._known(base, rows, NOTHING, lambda: self._checkpoint(base))
        for number in range(base + 1, version + 1):
            data = self.held.contents.get(self.commit_file(number))
            if not isinstance(data, bytes):
                raise DeltaError(f"Object at location {self.commit_file(number)} not found: File not found")
            found = self._known(number, data, found, partial(_parsed, data))
        return found

    def _known(self, version: int, data: Content, before: Snapshot, actions: Callable[[], list[Action]]) -> Snapshot:
        """A version is what its commit, or its checkpoint, makes of the one before it: computed once."""
        known = self.held.known.get((self.path, version))
        if known is None or known[0] is not data or known[1] is not before:
            known = self.held.known[self.path, version] = data, before, before.after(version, actions())
        return cast("Snapshot", known[2])

    def _checkpoint(self, version: int) -> list[Action]:
        rows = self.held.contents[self.checkpoint_file(version)]
        assert isinstance(rows, pa.Table)
        return [
            {kind: _dense(each)} for kind in rows.column_names for each in rows.column(kind).drop_null().to_pylist()
        ]

    def write_checkpoint(self, version: int) -> None:
        state = self._state(version)
        tombstones = self._tombstones(version)
        columns: dict[str, list[Action]] = {
            "protocol": [state.protocol],
            "metaData": [state.metadata],
            "txn": [{"appId": id, "version": number} for id, number in state.transactions.items()],
            "add": list(state.adds.values()),
            "remove": tombstones,
        }
        arrays = {kind: pa.array(map(_pairs, values), _KEPT[kind]) for kind, values in columns.items()}
        length = sum(map(len, arrays.values()))
        table, before = {}, 0
        for kind, array in arrays.items():
            table[kind] = pa.chunked_array(
                [pa.nulls(before, array.type), array, pa.nulls(length - before - len(array), array.type)]
            )
            before += len(array)
        # A loss of power in the moment before it is kept may tear it: that is not played. It is lost or there.
        self.held.put(self.checkpoint_file(version), pa.table(table), whole=True)
        hint = json.dumps({"version": version, "size": length}).encode()
        self.held.put(f"{self.path}/_delta_log/_last_checkpoint", hint)

    def _tombstones(self, version: int) -> list[Action]:
        base = max((each for each in self._numbers(".checkpoint.parquet") if each < version), default=-1)
        found: dict[str, Action] = {}
        known = self._checkpoint(base) if base >= 0 else []
        commits = (_parsed(self.held.as_bytes(self.commit_file(each))) for each in range(base + 1, version + 1))
        for action in (each for actions in (known, *commits) for each in actions):
            if "remove" in action:
                found[action["remove"]["path"]] = action["remove"]
            elif "add" in action:
                found.pop(action["add"]["path"], None)
        kept_from = self.held.now_ms() - self._kept_ms(version)
        return [each for each in found.values() if each["deletionTimestamp"] >= kept_from]

    def _kept_ms(self, version: int) -> int:
        """How long a checkpoint names a file that was removed."""
        kept = (
            self._state(version).metadata["configuration"].get("delta.deletedFileRetentionDuration", "interval 7 days")
        )
        return int(kept.split()[1]) * _DAY_MS


class SimulatedTable:
    """What the package asks of :class:`deltalake.DeltaTable`."""

    def __init__(
        self, table_uri: str, version: int | None = None, storage_options: Mapping[str, str] | None = None
    ) -> None:
        self._log = _log_of(table_uri)
        held = self._log.held
        self._state = held.call("open", self._log.path, lambda: self._log.at(version))

    def version(self) -> int:
        return self._state.version

    def load_as_version(self, version: int) -> None:
        self._state = self._log.held.call("open", self._log.path, lambda: self._log.at(version))

    def metadata(self) -> SimpleNamespace:
        metadata = self._state.metadata
        return SimpleNamespace(
            id=metadata["id"],
            configuration=dict(metadata["configuration"]),
            partition_columns=list(metadata["partitionColumns"]),
        )

    def schema(self) -> Schema:
        return Schema.from_json(self._state.metadata["schemaString"])

    def protocol(self) -> SimpleNamespace:
        protocol = self._state.protocol
        return SimpleNamespace(
            min_writer_version=protocol["minWriterVersion"], writer_features=protocol.get("writerFeatures")
        )

    def transaction_version(self, app_id: str) -> int | None:
        return self._state.transactions.get(app_id)

    @property
    def alter(self) -> SimulatedTable:
        return self

    def set_table_properties(
        self, properties: Mapping[str, str], commit_properties: CommitProperties | None = None
    ) -> None:
        metadata = self._state.metadata
        changed = {**metadata, "configuration": {**metadata["configuration"], **properties}}
        self._commit([{"metaData": changed}], commit_properties, "SET TBLPROPERTIES")

    def create_checkpoint(self) -> None:
        self._log.held.call("checkpoint", self._log.path, lambda: self._log.write_checkpoint(self._state.version))

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        assert flatten
        return self._state.listed

    def create_write_transaction(
        self,
        actions: Sequence[AddAction | RemoveAction],
        mode: str,
        schema: Schema,
        partition_by: Sequence[str] | None = None,
        partition_filters: Sequence[tuple[str, str, Sequence[str]]] | None = None,
        *,
        commit_properties: CommitProperties | None = None,
    ) -> None:
        written: list[Action] = []
        if mode == "overwrite":
            metadata = {**self._state.metadata, "schemaString": str(schema.to_json())}
            written.append({"metaData": metadata})
            ((column, _, values),) = partition_filters or ()
            doomed = [add for add in self._state.adds.values() if add["partitionValues"][column] in values]
            written += [{"remove": {**_removed(each), "deletionTimestamp": 0}} for each in doomed]
        written += [_action(each) for each in actions]
        before = self._state
        self._commit(written, commit_properties, "WRITE")
        self._state = before

    def _commit(self, actions: Sequence[Action], properties: CommitProperties | None, operation: str) -> None:
        wanted = properties or CommitProperties()
        retries = _RETRIES if wanted.max_commit_retries is None else wanted.max_commit_retries
        self._log.held.call(
            "commit",
            self._log.path,
            lambda: self._put(actions, wanted, operation, retries),
            exists=lambda: self._commit_again(actions, wanted, operation, retries),
            later=lambda: self._put(actions, wanted, operation, retries=0),
        )

    def _commit_again(
        self, actions: Sequence[Action], properties: CommitProperties, operation: str, retries: int
    ) -> None:
        """What delta-rs does when its own commit is there already, and seems to be another one's."""
        self._lost(self._state.version, retries)
        self._put(actions, properties, operation, retries - 1)

    def _lost(self, version: int, retries: int) -> None:
        if retries == 0:
            raise CommitFailedError(f"Commit failed: version {version} of {self._log.path} already exists")

    def _put(self, actions: Sequence[Action], properties: CommitProperties, operation: str, retries: int) -> None:
        self._refuse(actions)
        version = self._state.version + 1
        while self._log.commit_file(version) in self._log.held.contents:
            self._lost(version, retries)
            retries, version = retries - 1, version + 1
        held = self._log.held
        held.put(self._log.commit_file(version), _written(actions, properties, operation, held.now_ms()))
        self._state = self._log.at(version)
        interval = int(self._state.metadata["configuration"].get("delta.checkpointInterval", 100))
        if version and version % interval == 0:
            self._log.write_checkpoint(version)

    def _refuse(self, actions: Sequence[Action]) -> None:
        """What no commit of delta-rs may do to such a table."""
        features = set(self._state.protocol.get("writerFeatures") or ()) - _WRITES
        if features:
            raise CommitFailedError(f"Unsupported table features required: {sorted(features)}")
        only_appended = self._state.metadata.get("configuration", {}).get("delta.appendOnly") == "true"
        if only_appended and any(each.get("remove", {}).get("dataChange") for each in actions):
            raise CommitFailedError(
                "The transaction includes Remove action with data change but Delta table is append-only"
            )

    @classmethod
    def create(
        cls,
        table_uri: str,
        schema: Schema,
        mode: str,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str | None] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        assert mode == "ignore"
        log = _log_of(table_uri)
        begun = _begun(log, schema, partition_by, configuration or {})
        log.held.call("create", log.path, lambda: _create(log, begun, CommitProperties(), ignore=True))


def create_table_with_add_actions(
    table_uri: str,
    schema: Schema,
    add_actions: Sequence[AddAction],
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str | None] | None = None,
    storage_options: Mapping[str, str] | None = None,
    commit_properties: CommitProperties | None = None,
) -> None:
    log = _log_of(table_uri)
    begun = [*_begun(log, schema, partition_by, configuration or {}), *map(_action, add_actions)]
    log.held.call("create", log.path, lambda: _create(log, begun, commit_properties or CommitProperties()))


def _create(log: DeltaLog, begun: Sequence[Action], properties: CommitProperties, *, ignore: bool = False) -> None:
    if log.newest() is None:
        log.held.put(log.commit_file(0), _written(begun, properties, "CREATE TABLE", log.held.now_ms()))
    elif not ignore:
        raise CommitFailedError(f"{log.path} already exists")


def _begun(
    log: DeltaLog, schema: Schema, partition_by: Sequence[str], configuration: Mapping[str, str | None]
) -> list[Action]:
    metadata = {
        "id": f"table {log.path}",
        "schemaString": str(schema.to_json()),
        "partitionColumns": list(partition_by),
        "configuration": dict(configuration),
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _log_of(uri: str) -> DeltaLog:
    root = next(root for root in LAKES if uri.startswith(f"{root}/"))
    return DeltaLog(LAKES[root], uri.removeprefix(f"{root}/"))


def _parsed(data: bytes) -> list[Action]:
    try:
        return [from_json(line) for line in data.splitlines()]
    except ValueError as error:
        raise DeltaError(f"Invalid JSON in log record: {error}") from error


def _written(actions: Iterable[Action], properties: CommitProperties, operation: str, now: int) -> bytes:
    info = {"timestamp": now, "operation": operation, **(properties.custom_metadata or {})}
    transactions = [
        {"txn": {"appId": each.app_id, "version": each.version}} for each in properties.app_transactions or ()
    ]
    return "".join(f"{json.dumps(each)}\n" for each in ({"commitInfo": info}, *actions, *transactions)).encode()


def _action(action: AddAction | RemoveAction) -> Action:
    if isinstance(action, AddAction):
        return {
            "add": {
                "path": action.path,
                "partitionValues": dict(action.partition_values),
                "size": action.size,
                "modificationTime": action.modification_time,
                "dataChange": action.data_change,
                "stats": action.stats,
            }
        }
    return {
        "remove": {
            "path": action.path,
            "dataChange": action.data_change,
            "deletionTimestamp": action.deletion_timestamp,
            "size": action.size,
        }
    }


def _removed(add: Action) -> Action:
    return {"path": add["path"], "dataChange": True, "size": add["size"]}


def _pairs(action: Action) -> Action:
    """As Arrow takes a map."""
    return {name: list(value.items()) if isinstance(value, dict) else value for name, value in action.items()}


def _dense(action: Action) -> Action:
    """Back from a checkpoint."""
    maps = ("partitionValues", "configuration")
    return {name: dict(value) if name in maps else value for name, value in action.items() if value is not None}


@contextmanager
def in_memory() -> Iterator[None]:
    """The package opens, creates and commits to tables that are in memory."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (delta_log, main_table, publication_log, timelines):
            if hasattr(module, "DeltaTable"):
                patch.setattr(module, "DeltaTable", SimulatedTable)
        patch.setattr(timelines, "create_table_with_add_actions", create_table_with_add_actions)
        yield


_LAKES = itertools.count(1)


@contextmanager
def lake_in_memory() -> Iterator[SimulatedStorage]:
    """A lakehouse of its own, with tables in memory, while the block runs."""
    storage = SimulatedStorage(f"/simulated/alone/{next(_LAKES)}")
    LAKES[storage.root] = Files()
    with in_memory():
        yield storage
    del LAKES[storage.root]
