"""``replaceWhere``, one table after the other: delta-rs' overwrite with a predicate, which is the same commit.

Its documentation has it for rewriting a range of days, each call atomic on its table; readers open each table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.killed.contract import FIRST, LAST, TABLES, Held, commits, held, main, replaces, rows_of
from benchmarks.killed.delta_files import named_files, of_delta


class ReplaceWhere:
    """No state beside the tables."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def set_up(self) -> None:
        for table in TABLES:
            write_deltalake(str(self.home / table), _table("setup"), partition_by=["day"])

    def reads(self) -> Mapping[str, Callable[[], Held]]:
        return {"pinned": self._read}

    def rewrite(self, tag: str) -> None:
        replaces(self._read())
        commits()
        days = f"day >= '{FIRST}' AND day <= '{LAST}'"
        for table in TABLES:
            write_deltalake(str(self.home / table), _table(tag), mode="overwrite", predicate=days)

    def routine(self) -> None:
        """There is none: who has to rewrite the tables again is a person, or a scheduler that retries."""

    def litter(self) -> int:
        """``VACUUM`` deletes them after its retention."""
        there = {
            (table, str(path.relative_to(self.home / table)))
            for table in TABLES
            for path in (self.home / table).glob("day=*/*.parquet")
        }
        return len(there - {(table, path) for table in TABLES for path in named_files(self.home / table)})

    def _read(self) -> Held:
        return held(row for table in TABLES for row in of_delta(table, DeltaTable(str(self.home / table))))


def _table(tag: str) -> pa.Table:
    rows = rows_of(tag)
    columns = {
        "day": pa.array([day for day, _ in rows], pa.date32()),
        "name": pa.array([f"{tag}/{n}" for n in range(len(rows))]),
    }
    return pa.table(columns)


if __name__ == "__main__":
    main(ReplaceWhere)
