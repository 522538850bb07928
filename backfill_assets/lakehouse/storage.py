"""Files below one root, on a local disk or an object store: the few operations that do not go through Delta."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse import durable
from backfill_assets.lakehouse.disk import explain_failure
from backfill_assets.lakehouse.object_store import S3, ObjectStore, spark_address

_ASKED_AT_ONCE, _MANY_ON_A_DISK = 32, 64
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_GLOB = re.compile(r"([\\{}\[\]*?])")


@dataclass(frozen=True)
class StoredFile:
    """A file below the root: its path relative to the root, its size in bytes, and its last write (ms, UTC)."""

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Storage:
    """A root folder or ``s3://bucket/prefix``. Paths given to it are relative to the root, with forward slashes.

    ``options`` is what delta-rs is given; for S3 it comes from the environment unless it is given here.
    """

    root: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self._on_s3 and not self.options:
            object.__setattr__(self, "options", ObjectStore.from_environment().delta_rs_options())

    @property
    def _on_s3(self) -> bool:
        return self.root.startswith(S3)

    @property
    def is_folder(self) -> bool:
        """True on a disk: looking for a file by its name is cheap there, and listing a long folder is not."""
        return not self._on_s3

    def uri(self, path: str = "") -> str:
        """What delta-rs is given to open ``path``."""
        return f"{self.root.rstrip('/')}/{path}" if path else self.root.rstrip("/")

    def spark_uri(self, path: str = "") -> str:
        """What Spark is given to open ``path``."""
        return spark_address(self.uri(path))

    def _open(self, path: str) -> tuple[fs.FileSystem, str]:
        if self._on_s3:
            filesystem, base = ObjectStore.from_environment().filesystem(), self.root.removeprefix(S3)
        else:
            filesystem, base = fs.LocalFileSystem(), self.root
        return filesystem, f"{base.rstrip('/')}/{path}" if path else base.rstrip("/") or "/"

    def filesystem(self, path: str = "") -> fs.FileSystem:
        """Arrow's own file system with ``path`` as its root."""
        filesystem, full = self._open(path)
        return fs.SubTreeFileSystem(full, filesystem)

    def exists(self, path: str) -> bool:
        filesystem, full = self._open(path)
        return bool(filesystem.get_file_info(full).type != fs.FileType.NotFound)

    def missing(self, paths: Iterable[str]) -> list[str]:
        """Those of ``paths`` that are not there. An object store is asked for each, many at a time."""
        wanted = list(paths)
        sizes = self.sizes(wanted)
        return [path for path in wanted if sizes[path] is None]

    def sizes(self, paths: Iterable[str]) -> dict[str, int | None]:
        """The bytes of each of ``paths``, asked for like that; None for one that is not there."""
        wanted = list(paths)
        many = self._at_once(len(wanted))
        parts = [wanted[number::many] for number in range(many)]
        return {path: size for found in _each(self._sizes, parts, many) for path, size in found}

    def each(self, ask: Callable[[_Item], _Answer], items: Sequence[_Item]) -> list[_Answer]:
        """``ask`` of each item: many at a time where most of the time is waiting, on an object store.

        On a disk, few are asked for one after the other: starting the threads takes longer. Many are not, for the disk
        may be that of another machine.
        """
        return _each(ask, items, self._at_once(len(items)))

    def _at_once(self, count: int) -> int:
        return 1 if self.is_folder and count < _MANY_ON_A_DISK else min(count, _ASKED_AT_ONCE)

    def _sizes(self, wanted: list[str]) -> list[tuple[str, int | None]]:
        filesystem, base = self._open("")
        infos = filesystem.get_file_info([f"{base.rstrip('/')}/{path}" for path in wanted])
        found = zip(wanted, infos, strict=True)
        return [(path, None if info.type == fs.FileType.NotFound else info.size) for path, info in found]

    def files(self, path: str, *, recursive: bool = False) -> list[StoredFile]:
        base = self._open("")[1].rstrip("/")
        return [
            StoredFile(
                info.path[len(base) + 1 :],
                info.size,
                int((info.mtime_ns or 0) // 1_000_000),
            )
            for info in self._below(path, recursive=recursive)
            if info.type == fs.FileType.File
        ]

    def folders(self, path: str) -> list[str]:
        """Names of the folders directly below ``path``, sorted."""
        return sorted(info.base_name for info in self._below(path) if info.type == fs.FileType.Directory)

    def _below(self, path: str, *, recursive: bool = False) -> list[fs.FileInfo]:
        """Nothing of a folder that is not there."""
        filesystem, full = self._open(path)
        selector = fs.FileSelector(full, recursive=recursive, allow_not_found=True)
        try:
            found: list[fs.FileInfo] = filesystem.get_file_info(selector)
        except FileNotFoundError:  # Others made it, or deleted it, between two looks that Arrow takes.
            found = filesystem.get_file_info(selector)
        return found

    def read_bytes(self, path: str) -> bytes:
        filesystem, full = self._open(path)
        with explain_failure(f"{self.uri(path)} cannot be read"), filesystem.open_input_file(full) as stream:
            data: bytes = stream.read()
        return data

    def read_json_lines(self, path: str) -> list[dict[str, Any]]:
        """Raises :class:`LakehouseUnusable` with the path of a file that is damaged."""
        data = self.read_bytes(path)
        try:
            return [json.loads(line) for line in data.splitlines() if line.strip()]
        except ValueError as error:
            what = f"{self.uri(path)} cannot be read: it is not JSON ({error})."
            raise LakehouseUnusable(what, hint="Put the file back from a backup.") from error

    def write_bytes(self, path: str, data: bytes) -> None:
        filesystem, full = self._open(path)
        with explain_failure(f"{self.uri(path)} cannot be written"):
            if not self._on_s3:
                filesystem.create_dir(full.rsplit("/", 1)[0], recursive=True)
            with filesystem.open_output_stream(full, compression=None) as stream:
                stream.write(data)

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Write a file that others read meanwhile: they find the old bytes or the new ones, never a part."""
        if self._on_s3:
            self.write_bytes(path, data)
            return
        unfinished = f"{path}.{clock.token(4)}.tmp"
        try:
            self._write_whole(unfinished, data)
            os.replace(self.uri(unfinished), self.uri(path))  # noqa: PTH105 - a path of the storage is text
        finally:
            self.delete(unfinished)
        self.keep([path])

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file whole or not at all; False if it is there. Of several writers at once, exactly one gets True."""
        if self._on_s3:
            return ObjectStore.from_environment().put_if_absent(self.uri(path), data)
        unfinished = f"{path}.{clock.token(4)}.tmp"
        try:
            self._write_whole(unfinished, data)
            os.link(self.uri(unfinished), self.uri(path))
            absent = True
        except FileExistsError:
            absent = False
        finally:
            self.delete(unfinished)
        self.keep([path])
        return absent

    def _write_whole(self, path: str, data: bytes) -> None:
        """A file that is whole, even if the power fails, before it gets the name that others know."""
        self.write_bytes(path, data)
        if durable.is_wanted():
            durable.sync_file(self.uri(path))

    def keep(self, paths: Iterable[str]) -> None:
        """Return when ``paths``, and the folders on the way to them, would outlive a loss of power.

        Those that are not there are passed over. An object store keeps what it acknowledges.
        """
        if self.is_folder and durable.is_wanted():
            with explain_failure(f"{self.root} cannot be written"):
                durable.keep(self.root.rstrip("/"), paths)

    def read_parquet(self, path: str, columns: list[str] | None = None) -> pa.Table:
        """All of a small file. Many are read side by side: threads for each one's columns would wait for each other."""
        filesystem, full = self._open(path)
        with explain_failure(f"{self.uri(path)} cannot be read"):
            return pq.ParquetFile(filesystem.open_input_file(full)).read(columns=columns, use_threads=False)

    def parquet_batches(self, path: str, rows_at_once: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Those of ``columns`` that a Parquet file has, some rows at a time: memory does not grow with the file."""
        filesystem, full = self._open(path)
        with explain_failure(f"{self.uri(path)} cannot be read"), filesystem.open_input_file(full) as stream:
            file = pq.ParquetFile(stream, pre_buffer=self._on_s3)
            yield from file.iter_batches(rows_at_once, columns=list(columns), use_threads=False)

    def is_whole_parquet(self, path: str, rows: int) -> bool:
        """Whether a Parquet file is there, and all of its ``rows`` can be read. Pages are held to their checksums."""
        filesystem, full = self._open(path)
        try:
            with pq.ParquetFile(full, filesystem=filesystem, page_checksum_verification=True) as file:
                return bool(sum(batch.num_rows for batch in file.iter_batches(use_threads=False)) == rows)
        except (OSError, pa.ArrowException):
            return False

    def parquet_footer(self, path: str) -> pq.FileMetaData:
        """The schema and the statistics of a Parquet file, without its rows."""
        filesystem, full = self._open(path)
        return pq.read_metadata(full, filesystem=filesystem)

    def write_parquet(self, path: str, table: pa.Table) -> int:
        """Write one Parquet file and return its size in bytes."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        data = sink.getvalue().to_pybytes()
        self.write_bytes(path, data)
        return len(data)

    @contextmanager
    def parquet_writer(
        self, path: str, schema: pa.Schema, repeated: Sequence[str] | None = None
    ) -> Iterator[pq.ParquetWriter]:
        """Writes one Parquet file row group by row group; it is whole when the block ends.

        Columns that are ``repeated``, or all of them, have a dictionary; pages have checksums.
        """
        filesystem, full = self._open(path)
        if not self._on_s3:
            filesystem.create_dir(full.rsplit("/", 1)[0], recursive=True)
        with pq.ParquetWriter(
            full,
            schema,
            filesystem=filesystem,
            compression="zstd",
            compression_level=1,
            use_dictionary=True if repeated is None else list(repeated),
            write_page_checksum=True,
        ) as writer:
            yield writer

    def stat(self, path: str) -> StoredFile:
        """One file. Raises :class:`FileNotFoundError` if it is not there."""
        filesystem, full = self._open(path)
        info = filesystem.get_file_info(full)
        if info.type != fs.FileType.File:
            raise FileNotFoundError(self.uri(path))
        return StoredFile(path, info.size, int((info.mtime_ns or 0) // 1_000_000))

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder in which there is no file, at any depth; an object store has none.

        One that another process deletes at the same time is fine.
        """
        if not self._on_s3 and self.exists(path) and not self.files(path, recursive=True):
            filesystem, full = self._open(path)
            with suppress(FileNotFoundError):
                filesystem.delete_dir(full)

    def delete_if(self, path: str, holds: Callable[[bytes], bool]) -> bool:
        """Delete a file on a disk if ``holds`` says so of its bytes; True if it was deleted.

        Of several processes one deletes it. A file that another one puts in its place is a file of its own, and stays.
        """
        place = Path(self.uri(path))
        with suppress(FileNotFoundError), explain_failure(f"{place} cannot be deleted"), place.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(file.fileno()), place.stat()) and holds(file.read()):
                place.unlink()
                return True
        return False

    def delete(self, path: str) -> None:
        """Delete a file; one that is already gone, or that another process deletes at the same time, is fine."""
        filesystem, full = self._open(path)
        if filesystem.get_file_info(full).type == fs.FileType.File:
            with suppress(FileNotFoundError), explain_failure(f"{self.uri(path)} cannot be deleted"):
                filesystem.delete_file(full)


def _each(ask: Callable[[_Item], _Answer], items: Sequence[_Item], threads: int) -> list[_Answer]:
    if threads < 2:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(ask, items))


def literal_path(path: str) -> str:
    """``path`` for a reader of Spark, which would take brackets, braces, stars and question marks for patterns."""
    return _GLOB.sub(r"\\\1", path)
