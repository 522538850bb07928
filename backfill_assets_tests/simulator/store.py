"""A lakehouse's files in memory: every call to them may be where somebody else goes on, and may go wrong.

``Files`` is what a disk or a bucket holds; it outlives all processes. ``SimulatedStorage`` is the package's own storage
over it: what is called most is answered from dicts, and the rest through Arrow's file system.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError
from pyarrow import fs

from backfill_assets.lakehouse.disk import explain_failure
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets_tests.death import Died

Fault = Literal[
    "fails", "is refused", "loses the answer", "keeps a part", "dies in the middle", "arrives later", "says it exists"
]
"""What a call may meet. To be answered late is no fault: it is to be overtaken, which any step may be."""
FAULTS: tuple[Fault, ...] = ("fails", "is refused", "loses the answer", "keeps a part", "dies in the middle")
"""Those that seeds draw. ``faults`` has the others too: what its caller has given up arrives later, and what is done
is answered with the word that somebody else did it, as a store does whose client asks twice."""
Content = Any
"""Bytes; or Arrow's table, for a Parquet file is kept as its rows: it is written and read a thousand times a second."""
_T = TypeVar("_T")
_PER_FILE = 64


class StorageFailed(OSError):
    """What a storage says when a call went wrong."""


def nothing(call: str) -> Fault | None:
    """Nobody goes on meanwhile, and nothing goes wrong."""
    return None


def carried_out(fault: Fault | None, what: str, act: Callable[[], _T], part: Callable[[], object] | None = None) -> _T:
    """Do ``act``, or as much of it as ``fault`` lets; ``part`` is what a half of it does."""
    if fault in ("keeps a part", "dies in the middle") and part is not None:
        part()
    if fault == "loses the answer":
        act()
    if fault == "dies in the middle":
        raise Died
    if fault == "is refused":
        raise PermissionError(13, "Permission denied", what)
    if fault is not None:
        raise StorageFailed(f"{what}: {fault}")
    return act()


@dataclass
class Files:
    """The files of one lakehouse by path, and when each was written (ms).

    ``at`` is called before each call with its name and path, and says how it goes wrong.
    """

    contents: dict[str, Content] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    at: Callable[[str], Fault | None] = nothing
    now_ms: Callable[[], int] = lambda: 0
    _below: dict[str, set[str]] = field(default_factory=dict)
    """The names in each folder."""
    unkept: dict[str, Content | None] = field(default_factory=dict)
    """What the disk has of each file that it was not told to keep as it is; None: nothing."""
    _whole: set[str] = field(default_factory=set)
    keeping_is_a_call: bool = False
    """Whether that is a step as any other call; most schedules were written without."""
    on_their_way: list[Callable[[], object]] = field(default_factory=list)
    """Calls that their callers have given up, and that the store has yet to carry out."""
    changes: int = 0
    """Who has looked at all files since the last one has seen all of them."""
    known: dict[tuple[str, int], tuple[Content, object, object]] = field(default_factory=dict)
    """Versions of Delta tables, by the file that makes each and the version before it: nobody computes them twice."""

    def call(
        self,
        name: str,
        path: str,
        act: Callable[[], _T],
        part: Callable[[], object] | None = None,
        exists: Callable[[], _T] | None = None,
        later: Callable[[], object] | None = None,
    ) -> _T:
        """Carry out ``act`` as the schedule has it; ``part`` is what a half of it does.

        ``exists`` says that somebody else has done it, and ``later`` is what arrives of it (else ``act``).
        """
        fault = self.at(f"{name} {path}")
        if fault == "says it exists" and exists is not None:
            act()
            return exists()
        if fault == "arrives later":
            self.on_their_way.append(later or act)
        return carried_out(fault, f"{name} {path}", act, part)

    def carry_out_what_is_on_its_way(self) -> None:
        """Nobody waits for an answer any more, whatever it is."""
        arriving, self.on_their_way = self.on_their_way, []
        for act in arriving:
            with suppress(OSError, DeltaError):
                act()

    def keep(self, paths: Iterable[str]) -> None:
        """No name of another file in the same folder is kept with it, which a disk may do."""

        def keep() -> None:
            for path in kept:
                self.unkept.pop(path, None)

        kept = list(paths)
        if self.keeping_is_a_call:
            self.call("keep", kept[0] if kept else "", keep)
        else:
            keep()

    def lose_power(self, draw: Random) -> None:
        """Of each file that was not kept: its last state on the disk, an empty file, a half of it, or all of it."""
        for path, before in sorted(self.unkept.items()):
            now = self.contents.get(path)
            torn = () if now is None or path in self._whole else _torn(now)
            left = draw.choice([before, now, *torn])
            self.drop(path)
            if left is not None:
                self.put(path, left)
        self.unkept.clear()
        self.on_their_way.clear()

    def put(self, path: str, content: Content, *, whole: bool = False) -> None:
        """``whole``: the disk has what it holds before it has its name."""
        self.unkept.setdefault(path, self.contents.get(path))
        (self._whole.add if whole else self._whole.discard)(path)
        self.contents[path] = content
        self.written[path] = self.now_ms()
        self.changes += 1
        while path:
            folder, _, name = path.rpartition("/")
            known = self._below.setdefault(folder, set())
            if name in known:
                return
            known.add(name)
            path = folder

    def get(self, path: str) -> Content:
        """Raises :class:`FileNotFoundError` for a file that is not there."""
        if path not in self.contents:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.contents[path]

    def drop(self, path: str) -> None:
        self.unkept.setdefault(path, self.contents.get(path))
        self.changes += 1
        if self.contents.pop(path, None) is not None:
            del self.written[path]
            folder, _, name = path.rpartition("/")
            self._below[folder].discard(name)

    def drop_folder(self, path: str) -> None:
        """A folder without files, with what is below it."""
        for name in list(self._below.pop(path, ())):
            self.drop_folder(f"{path}/{name}")
        folder, _, name = path.rpartition("/")
        self._below.get(folder, set()).discard(name)

    def is_folder(self, path: str) -> bool:
        return path in self._below or not path

    def names(self, path: str) -> list[str]:
        """What is directly below a folder."""
        return sorted(self._below.get(path, ()))

    def files_below(self, path: str, *, recursive: bool) -> list[str]:
        found: list[str] = []
        for name in self.names(path):
            below = f"{path}/{name}" if path else name
            if below in self.contents:
                found.append(below)
            elif recursive:
                found += self.files_below(below, recursive=True)
        return found

    def size(self, path: str) -> int | None:
        content = self.contents.get(path)
        if content is None:
            return None
        return len(content) if isinstance(content, bytes) else _PER_FILE + content.nbytes

    def as_bytes(self, path: str) -> bytes:
        content = self.get(path)
        if isinstance(content, bytes):
            return content
        sink = pa.BufferOutputStream()
        pq.write_table(content, sink)
        return bytes(sink.getvalue().to_pybytes())

    def begin_as(self, other: Files) -> None:
        """With the files of another lakehouse."""
        self.contents, self.written, self.known = dict(other.contents), dict(other.written), dict(other.known)
        self.unkept = dict(other.unkept)
        self._below = {folder: set(names) for folder, names in other._below.items()}
        self.changes += 1


def _torn(content: Content) -> Iterator[bytes]:
    """A name that the disk has before what it stands for."""
    yield b""
    yield content[: len(content) // 2] if isinstance(content, bytes) else b"PAR1"


LAKES: dict[str, Files] = {}
"""By root: delta-rs is given an address, and so is what stands in for it."""


@dataclass(frozen=True)
class SimulatedStorage(Storage):
    """The package's storage over :class:`Files`, which are found by their root."""

    @property
    def held(self) -> Files:
        return LAKES[self.root]

    def _open(self, path: str) -> tuple[fs.FileSystem, str]:
        """What is not answered here goes through Arrow."""
        return fs.PyFileSystem(_Handler(self.held)), path.rstrip("/")

    def _at_once(self, count: int) -> int:
        return 1

    def exists(self, path: str) -> bool:
        held = self.held
        return held.call("exists", path, lambda: path in held.contents or held.is_folder(path))

    def _sizes(self, wanted: list[str]) -> list[tuple[str, int | None]]:
        held = self.held
        return held.call("sizes", wanted[0] if wanted else "", lambda: [(path, held.size(path)) for path in wanted])

    def files(self, path: str, *, recursive: bool = False) -> list[StoredFile]:
        held = self.held
        return held.call("files", path, lambda: list(map(self._stored, held.files_below(path, recursive=recursive))))

    def _stored(self, path: str) -> StoredFile:
        return StoredFile(path, self.held.size(path) or 0, self.held.written[path])

    def folders(self, path: str) -> list[str]:
        held = self.held
        return held.call("folders", path, lambda: [n for n in held.names(path) if f"{path}/{n}" not in held.contents])

    def read_bytes(self, path: str) -> bytes:
        with explain_failure(f"{self.uri(path)} cannot be read"):
            return self.held.call("read", path, lambda: self.held.as_bytes(path))

    def write_bytes(self, path: str, data: bytes) -> None:
        held = self.held
        with explain_failure(f"{self.uri(path)} cannot be written"):
            held.call("write", path, lambda: held.put(path, data), lambda: held.put(path, data[: len(data) // 2]))

    def replace_bytes(self, path: str, data: bytes, *, kept: bool = True) -> None:
        with explain_failure(f"{self.uri(path)} cannot be written"):
            self.held.call("replace", path, lambda: self.held.put(path, data, whole=True))
        if kept:
            self.keep([path])

    def put_if_absent(self, path: str, data: bytes) -> bool:
        held = self.held

        def put() -> bool:
            absent = path not in held.contents
            if absent:
                held.put(path, data, whole=True)
            return absent

        with explain_failure(f"{self.uri(path)} cannot be written"):
            absent = held.call("put if absent", path, put, exists=lambda: False)
        self.keep([path])
        return absent

    def keep(self, paths: Iterable[str]) -> None:
        with explain_failure(f"{self.root} cannot be written"):
            self.held.keep(paths)

    def read_parquet(self, path: str, columns: list[str] | None = None) -> pa.Table:
        with explain_failure(f"{self.uri(path)} cannot be read"):
            content = self.held.call("read", path, lambda: self.held.get(path))
            if isinstance(content, bytes):
                content = pq.ParquetFile(io.BytesIO(content)).read()
        if columns is None:
            return content
        wanted, there = dict.fromkeys(name.partition(".")[0] for name in columns), set(content.column_names)
        return content.select([name for name in wanted if name in there])

    def write_parquet(self, path: str, table: pa.Table) -> int:
        held = self.held
        with explain_failure(f"{self.uri(path)} cannot be written"):
            held.call("write", path, lambda: held.put(path, table), lambda: held.put(path, b"PAR1"))
        return held.size(path) or 0

    def parquet_footer(self, path: str) -> pq.FileMetaData:
        return pq.read_metadata(io.BytesIO(self.held.call("read", path, lambda: self.held.as_bytes(path))))

    def stat(self, path: str) -> StoredFile:
        def found() -> StoredFile:
            self.held.get(path)
            return self._stored(path)

        return self.held.call("stat", path, found)

    def delete_empty_folder(self, path: str) -> None:
        held = self.held

        def delete() -> None:
            if held.is_folder(path) and not held.files_below(path, recursive=True):
                held.drop_folder(path)

        held.call("delete folder", path, delete)

    def delete_if(self, path: str, holds: Callable[[bytes], bool]) -> bool:
        held = self.held

        def delete() -> bool:
            found = path in held.contents and holds(held.as_bytes(path))
            if found:
                held.drop(path)
            return found

        with explain_failure(f"{self.uri(path)} cannot be deleted"):
            return held.call("delete if", path, delete)

    def delete(self, path: str) -> None:
        with explain_failure(f"{self.uri(path)} cannot be deleted"):
            self.held.call("delete", path, lambda: self.held.drop(path))


class _Handler(fs.FileSystemHandler):  # type: ignore[misc]  # Arrow has no types
    """The same files for Arrow: datasets and writers of large files go through it."""

    def __init__(self, held: Files) -> None:
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other._held is self._held

    __hash__ = object.__hash__

    def get_type_name(self) -> str:
        return "simulated"

    def normalize_path(self, path: str) -> str:
        return path.strip("/")

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        return [self._info(path.strip("/")) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found = self._held.files_below(selector.base_dir.strip("/"), recursive=selector.recursive)
        return [self._info(path) for path in found]

    def _info(self, path: str) -> fs.FileInfo:
        if path in self._held.contents:
            written = self._held.written[path]
            size = len(self._held.as_bytes(path))
            return fs.FileInfo(path, fs.FileType.File, size=size, mtime_ns=written * 1_000_000)
        return fs.FileInfo(path, fs.FileType.Directory if self._held.is_folder(path) else fs.FileType.NotFound)

    def open_input_stream(self, path: str) -> Any:
        return pa.PythonFile(io.BytesIO(self._read(path)), mode="r")

    def open_input_file(self, path: str) -> Any:
        return pa.BufferReader(self._read(path))

    def _read(self, path: str) -> bytes:
        return self._held.call("read", path.strip("/"), lambda: self._held.as_bytes(path.strip("/")))

    def open_output_stream(self, path: str, metadata: object) -> Any:
        return pa.PythonFile(_Written(self._held, path.strip("/")), mode="w")

    def create_dir(self, path: str, recursive: bool) -> None:
        """Folders come with their files."""

    def delete_file(self, path: str) -> None:
        self._held.call("delete", path.strip("/"), lambda: self._held.drop(path.strip("/")))

    def _refuse(self, *_: object) -> Any:
        raise NotImplementedError

    open_append_stream = copy_file = move = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse


class _Written(io.BytesIO):
    """A file that is there once it is closed."""

    def __init__(self, held: Files, path: str) -> None:
        super().__init__()
        self._held, self._path = held, path

    def close(self) -> None:
        if not self.closed:
            data, held = self.getvalue(), self._held
            super().close()
            held.call("write", self._path, lambda: held.put(self._path, data), lambda: held.put(self._path, data[:16]))
