"""A lakehouse's files in memory: every call to them may be where somebody else goes on, and may go wrong.

``Files`` is what a disk or a bucket holds; it outlives all processes. ``SimulatedStorage`` is the package's own storage
over it: what is called most is answered from dicts, and the rest through Arrow's file system.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from backfill_assets.lakehouse.disk import explain_failure
from backfill_assets.lakehouse.storage import Storage, StoredFile

Fault = Literal["fails", "is refused", "loses the answer", "keeps a part", "dies in the middle"]
"""What a call may meet. To be answered late is no fault: it is to be overtaken, which any step may be."""
FAULTS: tuple[Fault, ...] = ("fails", "is refused", "loses the answer", "keeps a part", "dies in the middle")
Content = Any
"""Bytes; or Arrow's table, for a Parquet file is kept as its rows: it is written and read a thousand times a second."""
_T = TypeVar("_T")
_PER_FILE = 64


class StorageFailed(OSError):
    """What a storage says when a call went wrong."""


class Died(BaseException):
    """A process ends here, and what it held in memory is gone: nothing of the code under test may catch it."""


def nothing(call: str) -> Fault | None:
    """Nobody goes on meanwhile, and nothing goes wrong."""
    return None


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
    known: dict[tuple[str, int], tuple[Content, object, object]] = field(default_factory=dict)
    """Versions of Delta tables, by the file that makes each and the version before it: nobody computes them twice."""

    def call(self, name: str, path: str, act: Callable[[], _T], part: Callable[[], object] | None = None) -> _T:
        """Carry out ``act`` as the schedule has it; ``part`` is what a half of it does."""
        fault = self.at(f"{name} {path}")
        if fault in ("keeps a part", "dies in the middle") and part is not None:
            part()
        if fault == "loses the answer":
            act()
        if fault == "dies in the middle":
            raise Died
        if fault == "is refused":
            raise PermissionError(13, "Permission denied", path)
        if fault is not None:
            raise StorageFailed(f"{name} {path}: {fault}")
        return act()

    def put(self, path: str, content: Content) -> None:
        self.contents[path] = content
        self.written[path] = self.now_ms()
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
        self._below = {folder: set(names) for folder, names in other._below.items()}


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

    def replace_bytes(self, path: str, data: bytes) -> None:
        with explain_failure(f"{self.uri(path)} cannot be written"):
            self.held.call("replace", path, lambda: self.held.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        held = self.held

        def put() -> bool:
            absent = path not in held.contents
            if absent:
                held.put(path, data)
            return absent

        with explain_failure(f"{self.uri(path)} cannot be written"):
            return held.call("put if absent", path, put)

    def read_parquet(self, path: str, columns: list[str] | None = None) -> pa.Table:
        with explain_failure(f"{self.uri(path)} cannot be read"):
            content = self.held.call("read", path, lambda: self.held.get(path))
            if isinstance(content, bytes):
                content = pq.ParquetFile(io.BytesIO(content)).read()
        if columns is None:
            return content
        wanted = dict.fromkeys(name.partition(".")[0] for name in columns)
        return content.select([name for name in wanted if name in content.column_names])

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
