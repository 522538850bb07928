"""``readers.sql``: views of all tables as one closed entry of the log has them, for readers who know of no log.

One rename replaces it after each publication: whoever runs it in DuckDB, or in a BI tool's first statement, has one
moment. A lakehouse has it from :func:`keep_readers_file` on, until it is deleted. Only views of tables with another
version are written anew. Files of a replaced view stay for the rollback window.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import AddedFile, LogState, read_log, schema_at
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, MainTable, VersionPassed
from backfill_assets.lakehouse.retry import Retry, warn
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import HEAD, Head, PublicationLog

FILE = "readers.sql"
_PROPERTY, _ON = "backfill.readers", "on"
_FIRST = """\
-- Every table as one publication left it. Written anew with each publication: run it again to see the newest.
-- DuckDB: duckdb -init readers.sql; in Python: duckdb.sql(open("readers.sql").read())
-- On S3, before it: INSTALL httpfs; LOAD httpfs; CREATE SECRET (TYPE s3, PROVIDER credential_chain);
BEGIN;
"""
_LAST = "COMMIT;\n"
_SECTION = "-- table "
_PATTERN = re.compile(r"[*?\[]")
"""DuckDB expands these, and cannot escape all."""
_KEY = re.compile(r"/([^/=]+)=")
_KINDS: Mapping[str, str] = {
    "string": "VARCHAR",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
Schemas = Mapping[str, str]


def is_kept(head: Head) -> bool:
    return str(head.handle.metadata().configuration.get(_PROPERTY)) == _ON


def keep_readers_file(log: PublicationLog) -> str:
    """Write it now, and with each publication until it is deleted; returns its address."""
    retry = Retry("Noting on the log that readers.sql is kept")
    while not is_kept(head := log.head()):
        carried = CommitProperties(custom_metadata={HEAD: head.state.model_dump_json()}, max_commit_retries=0)
        try:
            head.handle.alter.set_table_properties(
                {_PROPERTY: _ON}, raise_if_not_exists=False, commit_properties=carried
            )
        except CommitFailedError:
            retry.lost("other writers append to the log")
    _renew(log, log.head().state.versions)
    return log.storage.uri(FILE)


def renew(log: PublicationLog, versions: Mapping[str, int], mains: Mapping[str, MainTable], schemas: Schemas) -> None:
    """Write it after an entry that was closed at ``versions``.

    ``mains``, which were read for it, and ``schemas`` are of its own tables. A failure is told and raises nothing:
    the next publication writes it.
    """
    try:
        if log.storage.exists(FILE):
            _renew(log, versions, mains, schemas)
    except (BackfillError, DeltaError, OSError) as error:
        warn(f"{log.storage.uri(FILE)} was not renewed, and shows an earlier publication: {error}")


def _renew(
    log: PublicationLog,
    versions: Mapping[str, int],
    mains: Mapping[str, MainTable] | None = None,
    schemas: Schemas | None = None,
) -> None:
    """Whoever wrote last looks once more: of two at once, the later entry stays."""
    while True:
        written = _written(log.storage)
        sections = [
            written[table]
            if table in written and written[table].startswith(_title(table, version))
            else _section(log.storage, table, version, (mains or {}).get(table), schemas or {})
            for table, version in sorted(versions.items())
        ]
        log.storage.replace_bytes(FILE, "".join([_FIRST, *sections, _LAST]).encode(), kept=False)
        newest = log.head().state.versions
        if newest == versions:
            return
        versions = newest


def _written(storage: Storage) -> dict[str, str]:
    try:
        text = storage.read_bytes(FILE).decode()
    except FileNotFoundError:
        return {}
    _, *sections = text.removesuffix(_LAST).split(_SECTION)
    return {section.split(" ", 1)[0]: f"{_SECTION}{section}" for section in sections}


def _title(table: str, version: int) -> str:
    return f"{_SECTION}{table} at version {version}\n"


def _section(storage: Storage, table: str, version: int, main: MainTable | None, schemas: Schemas) -> str:
    try:
        state = _state_at(storage, table, version, main)
        schema = schemas[table] if table in schemas else schema_at(storage, table, version)
    except BackfillError as error:
        return f"{_SECTION}{table} has no view: {' '.join(error.message.split())}\n"
    return _title(table, version) + view_of(storage, table, schema, state.active.values())


def _state_at(storage: Storage, table: str, version: int, main: MainTable | None) -> LogState:
    """Uses ``main``, which is read, unless others have committed since."""
    if main is not None and main.version == version:
        with suppress(VersionPassed):
            return main.state()
    return read_log(storage, table, version)


def view_of(storage: Storage, table: str, schema: str, files: Iterable[AddedFile]) -> str:
    """SQL of a view on exactly ``files``. A column that a file lacks is null; ``day`` is that of the add action."""
    root = storage.uri(table) if not storage.is_folder else str(Path(storage.uri(table)).absolute())
    of_day = sorted([(file.day, f"{root}/{file.path}") for file in files])
    if _PATTERN.search(" ".join([path for _, path in of_day])):
        return "-- Its files have *, ? or [ in their names, which DuckDB takes for patterns: backfill sql reads them.\n"
    fields = json.loads(schema)["fields"]
    columns = {str(each["name"]): duckdb_type(each["type"]) for each in fields}
    none = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns.items())
    chosen = ", ".join(f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in columns.items())
    parts = [f"SELECT {none} WHERE false", *_reads(of_day)]
    return (
        f"CREATE OR REPLACE VIEW {quoted(table)} AS SELECT {chosen} FROM (\n"  # noqa: S608 - names are quoted
        + "\nUNION ALL BY NAME ".join(parts)
        + "\n);\n"
    )


def _reads(of_day: Iterable[tuple[str, str]]) -> list[str]:
    """One for all files with the same keys in their paths: DuckDB then opens only those of wanted days."""
    by_keys: dict[tuple[str, ...], list[str]] = {}
    by_day: dict[str, list[str]] = {}
    keys_of = lru_cache(_keys_of)
    for day, path in of_day:
        above, found, name = path.partition(f"/{PARTITION_COLUMN}={day}/")
        if found and "/" not in name:
            by_keys.setdefault(keys_of(above), []).append(path)
        else:
            by_day.setdefault(day, []).append(path)
    hive = f"hive_partitioning = true, hive_types = {{'{PARTITION_COLUMN}': DATE}}"
    found_by_keys = [_read(paths, hive) for paths in by_keys.values()]
    return found_by_keys + [_read(paths, "hive_partitioning = false", _date(day)) for day, paths in by_day.items()]


def _keys_of(folder: str) -> tuple[str, ...]:
    return tuple(_KEY.findall(folder))


def _read(paths: Iterable[str], how: str, day: str = "") -> str:
    also = f", {day} AS {PARTITION_COLUMN}" if day else ""
    return f"SELECT *{also} FROM read_parquet({_listed(paths)}, {how}, union_by_name = true)"  # noqa: S608


def _date(day: str) -> str:
    return f"DATE {literal(day)}" if day else "CAST(NULL AS DATE)"


def _listed(paths: Iterable[str]) -> str:
    inner = "\n".join(paths).replace("'", "''").replace("\n", "',\n'")
    return f"[\n'{inner}'\n]"


def literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def duckdb_type(kind: Any) -> str:
    if isinstance(kind, str):
        return _KINDS.get(kind, kind.upper())
    match kind["type"]:
        case "array":
            return f"{duckdb_type(kind['elementType'])}[]"
        case "map":
            return f"MAP({duckdb_type(kind['keyType'])}, {duckdb_type(kind['valueType'])})"
        case _:
            inner = ", ".join(f"{quoted(each['name'])} {duckdb_type(each['type'])}" for each in kind["fields"])
            return f"STRUCT({inner})"
