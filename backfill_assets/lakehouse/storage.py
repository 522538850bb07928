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
from pydantic_core import from_json

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse import durable
from backfill_assets.lakehouse.disk import explain_failure
from backfill_assets.lakehouse.object_store import S3, ObjectStore, spark_address

_ASKED_AT_ONCE, _MANY_ON_A_DISK = 32, 64
_SMALL = 32 * 1024
"""Dictionaries and compression of so few bytes add more than they take away."""
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")
_GLOB = re.compile(r"([\\{}\[\]*?])")


@dataclass(frozen=True)
class StoredFile:
    """Relative path; bytes; UTC ms."""

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True)
class Storage:
    """A folder or ``s3://bucket/prefix``; paths are relative, with forward slashes.

    ``options`` are delta-rs's, for S3 by default the environment's.
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
        return not self._on_s3

    def uri(self, path: str = "") -> str:
        return f"{self.root.rstrip('/')}/{path}" if path else self.root.rstrip("/")

    def spark_uri(self, path: str = "") -> str:
        return spark_address(self.uri(path))

    def _open(self, path: str) -> tuple[fs.FileSystem, str]:
        if self._on_s3:
            filesystem, base = ObjectStore.from_environment().filesystem(), self.root.removeprefix(S3)
        else:
            filesystem, base = fs.LocalFileSystem(), self.root
        return filesystem, f"{base.rstrip('/')}/{path}" if path else base.rstrip("/") or "/"

    def filesystem(self, path: str = "") -> fs.FileSystem:
        filesystem, full = self._open(path)
        return fs.SubTreeFileSystem(full, filesystem)

    def exists(self, path: str) -> bool:
        filesystem, full = self._open(path)
        return bool(filesystem.get_file_info(full).type != fs.FileType.NotFound)

    def missing(self, paths: Iterable[str]) -> list[str]:
        wanted = list(paths)
        sizes = self.sizes(wanted)
        return [path for path in wanted if sizes[path] is None]

    def sizes(self, paths: Iterable[str]) -> dict[str, int | None]:
        wanted = list(paths)
        many = self._at_once(len(wanted))
        parts = [wanted[number::many] for number in range(many)]
        return {path: size for found in _each(self._sizes, parts, many) for path, size in found}

    def each(self, ask: Callable[[_Item], _Answer], items: Sequence[_Item]) -> list[_Answer]:
        """Concurrent where waiting takes the time: on a store, and for many items on a (network) disk."""
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
        return sorted(info.base_name for info in self._below(path) if info.type == fs.FileType.Directory)

    def _below(self, path: str, *, recursive: bool = False) -> list[fs.FileInfo]:
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
        lines = [line for line in self.read_bytes(path).splitlines() if line.strip()]
        with suppress(ValueError):  # Three times as fast; what it refuses, such as half a character, is left to Python.
            return [from_json(line) for line in lines]
        try:
            return [json.loads(line) for line in lines]
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

    def replace_bytes(self, path: str, data: bytes, *, kept: bool = True) -> None:
        """Readers get all bytes, old or new. Unless ``kept``, a loss of power may bring the old back."""
        if self._on_s3:
            self.write_bytes(path, data)
            return
        unfinished = f"{path}.{clock.token(4)}.tmp"
        try:
            self._write_whole(unfinished, data)
            os.replace(self.uri(unfinished), self.uri(path))  # noqa: PTH105 - a path of the storage is text
        finally:
            self.delete(unfinished)
        if kept:
            self.keep([path])

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Whole; False if it exists. One of several writers gets True."""
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
        self.write_bytes(path, data)
        if durable.is_wanted():
            durable.sync_file(self.uri(path))

    def keep(self, paths: Iterable[str]) -> None:
        """Sync ``paths`` and the folders above; absent ones are skipped."""
        if self.is_folder and durable.is_wanted():
            with explain_failure(f"{self.root} cannot be written"):
                durable.keep(self.root.rstrip("/"), paths)

    def read_parquet(self, path: str, columns: list[str] | None = None) -> pa.Table:
        filesystem, full = self._open(path)
        with explain_failure(f"{self.uri(path)} cannot be read"):
            return pq.ParquetFile(filesystem.open_input_file(full)).read(columns=columns, use_threads=False)

    def parquet_batches(self, path: str, rows_at_once: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        filesystem, full = self._open(path)
        with explain_failure(f"{self.uri(path)} cannot be read"), filesystem.open_input_file(full) as stream:
            file = pq.ParquetFile(stream, pre_buffer=self._on_s3)
            yield from file.iter_batches(rows_at_once, columns=list(columns), use_threads=False)

    def is_whole_parquet(self, path: str, rows: int) -> bool:
        filesystem, full = self._open(path)
        try:
            with pq.ParquetFile(full, filesystem=filesystem, page_checksum_verification=True) as file:
                return bool(sum(batch.num_rows for batch in file.iter_batches(use_threads=False)) == rows)
        except (OSError, pa.ArrowException):
            return False

    def parquet_footer(self, path: str) -> pq.FileMetaData:
        filesystem, full = self._open(path)
        return pq.read_metadata(full, filesystem=filesystem)

    def write_parquet(self, path: str, table: pa.Table) -> int:
        sink, small = pa.BufferOutputStream(), table.nbytes <= _SMALL
        pq.write_table(table, sink, compression="none" if small else "zstd", use_dictionary=not small)
        data = sink.getvalue().to_pybytes()
        self.write_bytes(path, data)
        return len(data)

    @contextmanager
    def parquet_writer(
        self, path: str, schema: pa.Schema, repeated: Sequence[str] | None = None
    ) -> Iterator[pq.ParquetWriter]:
        """Whole when the block ends. ``repeated`` columns (default: all) get a dictionary."""
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
        filesystem, full = self._open(path)
        info = filesystem.get_file_info(full)
        if info.type != fs.FileType.File:
            raise FileNotFoundError(self.uri(path))
        return StoredFile(path, info.size, int((info.mtime_ns or 0) // 1_000_000))

    def delete_empty_folder(self, path: str) -> None:
        """Without files at any depth; another process may delete it too."""
        if not self._on_s3 and self.exists(path) and not self.files(path, recursive=True):
            filesystem, full = self._open(path)
            with suppress(FileNotFoundError):
                filesystem.delete_dir(full)

    def delete_if(self, path: str, holds: Callable[[bytes], bool]) -> bool:
        """Delete a file on disk if its bytes are accepted. One process gets True; a replacement stays."""
        place = Path(self.uri(path))
        with suppress(FileNotFoundError), explain_failure(f"{place} cannot be deleted"), place.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(file.fileno()), place.stat()) and holds(file.read()):
                place.unlink()
                return True
        return False

    def delete(self, path: str) -> None:
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
    return _GLOB.sub(r"\\\1", path)
