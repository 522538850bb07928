from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from backfill_assets.days import Cadence, day_or_none
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.delta_log import (
    NO_FILES,
    AddedFile,
    LogState,
    actions_back,
    newest_version,
    read_declaration,
    read_log,
)
from backfill_assets.lakehouse.foreign_commits import ForeignCommit, commit_of
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, PUBLICATION_KEY, write_problems
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.text import format_are, format_count

_MOST_COMMITS = 400
_CHECKPOINT_OF_PARTS = re.compile(r"\.checkpoint\.[0-9a-f]{8}-[0-9a-f-]+\.(?:json|parquet)$")
_KEEPING = ("VACUUM", "OPTIMIZE", "REORG")
_ELSEWHERE = re.compile(r"^/|^[a-zA-Z][a-zA-Z0-9+.-]*:")
_SETTING = "ALTER TABLE ... SET TBLPROPERTIES"


@dataclass(frozen=True)
class TableToAdopt:
    """``storage`` is the parent folder."""

    storage: Storage
    name: str
    version: int
    schema: Mapping[str, Any] = field(repr=False)
    files: Mapping[date, tuple[AddedFile, ...]] = field(repr=False)
    problems: tuple[str, ...] = ()
    """With remedies in brackets."""
    commits: tuple[ForeignCommit, ...] = ()

    @property
    def uri(self) -> str:
        return self.storage.uri(self.name)

    @property
    def schema_json(self) -> str:
        return json.dumps(self.schema)

    def written_since(self, moment: datetime) -> list[ForeignCommit]:
        return [each for each in self.commits if each.at is None or each.at > moment]

    def without_problems(self, table: str) -> TableToAdopt:
        if not self.problems:
            return self
        raise PublicationRefused(
            f"{self.uri} cannot be adopted as {table}: {'; '.join(self.problems)}.",
            hint="Change it as it says in brackets, then run this again. Nothing was changed.",
        )


def read_table_to_adopt(
    storage: Storage,
    name: str,
    *,
    declared: Mapping[str, Any],
    required: Collection[str],
    cadence: Cadence,
    today: date,
) -> TableToAdopt:
    """``declared`` is the contract's schema as Delta's JSON, parsed; ``required`` are not nullable. Raises
    :class:`InvalidRequest` without a table.
    """
    version = newest_version(storage, name)
    if version is None:
        raise InvalidRequest(
            f"There is no Delta table in {storage.uri(name)}: it has no _delta_log.",
            hint="Name the folder of the table itself. A folder of Parquet becomes one by CONVERT TO DELTA.",
        )
    if why := _of_checkpoints(storage, name):
        return TableToAdopt(storage, name, version, {"fields": []}, {}, (why,))
    protocol, metadata = read_declaration(storage, name, version)
    schema = json.loads(metadata["schemaString"])
    state, unreadable = _state(storage, name, version)
    properties = metadata["configuration"]
    problems = [
        *_of_partitions(metadata.get("partitionColumns") or ()),
        *write_problems(
            int(protocol.get("minWriterVersion", 0)), protocol.get("writerFeatures"), properties, schema, removes=True
        ),
        *_of_deletion_vectors(properties, unreadable),
        *fit_problems(schema, declared, required),
        *_of_files(storage, name, state, cadence, today),
    ]
    files = {day: tuple(sorted(some)) for day, some in sorted(state.files_by_day().items())}
    return TableToAdopt(storage, name, version, schema, files, tuple(problems), tuple(_writers(storage, name, version)))


def _state(storage: Storage, name: str, version: int) -> tuple[LogState, str]:
    try:
        return read_log(storage, name, version), ""
    except PublicationRefused as error:
        return NO_FILES, error.message


def _of_checkpoints(storage: Storage, name: str) -> str:
    if any(_CHECKPOINT_OF_PARTS.search(file.path) for file in storage.files(f"{name}/_delta_log")):
        return "it has checkpoints of the second kind, not read here (ALTER TABLE ... DROP FEATURE v2Checkpoint)"
    return ""


def _of_partitions(columns: Collection[str]) -> Iterator[str]:
    if list(columns) != [PARTITION_COLUMN]:
        by = f"by {', '.join(columns)}" if columns else "by nothing"
        yield (
            f"it is partitioned {by}, and a table here by {PARTITION_COLUMN} alone (write it anew: CREATE TABLE ... "
            f"PARTITIONED BY ({PARTITION_COLUMN}) AS SELECT)"
        )


def _of_deletion_vectors(properties: Mapping[str, str], unreadable: str) -> Iterator[str]:
    off = f"{_SETTING} ('delta.enableDeletionVectors' = 'false')"
    if unreadable:
        yield f"{unreadable.rstrip('.')} ({off}, then REORG TABLE ... APPLY (PURGE))"
    elif str(properties.get("delta.enableDeletionVectors", "")).lower() == "true":
        yield f"delta.enableDeletionVectors=true has any UPDATE write what no publication can carry ({off})"


def fit_problems(table: Mapping[str, Any], declared: Mapping[str, Any], required: Collection[str]) -> list[str]:
    """Why rows of ``table`` and of the contract ``declared`` cannot be in one table. Pure.

    Order is free, nullable columns may be absent. Other differences would refuse a rebuilt day, or lose a column.
    """
    ours = {column["name"]: column for column in declared["fields"]}
    theirs = {column["name"]: column for column in table["fields"]}
    cases = {name.lower(): name for name in ours}
    problems: list[str] = []
    for name, column in theirs.items():
        if name in ours:
            problems += _of_column(name, column, ours[name])
        elif other := cases.get(name.lower()):
            problems.append(f"its column {name} is declared as {other} (declare it by its very name)")
        else:
            problems.append(
                f"its column {name} is not declared, and a rebuilt day would lose it (declare {name} with "
                "nullable=True, and give it a value in the versions)"
            )
    there = {name.lower() for name in theirs}
    problems += [
        f"the declared column {name} is not there and may not be null (declare it with nullable=True, or add it and "
        "fill it: ALTER TABLE ... ADD COLUMNS)"
        for name in ours
        if name.lower() not in there and name in required
    ]
    return problems


def _of_column(name: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    if theirs["type"] != ours["type"]:
        within = " in what its parts may be" if _nullable(theirs["type"]) == _nullable(ours["type"]) else ""
        yield (
            f"its column {name} is {_type(theirs['type'])} and is declared as {_type(ours['type'])}{within} (declare "
            "the type that it has, or write the table anew)"
        )
    if not theirs["nullable"]:
        yield (
            f"its column {name} is NOT NULL, and what may be null is for the contract to say (ALTER TABLE ... ALTER "
            f"COLUMN {name} DROP NOT NULL)"
        )


def _type(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)


def _nullable(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    flags = {"containsNull": True, "valueContainsNull": True, "nullable": True}
    found = {key: flags.get(key, _nullable(value)) for key, value in kind.items()}
    if "fields" in kind:
        found["fields"] = [_nullable(each) for each in kind["fields"]]
    return found


def _of_files(storage: Storage, name: str, state: LogState, cadence: Cadence, today: date) -> Iterator[str]:
    files = list(state.active.values())
    days = {file: day_or_none(file.day) for file in files}
    if without := [file for file, day in days.items() if day is None]:
        yield f"{format_are(len(without), 'file')} of no day (DELETE FROM ... WHERE {PARTITION_COLUMN} IS NULL)"  # noqa: S608 - for people
    known = {day for day in days.values() if day is not None}
    if late := sorted(day for day in known if day >= today):
        yield f"{late[0]} has not ended yet, and would stay as it is (adopt the table tomorrow, or DELETE this day)"
    if within := sorted(day for day in known if cadence.start(day) != day):
        yield f"{within[0]} is not the first day of a {cadence.noun} ({PARTITION_COLUMN} is the first day of a period)"
    if elsewhere := [file for file in files if _ELSEWHERE.search(file.path)]:
        yield (
            f"{format_are(len(elsewhere), 'file')} in another table's folder, as in a shallow clone (CREATE TABLE ... "
            f"AS SELECT, or adopt the table that has them: {elsewhere[0].path})"
        )
    elif lost := storage.missing(f"{name}/{file.path}" for file in files):
        yield f"{format_are(len(lost), 'file')} gone, for example {lost[0]} (RESTORE or FSCK the table)"
    if unknown := [file for file in files if '"numRecords"' not in file.stats]:
        yield (
            f"{format_count(len(unknown), 'file')} without statistics, for example {unknown[0].path} (write the day "
            "anew, or CONVERT TO DELTA with statistics)"
        )


def _writers(storage: Storage, name: str, version: int) -> Iterator[ForeignCommit]:
    for number, actions in actions_back(storage, name, version, _MOST_COMMITS):
        info: dict[str, Any] = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
        moves = any("add" in each or "remove" in each for each in actions)
        if PUBLICATION_KEY not in info and (moves or str(info.get("operation", "")).startswith(_KEEPING)):
            yield commit_of(number, info)
