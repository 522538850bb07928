"""A Delta table of others, by its log (https://github.com/delta-io/delta/blob/master/PROTOCOL.md). Spark reads rows:
deletion vectors, column mapping, type widening and clustering are allowed.
"""

from __future__ import annotations

import json
from base64 import b85decode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.external.files import ExternalFile
from backfill_assets.external.table_version import TableVersion, day_in
from backfill_assets.lakehouse.delta_log import (
    Actions,
    VersionGone,
    actions_back,
    actions_up_to,
    newest_version,
    oldest_version,
)
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.external_table import ExternalTable

_COLUMNS = (
    *(f"add.{name}" for name in ("path", "partitionValues", "size", "stats", "deletionVector")),
    *(f"metaData.{name}" for name in ("id", "schemaString", "partitionColumns")),
)
_PHYSICAL = "delta.columnMapping.physicalName"
_DAYS_ARE = ("date", "timestamp", "timestamp_ntz", "string")
_STATISTICS_END = timedelta(milliseconds=1)
"""Statistics have milliseconds."""
_MOST_VERSIONS_BEHIND = 100
_ID_LENGTH = 20
_Z85 = str.maketrans(
    f"{digits}{ascii_lowercase}{ascii_uppercase}.-:+=^!/*?&<>()[]{{}}@%$#",
    f"{digits}{ascii_uppercase}{ascii_lowercase}!#$%&()*+-;<=>?@^_`{{|}}~",
)
_ANY_ZONE = timedelta(days=1)
"""Partitions' moments may be in any zone."""


@dataclass(frozen=True)
class DeltaTableOfOthers:
    external: ExternalTable

    @cached_property
    def storage(self) -> Storage:
        return Storage(self.external.location.rstrip("/").rpartition("/")[0] or "/")

    @cached_property
    def folder(self) -> str:
        return self.external.location.rstrip("/").rpartition("/")[2]

    @property
    def spark_uri(self) -> str:
        return self.storage.spark_uri(self.folder)

    def newest(self) -> int:
        """Raises :class:`LakehouseUnusable` without a table."""
        version = newest_version(self.storage, self.folder)
        if version is None:
            raise LakehouseUnusable(
                f"{self.external.name}: there is no Delta table at {self.external.location}.",
                hint="Correct the location of the ExternalTable, or look whether its storage is mounted.",
            )
        return version

    def id_at(self, version: int) -> str:
        """Another id: the table was created again."""
        found = ""
        for actions in actions_up_to(self.storage, self.folder, version, ["metaData.id"]):
            for action in actions:
                found = (action.get("metaData") or {}).get("id") or found
        return found

    def at(self, version: int) -> TableVersion:
        """Raises :class:`VersionGone` before the log's start."""
        return self._replay(version).state()

    def since(self, version: int, newest: int) -> tuple[TableVersion, list[ExternalFile] | None]:
        """The ``newest`` version, and files with changed rows since; None after a clean-up, if the table was created
        again, or a read column mapped to another.
        """
        try:
            replay = self._replay(version)
            commits = dict(actions_back(self.storage, self.folder, newest, newest - version))
            if len(commits) < newest - version:
                return self.at(newest), None
        except VersionGone:
            return self.at(newest), None
        before, touched = replay.read_from, list[ExternalFile]()
        for number in sorted(commits):
            touched += replay.apply(commits[number])
        return replay.state(newest), touched if replay.read_from == before else None

    def is_worth_a_record(self, known: int, newest: int) -> bool:
        """If no day moves, once a day, or after many versions: others clean up old ones."""
        before = self.committed_on(known)
        return newest - known > _MOST_VERSIONS_BEHIND or before is None or before != self.committed_on(newest)

    def history(self, version: int) -> str:
        oldest = oldest_version(self.storage, self.folder)
        if oldest is None:
            return f"version {version}; its log cannot be read now"
        since = self.committed_on(oldest)
        return f"version {version}; its own history goes back to {oldest}" + (f", of {since}" if since else "")

    def committed_on(self, version: int) -> date | None:
        for _, actions in actions_back(self.storage, self.folder, version, 1):
            for action in actions:
                if at := (action.get("commitInfo") or {}).get("timestamp"):
                    return datetime.fromtimestamp(int(at) / 1000, UTC).date()
        return None

    def cleaned_up(self, version: int, days: Collection[date]) -> str:
        """A file of ``days`` that is gone, or empty."""
        if version >= self.newest():
            return ""
        wanted = self._replay(version).files_of(days)
        return next(iter(self.storage.missing([f"{self.folder}/{path}" for path in wanted])), "")

    def _replay(self, version: int) -> _Replay:
        replay = _Replay(self.external, version)
        for actions in actions_up_to(self.storage, self.folder, version, _COLUMNS):
            replay.apply(actions)
        return replay


@dataclass
class _Replay:
    external: ExternalTable
    version: int
    id: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    partitioned_by: tuple[str, ...] = ()
    active: dict[str, ExternalFile] = field(default_factory=dict)
    vectors: dict[str, str] = field(default_factory=dict)

    def apply(self, actions: Actions) -> list[ExternalFile]:
        """One commit, or part of a checkpoint; returns files with changed rows."""
        touched: list[ExternalFile] = []
        for action in actions:
            if meta := action.get("metaData"):
                self.id, self.schema = meta["id"], json.loads(meta["schemaString"])
                self.partitioned_by = tuple(meta.get("partitionColumns") or ())
        for remove in (action["remove"] for action in actions if action.get("remove")):
            gone = self.active.pop(remove["path"], None)
            if gone is not None and remove.get("dataChange", True):
                touched.append(gone)
        for add in (action["add"] for action in actions if action.get("add")):
            file = self._file(add)
            self.active[add["path"]] = file
            if add.get("dataChange", True):
                touched.append(file)
        return touched

    def state(self, version: int | None = None) -> TableVersion:
        types = {each["name"]: _type(each["type"]) for each in self.schema["fields"]}
        at = self.version if version is None else version
        _, mapped = self.read_from
        files = self.active.values()
        named = (replace(each, identity=f"{each.identity} {mapped}") for each in files) if mapped else files
        return TableVersion(self.id, at, tuple(named), types)

    @property
    def read_from(self) -> tuple[str, str]:
        """Id, and physical names of mapped columns: a dropped column's name can go to another, changing rows and no
        file.
        """
        wanted = {each.lower() for each in (*self.external.columns.values(), self.external.day)}
        read = (each for each in self.schema.get("fields", ()) if each["name"].lower() in wanted)
        names = {each["name"].lower(): (each.get("metadata") or {}).get(_PHYSICAL, each["name"]) for each in read}
        mapped = sorted(f"{name}={there}" for name, there in names.items() if there.lower() != name)
        return self.id, " ".join(mapped)

    def files_of(self, days: Collection[date]) -> list[str]:
        found = list[str]()
        for path, file in self.active.items():
            touches = not file.without_days and (file.touches is None or any(day in file.touches for day in days))
            is_elsewhere = path.startswith("/") or ":" in path
            found += [*([] if is_elsewhere else [unquote(path)]), self.vectors[path]] if touches else []
        return [path for path in found if path]

    @property
    def _day(self) -> Mapping[str, Any]:
        wanted = self.external.day.lower()
        found = next((each for each in self.schema["fields"] if each["name"].lower() == wanted), None)
        if found is None or found["type"] not in _DAYS_ARE:
            is_there = f"{self.external.day!r} is a {_type(found['type'])} there" if found else "it is not there"
            raise InvalidRequest(
                f"{self.external.name}: the column {self.external.day!r} cannot say the day of a row: {is_there}.",
                hint=f"Name a date, a moment, or text that begins with one: {', '.join(_names(self.schema))}.",
            )
        return dict(found)

    def _file(self, add: Mapping[str, Any]) -> ExternalFile:
        vector = add.get("deletionVector") or {}
        self.vectors[add["path"]] = _file_of(vector)
        identity = f"{add['path']} {vector['storageType']}{vector['pathOrInlineDv']}" if vector else add["path"]
        if vector.get("offset"):
            identity += f"@{vector['offset']}"
        stats = json.loads(add.get("stats") or "{}")
        rows = int(stats.get("numRecords") or 0)
        touches, without = self._touches(dict(add.get("partitionValues") or {}), stats)
        return ExternalFile(
            identity, max(rows - int(vector.get("cardinality") or 0), 0), int(add["size"]), touches, without
        )

    def _touches(self, partition: Mapping[str, str | None], stats: Mapping[str, Any]) -> tuple[DayRange | None, bool]:
        """The days, if known; whether no row has a day."""
        day = self._day
        name, kind = (day.get("metadata") or {}).get(_PHYSICAL, day["name"]), day["type"]
        if day["name"] in self.partitioned_by:
            value = partition.get(name)
            beyond = _ANY_ZONE if kind == "timestamp" else timedelta()
            return (None, True) if not value else (self._between(value, value, kind, beyond), False)
        nulls, rows = (stats.get("nullCount") or {}).get(name), stats.get("numRecords")
        if rows is not None and nulls == rows:
            return None, True
        least, greatest = ((stats.get(end) or {}).get(name) for end in ("minValues", "maxValues"))
        if least is None or greatest is None:
            return None, False
        return self._between(least, greatest, kind), False

    def _between(self, least: str, greatest: str, kind: str, beyond: timedelta = timedelta()) -> DayRange | None:
        first = day_in(least, kind, self.external.event_zone, -beyond)
        last = day_in(greatest, kind, self.external.event_zone, beyond or _STATISTICS_END)
        return DayRange(first, last) if first and last and first <= last else None


def _file_of(vector: Mapping[str, Any]) -> str:
    if vector.get("storageType") != "u":
        return ""
    before, id = vector["pathOrInlineDv"][:-_ID_LENGTH], vector["pathOrInlineDv"][-_ID_LENGTH:]
    name = f"deletion_vector_{UUID(bytes=b85decode(id.translate(_Z85)))}.bin"
    return f"{before}/{name}" if before else name


def _type(kind: Any) -> str:
    return str(kind["type"]) if isinstance(kind, dict) else str(kind)


def _names(schema: Mapping[str, Any]) -> Iterable[str]:
    return (each["name"] for each in schema["fields"])
