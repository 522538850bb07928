"""Reads Delta logs: add actions with statistics, which delta-rs's listing lacks, and tombstones.

Covers JSON commits and checkpoints, those of version 2 with JSON statistics. See
https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from backfill_assets.days import day_or_none
from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse import durable
from backfill_assets.lakehouse.catalog_managed import require_own_log
from backfill_assets.lakehouse.storage import Storage

_COMMIT = re.compile(r"(\d{20})\.json$")
_ADD_COLUMNS = [
    f"add.{name}" for name in ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector")
]
_REMOVE_COLUMNS = ["remove.path", "remove.deletionTimestamp"]
_TRANSACTION_COLUMNS = ["txn.appId", "txn.version"]
_ALWAYS_COLUMNS = ["protocol", "sidecar"]
_CATALOG_MANAGED = "catalog-managed"
_MOST_NAMED_COMMITS = 400
"""With more commits after it, a hint is stale."""
_LOOKED_FOR_AT_ONCE = 20
_MOST_COMMITS_SINCE = 20
"""With more of them, a checkpoint has less to read."""
Actions = list[dict[str, Any]]
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet$")
_CHECKPOINT_2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f]{8}-[0-9a-f-]{27}\.(?:json|parquet)$")


@dataclass(frozen=True, order=True, slots=True)
class AddedFile:
    path: str
    day: str
    size: int
    modified_ms: int
    stats: str

    @property
    def rows(self) -> int:
        """Raises :class:`PublicationRefused` without statistics."""
        count = json.loads(self.stats).get("numRecords")
        if count is None:
            raise PublicationRefused(f"The file {self.path} carries no statistics, so its rows are not known.")
        return int(count)

    def below(self, folder: str) -> AddedFile:
        return AddedFile(f"{folder}/{self.path}", self.day, self.size, self.modified_ms, self.stats)

    def to_json(self) -> list[Any]:
        return [self.path, self.day, self.size, self.modified_ms, self.stats]

    @classmethod
    def from_json(cls, value: list[Any]) -> AddedFile:
        return cls(*value)


@dataclass(frozen=True)
class RemovedFile:
    path: str
    removed_ms: int


@dataclass(frozen=True)
class LogState:
    version: int
    active: dict[str, AddedFile]

    def files_by_day(self) -> dict[date, list[AddedFile]]:
        days: dict[str, list[AddedFile]] = {}
        for file in self.active.values():
            days.setdefault(file.day, []).append(file)
        return {day: files for text, files in days.items() if (day := day_or_none(text)) is not None}

    def by_day(self) -> dict[date, frozenset[str]]:
        return {day: frozenset(file.path for file in files) for day, files in self.files_by_day().items()}

    def of_days(self, days: Iterable[date]) -> dict[date, tuple[AddedFile, ...]]:
        found = self.files_by_day()
        return {day: tuple(sorted(found.get(day, ()))) for day in days}


class VersionGone(LakehouseUnusable):
    """The Delta log begins later."""


def read_log(storage: Storage, table: str, version: int) -> LogState:
    """Raises :class:`VersionGone` for a gap, :class:`PublicationRefused` for active deletion vectors."""
    active: dict[str, AddedFile] = {}
    vectors: set[str] = set()
    for actions in actions_up_to(storage, table, version, _ADD_COLUMNS):
        apply_actions(active, {}, actions, vectors)
    _refuse_vectors(vectors)
    return LogState(version, active)


@dataclass(frozen=True)
class LogRead:
    state: LogState
    transactions: Mapping[str, int]
    commit: tuple[int, ...]
    """What the file of the version's commit was when it was read."""


def read_log_and_transactions(
    storage: Storage, table: str, version: int, base: int | None = None, known: LogRead | None = None
) -> LogRead:
    """:func:`read_log` and :func:`read_transactions` in one pass, from what is ``known``, or checkpoint ``base``."""
    commit = _commit_as_it_is(storage, table, version)
    since = _commits_since(storage, table, version, known)
    if known is None or since is None:
        known, since = None, actions_up_to(storage, table, version, [*_ADD_COLUMNS, *_TRANSACTION_COLUMNS], base)
    active = dict(known.state.active) if known else {}
    transactions = dict(known.transactions) if known else {}
    vectors: set[str] = set()
    for actions in since:
        apply_actions(active, {}, actions, vectors)
        transactions |= _transactions_in(actions)
    _refuse_vectors(vectors)
    return LogRead(LogState(version, active), transactions, commit)


def _commits_since(storage: Storage, table: str, version: int, known: LogRead | None) -> list[Actions] | None:
    """None if what is known is too old, or of a log that is another by now."""
    if known is None or not 0 <= version - known.state.version <= _MOST_COMMITS_SINCE:
        return None
    if not known.commit or known.commit != _commit_as_it_is(storage, table, known.state.version):
        return None
    names = [commit_file(table, number) for number in range(known.state.version + 1, version + 1)]
    with suppress(FileNotFoundError):
        found = [require_actions(storage, name) for name in names]
        require_own_log(table, found)
        return found
    return None


def _commit_as_it_is(storage: Storage, table: str, version: int) -> tuple[int, ...]:
    """Empty without the file, or on an object store."""
    return durable.as_it_is(storage.uri(commit_file(table, version))) if storage.is_folder else ()


def read_declaration(storage: Storage, table: str, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Also of a table that delta-rs cannot open. Raises like :func:`read_log`."""
    protocol: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for actions in actions_up_to(storage, table, version, ["metaData"]):
        for action in actions:
            protocol, metadata = action.get("protocol") or protocol, action.get("metaData") or metadata
    return protocol, {**metadata, "configuration": dict(metadata.get("configuration") or {})}


NO_FILES = LogState(-1, {})


def files_at(storage: Storage, table: str, version: int | None) -> LogState:
    return NO_FILES if version is None else read_log(storage, table, version)


def removed_files(storage: Storage, table: str, version: int) -> dict[str, RemovedFile]:
    removed: dict[str, RemovedFile] = {}
    for actions in actions_up_to(storage, table, version, _REMOVE_COLUMNS):
        apply_actions({}, removed, actions, set())
    return removed


def actions_up_to(
    storage: Storage, table: str, version: int, columns: Sequence[str], base: int | None = None
) -> list[Actions]:
    """Oldest file first: ``columns`` of a checkpoint, all of a commit.

    Raises :class:`~backfill_assets.lakehouse.catalog_managed.CatalogManaged`.
    """
    found = _files_read(storage, table, version, [*columns, *_ALWAYS_COLUMNS], base)
    require_own_log(table, found)
    return found


def _files_read(storage: Storage, table: str, version: int, columns: list[str], base: int | None) -> list[Actions]:
    def kept(part: str) -> Actions:
        if part.endswith(".json"):
            return require_actions(storage, part)
        try:
            rows = storage.read_parquet(part, columns)
        except pa.ArrowException as error:
            what = f"{storage.uri(part)} cannot be read: {error}"
            raise LakehouseUnusable(what, hint="Put the file back from a backup.") from error
        return [{kind: each} for kind in rows.column_names for each in rows.column(kind).drop_null().to_pylist()]

    def whole(part: str) -> Actions:
        found = kept(part)
        beside = [f"{table}/_delta_log/_sidecars/{each['sidecar']['path']}" for each in found if "sidecar" in each]
        return [*found, *(each for sidecar in beside for each in kept(sidecar))]

    def read(parts: list[str], commits: list[str]) -> list[Actions]:
        return [*map(whole, parts), *(require_actions(storage, name) for name in commits)]

    hinted = _files_from(table, hinted_checkpoint(storage, table) if base is None else base, version)
    if hinted is not None:
        with suppress(FileNotFoundError):  # cleaned up: the names of what is there say what to read
            return read(*hinted)
    return _read_while_listed(lambda: _files_up_to(storage, table, version), read)


def _read_while_listed(
    listed: Callable[[], tuple[list[str], list[str]]], read: Callable[[list[str], list[str]], list[Actions]]
) -> list[Actions]:
    """A clean-up may come between listing and reading; what is listed again is lost."""
    names = listed()
    while True:
        try:
            return read(*names)
        except FileNotFoundError:
            before, names = names, listed()
            if names == before:
                raise


def require_actions(storage: Storage, path: str) -> Actions:
    """Raises :class:`LakehouseUnusable` for a damaged, or empty, commit."""
    actions = storage.read_json_lines(path)
    if not actions or not all(isinstance(each, dict) for each in actions):
        raise LakehouseUnusable(
            f"{storage.uri(path)} cannot be read: it has no actions.", hint="Put the file back from a backup."
        )
    return actions


def _files_from(table: str, base: int | None, version: int) -> tuple[list[str], list[str]] | None:
    """Lists nothing, as logs may be long; None without a useful hint."""
    if base is None or base > version or version - base > _MOST_NAMED_COMMITS:
        return None
    commits = [commit_file(table, number) for number in range(base + 1, version + 1)]
    return [f"{table}/_delta_log/{base:020d}.checkpoint.parquet"], commits


def hinted_checkpoint(storage: Storage, table: str) -> int | None:
    """Returns None without a hint, or if its checkpoint has many parts."""
    try:
        hint = json.loads(storage.read_bytes(f"{table}/_delta_log/_last_checkpoint"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    version = hint.get("version") if isinstance(hint, dict) and not hint.get("parts") else None
    return version if isinstance(version, int) else None


def commit_file(table: str, version: int) -> str:
    return f"{table}/_delta_log/{version:020d}.json"


def written_at(table: str, versions: Iterable[int]) -> list[str]:
    log, numbers = f"{table}/_delta_log", list(versions)
    checkpoints = [f"{log}/{number:020d}.checkpoint.parquet" for number in numbers]
    return [*(commit_file(table, number) for number in numbers), *checkpoints, f"{log}/_last_checkpoint"]


def version_by_names(storage: Storage, table: str, base: int | None) -> int | None:
    """Probes names of commits after checkpoint ``base``; without one it lists a log, which is short.

    Delta-rs would list the whole log and load files. Returns None on an object store, and if the hint is too old.
    """
    if not storage.is_folder:
        return None
    return newest_version(storage, table) if base is None else version_from(storage, table, base)


def version_from(storage: Storage, table: str, known: int) -> int | None:
    """Probes names of commits; None on an object store, or if ``known`` is too old."""
    if not storage.is_folder or storage.missing([commit_file(table, known)]):
        return None
    for first in range(known + 1, known + _MOST_NAMED_COMMITS, _LOOKED_FOR_AT_ONCE):
        numbers = range(first, first + _LOOKED_FOR_AT_ONCE)
        missing = set(storage.missing([commit_file(table, number) for number in numbers]))
        for number in numbers:
            if commit_file(table, number) in missing:
                return number - 1
    return None


def read_transactions(storage: Storage, table: str, version: int) -> dict[str, int]:
    """In one pass. Raises like :func:`read_log`."""
    versions: dict[str, int] = {}
    for actions in actions_up_to(storage, table, version, _TRANSACTION_COLUMNS):
        versions |= _transactions_in(actions)
    return versions


def _transactions_in(actions: Iterable[dict[str, Any]]) -> dict[str, int]:
    return {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action}


def _files_up_to(storage: Storage, table: str, version: int) -> tuple[list[str], list[str]]:
    names = [file.path for file in storage.files(f"{table}/_delta_log")]
    base, parts = _newest_checkpoint(names, version)
    commits = {int(m[1]): name for name in names if (m := _COMMIT.search(name)) and base < int(m[1]) <= version}
    if len(commits) != version - base:
        hint = "Read the table at a version within its retention, or stage again what was built from this one."
        raise _gone(table, version, hint)
    return parts, [commits[number] for number in sorted(commits)]


def newest_version(storage: Storage, table: str) -> int | None:
    names = [file.path for file in storage.files(f"{table}/_delta_log")]
    commits = [int(match[1]) for name in names if (match := _COMMIT.search(name))]
    return max([*commits, *checkpoints(names)], default=None)


def oldest_version(storage: Storage, table: str) -> int | None:
    names = [file.path for file in storage.files(f"{table}/_delta_log")]
    if any((match := _COMMIT.search(name)) and int(match[1]) == 0 for name in names):
        return 0
    checkpoints = {int(match[1]) for name in names if (match := _CHECKPOINT.search(name))}
    return min((each for each in checkpoints if _newest_checkpoint(names, each)[0] == each), default=None)


def open_table(storage: Storage, table: str, version: int | None = None) -> DeltaTable:
    """Raises what delta-rs raises, and :class:`~backfill_assets.lakehouse.catalog_managed.CatalogManaged`."""
    try:
        return DeltaTable(storage.uri(table), version, dict(storage.options))
    except DeltaError as error:
        newest = newest_version(storage, table) if _CATALOG_MANAGED in str(error) else None
        if newest is not None:
            actions_up_to(storage, table, newest, [])
        raise


def open_again(storage: Storage, table: str, version: int, known: DeltaTable | None) -> DeltaTable:
    """``known`` advances to ``version``, and reads only what is new."""
    if known is None or known.version() > version:
        return open_table(storage, table, version)
    if known.version() == version:  # what is cleaned up since must not be committed to
        return open_table(storage, table, version) if storage.missing([commit_file(table, version)]) else known
    try:
        known.load_as_version(version)
    except DeltaError:
        return open_table(storage, table, version)
    return known


def schema_at(storage: Storage, table: str, version: int) -> str:
    """Delta's JSON; raises :class:`VersionGone`."""
    try:
        handle = open_table(storage, table, version)
    except DeltaError as error:
        raise _gone(table, version, "Read the table at a version within its retention.") from error
    return str(handle.schema().to_json())


def _gone(table: str, version: int, hint: str) -> VersionGone:
    return VersionGone(
        f"Version {version} of {table} cannot be read any more: its Delta log was cleaned up.", hint=hint
    )


def _newest_checkpoint(names: Iterable[str], version: int) -> tuple[int, list[str]]:
    complete = [(number, list(parts)) for number, parts in checkpoints(names).items() if number <= version]
    return max(complete, default=(-1, []))


def checkpoints(names: Iterable[str]) -> dict[int, tuple[str, ...]]:
    parts_of: dict[tuple[int, int], list[str]] = {}
    found: dict[int, tuple[str, ...]] = {}
    for name in (name for name in names if ".checkpoint." in name):
        if match := _CHECKPOINT.search(name):
            parts_of.setdefault((int(match[1]), int(match[2] or 1)), []).append(name)
        elif match := _CHECKPOINT_2.search(name):
            found[int(match[1])] = (name,)
    found |= {number: tuple(parts) for (number, count), parts in parts_of.items() if len(parts) == count}
    return dict(sorted(found.items()))


def commits_back(storage: Storage, table: str, version: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Delta-rs's ``history()`` also lists commits newer than its handle, and numbers all wrongly."""
    for number, actions in actions_back(storage, table, version):
        yield number, next((each["commitInfo"] for each in actions if "commitInfo" in each), {})


def actions_back(
    storage: Storage, table: str, version: int, most: int | None = None
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    oldest = -1 if most is None else max(-1, version - most)
    for number in range(version, oldest, -1):
        path = commit_file(table, number)
        if storage.missing([path]):
            return
        yield number, storage.read_json_lines(path)


def apply_actions(
    active: dict[str, AddedFile],
    removed: dict[str, RemovedFile],
    actions: Iterable[dict[str, Any]],
    vectors: set[str] | None = None,
) -> None:
    """Apply one commit in place, removes first.

    ``vectors`` collects active files with a deletion vector, which may be purged later; without it one raises
    :class:`PublicationRefused`.
    """
    listed = list(actions)
    for action in listed:
        if remove := action.get("remove"):
            path = unquote(remove["path"])
            active.pop(path, None)
            (vectors or set()).discard(path)
            removed[path] = RemovedFile(path, int(remove.get("deletionTimestamp") or 0))
    for action in listed:
        if add := action.get("add"):
            file = _added_file(add)
            active[file.path] = file
            removed.pop(file.path, None)
            if add.get("deletionVector") and vectors is None:
                _refuse_vectors([file.path])
            elif add.get("deletionVector") and vectors is not None:
                vectors.add(file.path)


def _refuse_vectors(paths: Collection[str]) -> None:
    for path in sorted(paths)[:1]:
        raise PublicationRefused(
            f"The file {path} has a deletion vector, which no publication can carry.",
            hint="Set delta.enableDeletionVectors to false on the table and rewrite the file (REORG TABLE).",
        )


def _added_file(add: dict[str, Any]) -> AddedFile:
    partition = dict(add["partitionValues"] or {})
    return AddedFile(
        path=unquote(add["path"]) if "%" in add["path"] else add["path"],
        day=str(partition.get("day", "")),
        size=int(add["size"]),
        modified_ms=int(add["modificationTime"]),
        stats=add.get("stats") or "{}",
    )


# ------------------------------------------------------------------ statistics of a file, as an add action has them

_LONGEST_TEXT = 32
_LAST_CHARACTER = chr(0x10FFFF)


def statistics_json(
    rows: int, ends: Mapping[str, Mapping[str, str]] | None = None, nulls: Mapping[str, int] | None = None
) -> str:
    """``ends`` are JSON: decimals keep all digits."""
    parts = [f'"numRecords":{rows}']
    for kind, values in (ends or {}).items():
        parts.append(f'"{kind}":{{{",".join(f"{json.dumps(name)}:{value}" for name, value in values.items())}}}')
    if nulls is not None:
        parts.append(f'"nullCount":{json.dumps(nulls, separators=(",", ":"))}')
    return f"{{{','.join(parts)}}}"


def bound_as_json(value: object, *, up: bool) -> str | None:
    """The least value, or the greatest (``up``); None without bounds."""
    match value:
        case datetime():
            return json.dumps(_moment(value, up=up))
        case date():
            return json.dumps(str(value))
        case str():
            return json.dumps(_cut(value, up=up))
        case Decimal():
            return f"{value:f}"
        case bool() | int():
            return json.dumps(value)
        case _:
            return None


def _moment(value: datetime, *, up: bool) -> str:
    """Rounded outwards. ``strftime`` writes early years with fewer than four digits: readers would find no row."""
    rest = timedelta(microseconds=value.microsecond % 1000)
    whole = value.astimezone(UTC) - rest + timedelta(milliseconds=1 if up and rest else 0)
    return whole.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _cut(value: str, *, up: bool) -> str:
    """Like Delta's writers; the greatest exceeds all texts that begin like it."""
    if len(value) <= _LONGEST_TEXT:
        return value
    if not up:
        return value[:_LONGEST_TEXT]
    return value if value[_LONGEST_TEXT] == _LAST_CHARACTER else value[:_LONGEST_TEXT] + _LAST_CHARACTER
