"""DuckLake, with the catalog that it recommends for several processes on one machine: SQLite.

All tables are rewritten in one transaction, and read in one. Runs in the environment of ``peers.txt``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import duckdb

from benchmarks.killed.contract import FIRST, LAST, ROWS, TABLES, Held, commits, held, main, replaces


class DuckLake:
    """One connection for each process."""

    def __init__(self, home: Path) -> None:
        self.db = duckdb.connect()
        for extension in ("ducklake", "sqlite_scanner"):
            folder = Path(str(import_module(f"duckdb_extension_{extension}").__file__)).parent
            (file,) = folder.rglob("*.duckdb_extension")
            self.db.execute(f"LOAD '{file}'")
        self.db.execute(f"ATTACH 'ducklake:sqlite:{home}/catalog.sqlite' AS lake (DATA_PATH '{home}/data/'); USE lake")

    def set_up(self) -> None:
        for table in TABLES:
            self.db.execute(f"CREATE TABLE {table} (day DATE, tag VARCHAR)")
            self.db.execute(f"ALTER TABLE {table} SET PARTITIONED BY (day)")
        self.rewrite("setup")

    def reads(self) -> Mapping[str, Callable[[], Held]]:
        return {"pinned": self._read}

    def rewrite(self, tag: str) -> None:
        self.db.execute("BEGIN TRANSACTION")
        replaces(self._rows())
        for table in TABLES:
            self.db.execute(f"DELETE FROM {table} WHERE day BETWEEN '{FIRST}' AND '{LAST}'")  # noqa: S608 our own words
            days = f"range(DATE '{FIRST}', DATE '{LAST}' + 1, INTERVAL 1 DAY)"
            self.db.execute(f"INSERT INTO {table} SELECT d::DATE, '{tag}' FROM {days} t(d), range({ROWS})")  # noqa: S608
        commits()
        self.db.execute("COMMIT")

    def routine(self) -> None:
        """There is none: a transaction that was not committed never was."""

    def litter(self) -> int:
        """``ducklake_delete_orphaned_files`` deletes them, when somebody calls it."""
        call = "CALL ducklake_delete_orphaned_files('lake', dry_run => true, cleanup_all => true)"
        return len(self.db.execute(call).fetchall())

    def _read(self) -> Held:
        self.db.execute("BEGIN TRANSACTION")
        try:
            return self._rows()
        finally:
            self.db.execute("ROLLBACK")

    def _rows(self) -> Held:
        counted = {
            table: self.db.execute(f"SELECT day, tag, count(*) FROM {table} GROUP BY ALL").fetchall()  # noqa: S608
            for table in TABLES
        }
        return held((table, *row) for table, rows in counted.items() for row in rows)


if __name__ == "__main__":
    main(DuckLake)
