"""Syncs files, and their folders, to a local disk.

Delta-rs, Arrow and Spark do not: a loss of power may take or empty a file. Object stores keep what they acknowledge.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from backfill_assets.errors import InvalidRequest

VARIABLE = "BACKFILL_SYNC"
_FEW, _AT_ONCE = 8, 32
_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)
"""File systems that do not sync folders; folders of other owners."""
_MOST_KNOWN = 50_000
_known: dict[str, tuple[int, ...]] = {}


def is_wanted() -> bool:
    """Raises :class:`InvalidRequest` for neither ``on`` nor ``off``."""
    text = os.environ.get(VARIABLE, "").strip() or "on"
    if text not in ("on", "off"):
        raise InvalidRequest(f"{VARIABLE} is {text!r}.", hint="It takes on or off.")
    return text == "on"


def keep(root: str, paths: Iterable[str]) -> None:
    """Sync ``paths`` below ``root`` and their folders, without absent ones. Raises :class:`OSError`."""
    files = [(path, as_it_is(path)) for path in (f"{root}/{path}" for path in paths)]
    new = {path: it for path, it in files if it != _known.get(path, ())}
    folders = _folders(root, new)
    _each(sync_file, [path for path, it in new.items() if it])
    _each(_sync_folder, list(folders))
    if len(_known) > _MOST_KNOWN:
        _known.clear()
    _known.update({path: it for path, it in (new | folders).items() if it})


def sync_file(path: str) -> None:
    with suppress(FileNotFoundError):
        _sync(path)


def _sync_folder(path: str) -> None:
    try:
        _sync(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in _NO_FOLDERS:
            raise


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def as_it_is(path: str) -> tuple[int, ...]:
    """Tells a file from one that replaced it, or was written since. Empty if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a path of the storage is text
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return (found.st_ino,) if stat.S_ISDIR(found.st_mode) else (found.st_ino, found.st_mtime_ns, found.st_size)


def _folders(root: str, files: Iterable[str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        folder = file.rpartition("/")[0]
        while len(folder) >= len(root) and folder not in found:
            found[folder] = as_it_is(folder)
            if found[folder] and found[folder] == _known.get(folder):
                break
            folder = folder.rpartition("/")[0]
    return found


def _each(sync: Callable[[str], None], paths: Sequence[str]) -> None:
    if len(paths) < _FEW:
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(sync, paths):
            pass
