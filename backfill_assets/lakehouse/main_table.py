"""Main: the published Delta table. Only delta-rs commits to it, as prepared."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any, TypeVar

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake._internal import RemoveAction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from backfill_assets.errors import CommitRefused, PublicationRefused
from backfill_assets.lakehouse.delta_log import (
    AddedFile,
    LogRead,
    LogState,
    RemovedFile,
    VersionGone,
    commits_back,
    hinted_checkpoint,
    newest_version,
    open_table,
    read_log_and_transactions,
    read_transactions,
    removed_files,
    version_by_names,
    written_at,
)
from backfill_assets.lakehouse.disk import explain_failure
from backfill_assets.lakehouse.open_handles import Known
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.lakehouse.storage import Storage

PARTITION_COLUMN = "day"
PUBLICATION_KEY = "backfill.publication"
Files = Mapping[date, Mapping[str, AddedFile]]


Found = TypeVar("Found")


class VersionPassed(VersionGone):
    """An opened version was cleaned up; the table has newer ones."""


def read_afresh(what: str, read: Callable[[], Found]) -> Found:
    """Reads again if a version passes between opening and reading."""
    retry = Retry(what)
    while True:
        with suppress(VersionPassed):
            return read()
        retry.lost("Delta logs were cleaned up while they were read")


@dataclass(frozen=True)
class MainTable:
    """One version of a published table; commits go on top of exactly it."""

    storage: Storage
    name: str
    version: int
    opened: DeltaTable | None = field(default=None, repr=False, compare=False)
    base: int | None = field(default=None, repr=False, compare=False)
    known: Known = field(default_factory=Known, repr=False, compare=False)

    @classmethod
    def open(cls, storage: Storage, name: str, known: Known | None = None) -> MainTable | None:
        """``known`` is of whoever opens it again and again."""
        base = hinted_checkpoint(storage, name) if storage.is_folder else None
        version = version_by_names(storage, name, base)
        if version is not None:
            return cls(storage, name, version, base=base, known=known or Known())
        try:
            with explain_failure(f"{storage.uri(name)} cannot be read"):
                handle = open_table(storage, name)
        except TableNotFoundError:
            return None
        return cls(storage, name, handle.version(), handle)

    @cached_property
    def handle(self) -> DeltaTable:
        if self.opened is not None:
            return self.opened
        with self._while_kept(), explain_failure(f"{self.storage.uri(self.name)} cannot be read"):
            return self.known.handle_at(self.storage, self.name, self.version)

    @contextmanager
    def _while_kept(self) -> Iterator[None]:
        """Raises :class:`VersionPassed` if others went on."""
        try:
            yield
        except (VersionGone, FileNotFoundError, DeltaError) as error:
            newest = newest_version(self.storage, self.name)
            if newest is None or newest <= self.version:
                raise
            raise VersionPassed(
                f"Version {self.version} of {self.name} was cleaned up before it was read; the newest is {newest}.",
                hint="Run this again: it reads the newest version, and goes on where the log says.",
            ) from error

    @classmethod
    def create(cls, storage: Storage, name: str, schema: str, retention_days: int) -> MainTable:
        configuration: dict[str, str | None] = {
            "delta.checkpointInterval": "20",
            "delta.enableDeletionVectors": "false",
            **_retention(retention_days),
        }
        with suppress(CommitFailedError):  # another writer created it: the schema check judges theirs
            DeltaTable.create(
                storage.uri(name),
                Schema.from_json(schema),
                mode="ignore",
                partition_by=[PARTITION_COLUMN],
                configuration=configuration,
                storage_options=dict(storage.options),
            )
        storage.keep(written_at(name, [0]))  # before a publication is on the log that could not do without it
        table = cls.open(storage, name)
        if table is None:
            raise PublicationRefused(f"The table {name} could not be created in {storage.root}.")
        return table

    @cached_property
    def _log(self) -> LogRead:
        with self._while_kept():
            known = self.known.logs.get(self.name)
            found = read_log_and_transactions(self.storage, self.name, self.version, self.base, known)
        self.known.logs[self.name] = found
        return found

    def state(self) -> LogState:
        return self._log.state

    def removed_files(self) -> dict[str, RemovedFile]:
        return removed_files(self.storage, self.name, self.version)

    def transaction(self, id: str) -> int | None:
        is_open = self.opened is not None or "handle" in vars(self)
        if is_open and "_log" not in vars(self):
            with self._while_kept():
                return self.handle.transaction_version(id)
        return self._transactions.get(id)

    @cached_property
    def _transactions(self) -> Mapping[str, int]:
        try:
            return self._log.transactions
        except PublicationRefused:  # of files that no publication can carry; what was published is there all the same
            return self._read_transactions()

    def transactions(self) -> Mapping[str, int]:
        return self._log.transactions if "_log" in vars(self) else self._read_transactions()

    def _read_transactions(self) -> dict[str, int]:
        with self._while_kept():
            return read_transactions(self.storage, self.name, self.version)

    def commit_version(self, publication: str) -> int:
        """Raises :class:`VersionGone` if the commit was cleaned up."""
        for version, commit in commits_back(self.storage, self.name, self.version):
            if commit.get(PUBLICATION_KEY) == publication:
                return version
        raise VersionGone(
            f"The commit of {publication} to {self.name} cannot be read any more: the Delta log was cleaned up.",
            hint="The publication log still has the files of the publication: backfill history shows it.",
        )

    def keep_for(self, days: int) -> bool:
        """How long Delta keeps removed files and old versions; False if set so already, or others committed."""
        wanted = _retention(days)
        if wanted.items() <= self.handle.metadata().configuration.items():
            return False
        try:
            self.handle.alter.set_table_properties(
                dict(wanted), commit_properties=CommitProperties(max_commit_retries=0)
            )
        except CommitFailedError:
            return False  # the next publication, or the next maintenance, sets it
        return True

    def is_kept_for(self, days: int) -> bool:
        return _retention(days).items() <= self.handle.metadata().configuration.items()

    def commit(
        self,
        publication: str,
        transactions: Mapping[str, int],
        *,
        target: Files,
        active: Files,
        schema: str | None,
        at: datetime,
    ) -> bool:
        """Make the days of ``target`` have exactly its files, in a metadata-only commit on this version.

        ``schema`` is given when it adds a column. False if another writer was first; else a refusal raises
        :class:`CommitRefused`.
        """
        adds = [file for day, files in target.items() for path, file in files.items() if path not in active[day]]
        removes = [file for day in target for path, file in active[day].items() if path not in target[day]]
        properties = CommitProperties(
            custom_metadata={PUBLICATION_KEY: publication},
            app_transactions=[Transaction(id, version) for id, version in transactions.items()],
            max_commit_retries=0,
        )
        if self.handle.version() != self.version:
            return False
        try:
            with explain_failure(f"{publication} cannot be committed to {self.storage.uri(self.name)}"):
                self._write(adds, removes, schema, properties, at)
        except CommitFailedError as error:
            if (newest_version(self.storage, self.name) or 0) > self.version:
                return False
            raise CommitRefused(
                f"{self.name} refuses the commit of {publication}, and no other writer was faster: {error}",
                hint=f"Take back what was changed on the table {self.storage.uri(self.name)} (a property, a feature),"
                f" or give the publication up: backfill maintain --abort {publication}",
            ) from error
        return True

    def _write(
        self,
        adds: list[AddedFile],
        removes: list[AddedFile],
        schema: str | None,
        properties: CommitProperties,
        at: datetime,
    ) -> None:
        if schema is not None and self.gains_columns(schema):
            self._commit_with_new_columns(adds, removes, schema, properties)
            return
        actions: list[AddAction | RemoveAction] = [
            *map(add_action, adds),
            *(_remove(file, at) for file in removes),
        ]
        self.handle.create_write_transaction(
            actions,
            "append",
            self.handle.schema(),
            [PARTITION_COLUMN],
            commit_properties=properties,
        )

    def _commit_with_new_columns(
        self,
        adds: list[AddedFile],
        removes: list[AddedFile],
        schema: str,
        properties: CommitProperties,
    ) -> None:
        """Delta-rs evolves a schema only by an overwrite, which removes whole days by filter."""
        days = sorted({file.day for file in removes}) or ["0001-01-01"]
        self.handle.create_write_transaction(
            [add_action(file) for file in adds],
            "overwrite",
            Schema.from_json(self._with_new_columns(schema)),
            [PARTITION_COLUMN],
            [(PARTITION_COLUMN, "in", days)],
            commit_properties=properties,
        )

    def _with_new_columns(self, schema: str) -> str:
        """A stricter staged column must not narrow ours."""
        return with_new_columns(self.handle.schema().to_json(), schema)

    def gains_columns(self, schema: str) -> bool:
        return bool(_new_fields(json.loads(self.handle.schema().to_json()), json.loads(schema)))

    def obstacles(self, schema: str, target: Files, active: Files) -> list[str]:
        problems = schema_problems(json.loads(self.handle.schema().to_json()), json.loads(schema))
        problems += self.write_problems(target, active)
        partitions = list(self.handle.metadata().partition_columns)
        if partitions != [PARTITION_COLUMN]:
            problems.append(f"the table is partitioned by {partitions}, not by ['{PARTITION_COLUMN}']")
        if self.gains_columns(schema):
            half = sorted(
                day for day in target if active[day].keys() - target[day] and active[day].keys() & target[day]
            )
            problems += [f"it gains a column, so {day} must be staged in full" for day in half[:1]]
        return problems

    def require_writable(self, target: Files, active: Files) -> None:
        if problems := self.write_problems(target, active):
            raise PublicationRefused(
                f"The table {self.name} cannot be published to: " + "; ".join(problems) + ".",
                hint="Change it as it says in brackets, then run this again: what was staged is reused.",
            )

    def write_problems(self, target: Files, active: Files) -> list[str]:
        protocol = self.handle.protocol()
        return write_problems(
            protocol.min_writer_version,
            protocol.writer_features,
            self.handle.metadata().configuration,
            json.loads(self.handle.schema().to_json()),
            removes=any(active[day].keys() - target[day].keys() for day in target),
        )


def _retention(days: int) -> dict[str, str]:
    interval = f"interval {days} days"
    return {"delta.logRetentionDuration": interval, "delta.deletedFileRetentionDuration": interval}


def schema_problems(main: dict[str, Any], staged: dict[str, Any]) -> list[str]:
    ours = {field["name"]: field for field in main["fields"]}
    theirs = {field["name"]: field for field in staged["fields"]}
    problems = []
    for name in ours.keys() & theirs.keys():
        if theirs[name]["type"] != ours[name]["type"]:
            problems.append(f"{name} is {theirs[name]['type']} but the table has {ours[name]['type']}")
        elif theirs[name]["nullable"] and not ours[name]["nullable"]:
            problems.append(f"{name} may be null but the table forbids it")
    problems += [f"{name} is missing" for name in ours if name not in theirs]
    for new in _new_fields(main, staged):
        if not new["nullable"]:
            problems.append(f"the new column {new['name']} is not nullable")
        if new["name"].lower() in {name.lower() for name in ours}:
            problems.append(f"the new column {new['name']} differs from another one only by case")
    return sorted(problems)


def with_new_columns(ours: str, staged: str) -> str:
    main = json.loads(ours)
    return json.dumps({**main, "fields": [*main["fields"], *_new_fields(main, json.loads(staged))]})


def _new_fields(main: dict[str, Any], staged: dict[str, Any]) -> list[dict[str, Any]]:
    names = {field["name"] for field in main["fields"]}
    return [field for field in staged["fields"] if field["name"] not in names]


def of_days(state: LogState, days: Iterable[date]) -> dict[date, dict[str, AddedFile]]:
    return {day: {file.path: file for file in files} for day, files in state.of_days(days).items()}


def add_action(file: AddedFile) -> AddAction:
    return AddAction(
        file.path,
        file.size,
        {PARTITION_COLUMN: file.day},
        file.modified_ms,
        True,
        file.stats,
    )


def _remove(file: AddedFile, at: datetime) -> RemoveAction:
    return RemoveAction(
        file.path,
        True,
        int(at.timestamp() * 1000),
        file.size,
        {PARTITION_COLUMN: file.day},
    )


# ------------------------------------------------------------------ what cannot be written, or would be written wrongly

# What delta-rs refuses was tried feature by feature. What it accepts without carrying it out (constraints, generated
# values, mapped columns) would leave wrong rows. See
# https://github.com/delta-io/delta/blob/master/PROTOCOL.md#table-features.

_WRITTEN = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "variantType",
        "variantType-preview",
    }
)
"""Some only while no column and property uses them."""
_IDENTITY_WRITER = 6
_FEATURES_WRITER = 7
_CONSTRAINT = "delta.constraints."
_COLUMN_KEYS = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "a generated value",
    "delta.identity.start": "an identity value",
    "CURRENT_DEFAULT": "a default value",
}


def write_problems(
    writer_version: int,
    writer_features: Collection[str] | None,
    properties: Mapping[str, str | None],
    schema: Mapping[str, Any],
    *,
    removes: bool,
) -> list[str]:
    """Why nothing can be committed, and what to do.

    ``removes``: the publication takes files out. ``schema`` is Delta's JSON, parsed.
    """
    return [
        *_feature_problems(writer_version, writer_features or ()),
        *_property_problems({key: (value or "").lower() for key, value in properties.items()}, removes=removes),
        *_column_problems(schema),
    ]


def _feature_problems(writer_version: int, features: Collection[str]) -> Iterator[str]:
    if writer_version == _IDENTITY_WRITER or writer_version > _FEATURES_WRITER:
        yield (
            f"it demands Delta writer version {writer_version}, which delta-rs does not write (create the table again "
            "without identity columns)"
        )
    for feature in sorted(set(features) - _WRITTEN):
        yield (
            f"it has the writer feature {feature}, which delta-rs does not write (ALTER TABLE ... DROP FEATURE "
            f"{feature})"
        )


def _property_problems(properties: Mapping[str, str], *, removes: bool) -> Iterator[str]:
    if removes and properties.get("delta.appendOnly") == "true":
        yield "delta.appendOnly=true forbids to replace or compact days (ALTER TABLE ... SET it to false)"
    if properties.get("delta.columnMapping.mode", "none") != "none":
        yield "delta.columnMapping.mode renames the columns in its files (create the table again without it)"
    if properties.get("delta.checkpointPolicy", "classic") != "classic":
        yield "delta.checkpointPolicy=v2 writes checkpoints that are not read here (ALTER TABLE ... SET it to classic)"
    if properties.get("delta.checkpoint.writeStatsAsJson") == "false":
        yield "delta.checkpoint.writeStatsAsJson=false drops the row counts of its files (ALTER TABLE ... UNSET it)"
    if "delta.setTransactionRetentionDuration" in properties:
        yield (
            "delta.setTransactionRetentionDuration forgets which files were taken in, so they would count twice"
            " (ALTER TABLE ... UNSET it)"
        )
    for name in sorted(key.removeprefix(_CONSTRAINT) for key in properties if key.startswith(_CONSTRAINT)):
        yield (
            f"its constraint {name} is not checked by a publication (declare it as a gate, and ALTER TABLE ... DROP "
            f"CONSTRAINT {name})"
        )


def _column_problems(schema: Mapping[str, Any]) -> Iterator[str]:
    for column in schema["fields"]:
        for key, what in _COLUMN_KEYS.items():
            if key in (column.get("metadata") or {}):
                yield f"its column {column['name']} has {what}, which a publication does not carry out (drop it)"
