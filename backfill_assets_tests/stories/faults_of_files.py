"""Who knows nothing of publications: writers past the protocol, and disks that lose, cut and damage files."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from deltalake import DeltaTable, write_deltalake


def append(lakehouse: Path, table: str, *days: date) -> None:
    """Two rows of each day once more."""
    for day in days:
        there = DeltaTable(str(lakehouse / table))
        write_deltalake(there, there.to_pyarrow_table(filters=[("day", "=", day)]).slice(0, 2), mode="append")


def delete(lakehouse: Path, table: str, day: date, key: str) -> None:
    """The row with the first ``key`` of a day."""
    there = DeltaTable(str(lakehouse / table))
    there.delete(_first(there, day, key))


def update(lakehouse: Path, table: str, day: date, key: str, column: str) -> None:
    """Another figure in that row."""
    there = DeltaTable(str(lakehouse / table))
    there.update(updates={column: f"{column} + 1"}, predicate=_first(there, day, key))


def _first(there: DeltaTable, day: date, key: str) -> str:
    keys = there.to_pyarrow_table(columns=[key], filters=[("day", "=", day)])[key].to_pylist()
    return f"day = '{day}' and {key} = '{min(keys)}'"


def lose(lakehouse: Path, table: str, day: date) -> None:
    """A disk loses the files that main names."""
    for path in files(lakehouse, table, day):
        path.unlink()


def cut(lakehouse: Path, table: str, day: date) -> None:
    """Half of each is there."""
    for path in files(lakehouse, table, day):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damage(lakehouse: Path, table: str, day: date) -> None:
    """They have their sizes, and other bytes."""
    for path in files(lakehouse, table, day):
        path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))


def files(lakehouse: Path, table: str, day: date) -> list[Path]:
    found = [Path(path) for path in DeltaTable(str(lakehouse / table)).file_uris() if f"day={day}" in path]
    assert found
    return found


def lose_a_commit(lakehouse: Path, table: str) -> None:
    """The newest one but one of its Delta log."""
    sorted((lakehouse / table / "_delta_log").glob("*.json"))[-2].unlink()
