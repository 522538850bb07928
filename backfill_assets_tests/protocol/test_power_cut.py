"""A real publication on a real disk, and the power lost after each thing that the disk was told to keep.

What it was not told is gone: names, or what the files behind them hold. Delta-rs and Arrow write as they always do.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from threading import Lock
from typing import Literal

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse import durable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.torn_commit import drop_torn_commit, is_torn
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets_tests.protocol.lake import D1, D2, Lake

pytestmark = pytest.mark.protocol
FIRST = {"fact": {D1: ["x"]}, "report": {D1: ["one"]}}
SECOND = {"fact": {D1: ["y"], D2: ["z"]}, "report": {D1: ["two"]}}
Names = Literal["when it is told to", "at once"]
"""When the disk keeps a name: POSIX promises no more than the first, and many disks do the second."""


@dataclass
class Disk:
    """Notes what a disk is told to keep below ``root``, and what it would have after each of these words."""

    root: Path
    told: list[tuple[Path, bytes | None, frozenset[Path]]] = field(default_factory=list)
    """Each file with what it holds, or a folder; and all names that were there then."""
    _one: Lock = field(default_factory=Lock)

    @contextmanager
    def watched(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", self._keep)
            yield

    def _keep(self, opened: int) -> None:
        path = Path(f"/proc/self/fd/{opened}").resolve()
        with self._one:
            there = frozenset(each.relative_to(self.root) for each in self.root.rglob("*"))
            self.told.append((path.relative_to(self.root), path.read_bytes() if path.is_file() else None, there))

    def left(self, count: int, names: Names, root: Path) -> Lake:
        """A lakehouse as the first ``count`` words have left it; a name whose file was not kept has an empty one."""
        contents: dict[Path, bytes] = {}
        known: dict[Path, set[Path]] = {}
        for path, held, there in self.told[:count]:
            if held is not None:
                contents[path] = held
            else:
                known[path] = {each for each in there if each.parent == path}
        everything = self.told[count - 1][2] if count else frozenset()
        self._make(
            Path(),
            root,
            {path: {e for e in everything if e.parent == path} for path in {Path(), *everything}}
            if names == "at once"
            else known,
            contents,
        )
        return Lake(root)

    def _make(self, folder: Path, root: Path, names: Mapping[Path, set[Path]], contents: Mapping[Path, bytes]) -> None:
        (root / folder).mkdir(parents=True, exist_ok=True)
        for each in names.get(folder, ()):
            if (self.root / each).is_dir():
                self._make(each, root, names, contents)
            else:
                (root / each).write_bytes(contents.get(each, b""))


@pytest.fixture
def played(tmp_path: Path) -> tuple[Disk, list[int]]:
    """Two publications of two tables, and how many words had been said when each was acknowledged."""
    lake, acknowledged = Lake(tmp_path / "lakehouse"), []
    lake.root.mkdir()
    disk = Disk(lake.root)
    with disk.watched():
        for id, rows in (("a", FIRST), ("b", SECOND)):
            lake.publish(id, rows)
            acknowledged.append(len(disk.told))
    return disk, acknowledged


def shown(lake: Lake) -> object:
    """What readers see who pin the log; nothing before there is one."""
    versions = lake.head.versions
    return {table: lake.rows(table, versions[table]) for table in FIRST} if versions else {}


def all_of(rows: Mapping[str, Mapping[date, list[str]]]) -> object:
    return {table: dict(days) for table, days in rows.items()}


NAMES = pytest.mark.parametrize("names", ["when it is told to", "at once"])


@NAMES
def test_what_was_acknowledged_outlives_the_power(played: tuple[Disk, list[int]], names: Names, tmp_path: Path) -> None:
    disk, acknowledged = played
    for count, rows in zip(acknowledged, (FIRST, SECOND), strict=True):
        lake = disk.left(count, names, tmp_path / str(count))
        assert lake.publisher().recover() == {} and shown(lake) == all_of(rows)


@pytest.mark.long
@NAMES
def test_wherever_the_power_is_lost_all_is_old_or_new_and_is_typed_again(
    played: tuple[Disk, list[int]], names: Names, tmp_path: Path
) -> None:
    disk, (first, last) = played
    for count in range(last + 1):
        lake = disk.left(count, names, tmp_path / str(count))
        lake.publisher().recover()
        may_be = (
            [all_of(SECOND)]
            if count == last
            else [all_of(FIRST), all_of(SECOND)]
            if count >= first
            else [{}, all_of(FIRST)]
        )
        assert shown(lake) in may_be, f"after {count} of {last}: {disk.told[count - 1][0]}"
        lake.publish("a-again" if count < first else "b-again", FIRST if count < first else SECOND)
        assert shown(lake) == all_of(FIRST if count < first else SECOND), count


@pytest.mark.parametrize("torn", ["", "half"])
@pytest.mark.parametrize(
    ("step", "table"), [(CrashPoint.PREPARED, "_publications"), (CrashPoint.TABLE_COMMITTED, "fact")]
)
def test_a_new_process_drops_what_the_disk_has_in_part(step: CrashPoint, table: str, torn: str, tmp_path: Path) -> None:
    """The entry was never on the log; or it is, and is finished."""
    lake = Lake(tmp_path)
    lake.publish("a", FIRST)
    lake.die(step, lake.request("b", SECOND))
    newest = max((tmp_path / table / "_delta_log").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2] if torn else b"")
    ended = lake.publisher().recover()
    assert ended == ({} if table == "_publications" else {"b": "done"})
    assert shown(lake) == all_of(SECOND if ended else FIRST)
    lake.publish("c", SECOND)
    assert shown(lake) == all_of(SECOND)


@pytest.mark.parametrize("write", [Storage.put_if_absent, Storage.replace_bytes])
def test_a_document_is_whole_before_it_has_its_name(write: Callable[..., object], tmp_path: Path) -> None:
    """And has it for good when that returns."""
    storage, disk, name = Storage(str(tmp_path)), Disk(tmp_path), Path("journal/1.json")
    with disk.watched():
        write(storage, str(name), b"approved")
    (_, held, there), *_, (folder, _, _) = disk.told
    assert held == b"approved" and name not in there
    assert (name, b"approved") in [(path, held) for path, held, _ in disk.told] and folder == Path()


def test_a_commit_that_is_not_whole_is_deleted_once_and_no_other_one(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.publish("a", FIRST)
    log, storage = tmp_path / "fact" / "_delta_log", Storage(str(tmp_path))
    whole, torn = log / f"{1:020d}.json", log / f"{2:020d}.json"
    torn.write_bytes(whole.read_bytes()[:-9])
    assert [drop_torn_commit(storage, "fact", version) for version in (2, 2, 1)] == [True, False, False]
    assert whole.exists() and not torn.exists()
    assert [is_torn(data) for data in (b"", b"\0\0", b'{"add"', whole.read_bytes())] == [True, True, True, False]


def test_a_file_that_took_the_place_of_a_torn_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has dropped it, and has committed, while this one was waiting for its turn."""
    file = tmp_path / "torn"
    file.write_bytes(b"")

    def waits(*_: object) -> None:
        file.unlink()
        file.write_bytes(b"whole")

    monkeypatch.setattr(fcntl, "flock", waits)
    assert not Storage(str(tmp_path)).delete_if("torn", is_torn)
    assert file.read_bytes() == b"whole"


def test_a_disk_is_told_nothing_where_that_is_not_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path)
    monkeypatch.setenv(durable.VARIABLE, "off")
    with disk.watched():
        Lake(tmp_path).publish("a", FIRST)
    assert disk.told == []
    monkeypatch.setenv(durable.VARIABLE, "perhaps")
    with pytest.raises(InvalidRequest, match="BACKFILL_SYNC is 'perhaps'"):
        durable.is_wanted()
