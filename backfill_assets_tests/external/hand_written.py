"""Delta tables of others whose log is written by hand: what engines write that delta-rs does not. No data file is read.

See https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.days import DayRange

Action = dict[str, Any]
_SIDECAR = pa.schema(
    [
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", pa.map_(pa.string(), pa.string())),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    (
                        "deletionVector",
                        pa.struct(
                            [
                                ("storageType", pa.string()),
                                ("pathOrInlineDv", pa.string()),
                                ("offset", pa.int32()),
                                ("sizeInBytes", pa.int32()),
                                ("cardinality", pa.int64()),
                            ]
                        ),
                    ),
                ]
            ),
        )
    ]
)


def column(name: str, kind: object, physical: str = "") -> Action:
    metadata = {"delta.columnMapping.physicalName": physical} if physical else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def add(
    path: str,
    least: str | None = None,
    greatest: str | None = None,
    *,
    by: str = "order_date",
    rows: int = 1,
    changes: bool = True,
    **more: object,
) -> Action:
    """A file with statistics of the column ``by``, or with none of it; ``more`` are fields of the action."""
    stats: Action = {"numRecords": rows}
    if least is not None:
        stats |= {"minValues": {by: least}, "maxValues": {by: greatest or least}, "nullCount": {by: 0}}
    known = {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": changes}
    return {"add": {**known, "stats": json.dumps(stats), **more}}


def remove(path: str, *, changes: bool = True) -> Action:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": changes}}


def vector(name: str, offset: int | None = 1, cardinality: int = 1) -> Action:
    """A deletion vector of ``cardinality`` rows, as a field of a file."""
    at = {} if offset is None else {"offset": offset}
    return {
        "deletionVector": {
            "storageType": "u",
            "pathOrInlineDv": name,
            "sizeInBytes": 9,
            "cardinality": cardinality,
            **at,
        }
    }


@dataclass
class HandWritten:
    """A table at ``location`` with the ``columns``, made with the first commit."""

    location: Path
    columns: Sequence[Action]
    partitioned_by: tuple[str, ...] = ()
    id: str = "one"
    day: date = date(2025, 1, 31)
    """Of each commit, in UTC."""
    version: int = -1

    def commit(self, *actions: Action) -> int:
        """Write one version; gives its number."""
        self.version += 1
        first = [self.protocol, self.metadata()] if self.version == 0 else []
        at = datetime.combine(self.day, datetime.min.time(), UTC).timestamp() * 1000
        lines = [{"commitInfo": {"timestamp": int(at)}}, *first, *actions]
        self.log.mkdir(parents=True, exist_ok=True)
        self.path(self.version).write_text("\n".join(map(json.dumps, lines)))
        return self.version

    @property
    def protocol(self) -> Action:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}

    def metadata(self) -> Action:
        schema = json.dumps({"type": "struct", "fields": list(self.columns)})
        return {
            "metaData": {
                "id": self.id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": list(self.partitioned_by),
                "configuration": {},
            }
        }

    @property
    def log(self) -> Path:
        return self.location / "_delta_log"

    def path(self, version: int) -> Path:
        return self.log / f"{version:020d}.json"

    def checkpoint_2(self, *adds: Action, before: bool = True) -> None:
        """A checkpoint of version 2 with a sidecar; commits ``before`` it are cleaned up."""
        sidecar = "016ae953-37a9-438e-8683-9a9a4a79a395.parquet"
        (self.log / "_sidecars").mkdir()
        rows = [
            {"add": {**each["add"], "partitionValues": list(each["add"]["partitionValues"].items())}} for each in adds
        ]
        pq.write_table(pa.Table.from_pylist(rows, _SIDECAR), self.log / "_sidecars" / sidecar)
        lines = [
            {"checkpointMetadata": {"version": self.version}},
            self.protocol,
            self.metadata(),
            {"sidecar": {"path": sidecar, "sizeInBytes": 1, "modificationTime": 1, "tags": {}}},
        ]
        name = f"{self.version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
        (self.log / name).write_text("\n".join(map(json.dumps, lines)))
        if before:
            for version in range(self.version + 1):
                self.path(version).unlink(missing_ok=True)


def spans(files: Sequence[Any]) -> Mapping[str, DayRange | None]:
    """What files touch, by their identities."""
    return {each.identity: each.touches for each in files}
