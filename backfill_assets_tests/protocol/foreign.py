"""What others do to a table past the protocol, commit by commit: properties, features, an overwritten commit."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from backfill_assets.lakehouse.storage import Storage


def alter(storage: Storage, table: str, properties: Mapping[str, str | None]) -> int:
    """``ALTER TABLE ... SET TBLPROPERTIES`` as Spark commits it; None unsets one. The version that it made."""
    metadata = _newest(storage, table, "metaData")
    configuration = {**metadata["configuration"], **properties}
    kept = {key: value for key, value in configuration.items() if value is not None}
    return _commit(storage, table, {"metaData": {**metadata, "configuration": kept}})


def demand_feature(storage: Storage, table: str, feature: str) -> int:
    """The table demands a writer feature from now on. The version that it made."""
    features = DeltaTable(storage.uri(table)).protocol().writer_features or ["appendOnly", "invariants"]
    return _protocol(storage, table, [*features, feature])


def drop_feature(storage: Storage, table: str, feature: str) -> int:
    features = DeltaTable(storage.uri(table)).protocol().writer_features or []
    return _protocol(storage, table, [name for name in features if name != feature])


def give_to_catalog(storage: Storage, table: str, feature: str) -> int:
    """From now on a catalog decides which commits the table has. The version that it made."""
    features = {"readerFeatures": [feature], "writerFeatures": [feature, "inCommitTimestamp"]}
    return _commit(storage, table, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})


def delete_by_vector(storage: Storage, table: str) -> int:
    """A row of the newest file is deleted as Spark does it where the table has deletion vectors: the file stays."""
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 34}
    add = {**_newest(storage, table, "add"), "deletionVector": {**vector, "cardinality": 1}}
    return _commit(storage, table, {"add": add})


def overwrite(storage: Storage, table: str, version: int) -> None:
    """A writer without put-if-absent puts its own commit, which changes nothing, over ``version``."""
    path = Path(storage.uri(table), "_delta_log", f"{version:020d}.json")
    path.write_text(json.dumps({"commitInfo": {"operation": "foreign", "timestamp": int(time.time() * 1000)}}) + "\n")


def _protocol(storage: Storage, table: str, features: list[str]) -> int:
    return _commit(
        storage, table, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}}
    )


def _newest(storage: Storage, table: str, kind: str) -> dict[str, Any]:
    """The newest action of ``kind``; small tables have all their commits."""
    for commit in sorted(Path(storage.uri(table), "_delta_log").glob("*.json"), reverse=True):
        for line in commit.read_text().splitlines():
            if kind in (action := json.loads(line)):
                found: dict[str, Any] = action[kind]
                return found
    raise LookupError(f"{table} has no {kind}")


def _commit(storage: Storage, table: str, action: Mapping[str, Any]) -> int:
    version = DeltaTable(storage.uri(table)).version() + 1
    info = {"commitInfo": {"operation": "SET TBLPROPERTIES", "timestamp": int(time.time() * 1000)}}
    path = Path(storage.uri(table), "_delta_log", f"{version:020d}.json")
    path.write_text("".join(json.dumps(line) + "\n" for line in (info, action)))
    return version
