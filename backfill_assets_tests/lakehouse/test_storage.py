"""Files below a root: errors in words, and two processes at one file."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError
from pyarrow import fs

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.disk import explain_failure
from backfill_assets.lakehouse.storage import Storage


def test_a_full_disk_is_said_in_words(tmp_path: Path) -> None:
    """The file and what to do, instead of an error number."""
    (tmp_path / "file").symlink_to("/dev/full")
    with pytest.raises(LakehouseUnusable, match=r"(?s)/file cannot be written: the disk is full.*Free some space"):
        Storage(str(tmp_path)).write_bytes("file", b"x" * 100_000)


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "Permission denied"),
        OSError(30, "Read-only file system"),
        DeltaError("Generic LocalFileSystem error: Unable to rename file: Permission denied (os error 13)"),
        OSError("When reading information for key: AWS Error ACCESS_DENIED: AccessDenied"),
    ],
)
def test_denied_access_is_said_in_words(error: Exception) -> None:
    """Whichever library met it."""
    told = r"(?s)t cannot be written: access is denied.*permissions"
    with pytest.raises(LakehouseUnusable, match=told), explain_failure("t cannot be written"):
        raise error


def test_two_processes_delete_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second finds it gone between looking and deleting, which is what it wanted."""
    storage = Storage(str(tmp_path))
    storage.write_bytes("f", b"x")

    class Slow:
        """The other process is faster in between."""

        def get_file_info(self, path: str) -> fs.FileInfo:
            info = fs.LocalFileSystem().get_file_info(path)
            Path(path).unlink()
            return info

        def delete_file(self, path: str) -> None:
            fs.LocalFileSystem().delete_file(path)

    monkeypatch.setattr(Storage, "_open", lambda self, path: (Slow(), str(tmp_path / path)))
    storage.delete("f")
    assert not (tmp_path / "f").exists()


def test_two_processes_delete_one_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance of two processes carries out one intent: the second finds the folder gone after it has looked."""
    (tmp_path / "dead" / "below").mkdir(parents=True)
    exists = Storage.exists

    def then_gone(storage: Storage, path: str) -> bool:
        found = exists(storage, path)
        shutil.rmtree(tmp_path / path)
        return found

    monkeypatch.setattr(Storage, "exists", then_gone)
    Storage(str(tmp_path)).delete_empty_folder("dead")
    assert not (tmp_path / "dead").exists()


def test_a_folder_that_another_process_makes_meanwhile_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow cannot list it, then finds that it is there, and raises."""

    class Raced:
        def get_file_info(self, asked: fs.FileSelector) -> list[fs.FileInfo]:
            if not (folder := Path(asked.base_dir)).exists():
                (folder / "below").mkdir(parents=True)
                raise FileNotFoundError(2, f"Cannot list directory '{folder}'.")
            found: list[fs.FileInfo] = fs.LocalFileSystem().get_file_info(asked)
            return found

    monkeypatch.setattr(Storage, "_open", lambda self, path: (Raced(), str(tmp_path / path)))
    assert Storage(str(tmp_path)).files("first") == []
    assert Storage(str(tmp_path)).folders("second") == ["below"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """A writer that dies in the middle leaves the old bytes, and its own file is taken away."""
    storage = Storage(str(tmp_path))
    storage.replace_bytes("a/f", b"old")
    storage.replace_bytes("a/f", b"new")
    assert storage.read_bytes("a/f") == b"new"
    (tmp_path / "a" / "folder").mkdir()
    with pytest.raises(OSError, match="irectory"):
        storage.replace_bytes("a/folder", b"x")
    assert [file.path for file in storage.files("a")] == ["a/f"]


@pytest.mark.parametrize(("files", "by_itself"), [(20, True), (1000, False)], ids=["few", "many"])
def test_few_files_on_a_disk_are_asked_for_by_the_caller_itself_and_many_at_once(
    tmp_path: Path, files: int, by_itself: bool
) -> None:
    """Starting 32 threads took 6 ms, and twenty names take 0.1; the disk may be another machine's, and slow."""
    threads = Storage(str(tmp_path)).each(lambda _: threading.get_ident(), range(files))
    assert ({*threads} == {threading.get_ident()}) == by_itself == (threading.get_ident() in threads)


def test_an_object_store_is_asked_many_things_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of eight waits until all have been asked: in turn, none would ever be answered."""
    monkeypatch.setattr(Storage, "is_folder", False)
    all_asked = threading.Barrier(8)

    def ask(item: int) -> int:
        all_asked.wait(timeout=10)
        return item * 2

    assert Storage(str(tmp_path)).each(ask, range(8)) == [0, 2, 4, 6, 8, 10, 12, 14]
