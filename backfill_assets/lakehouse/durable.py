"""What a local disk is told to keep for good: files, and the names of the folders that lead to them.

Neither delta-rs, Arrow nor Spark tells it. Until then a machine that loses power may lose a file, or keep its name with
an empty one. An object store keeps what it acknowledges.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from backfill_assets.errors import InvalidRequest

VARIABLE = "BACKFILL_SYNC"
_FEW, _AT_ONCE = 8, 32
_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)
"""What a file system says that does not sync folders, or the system where they belong to somebody else."""


def is_wanted() -> bool:
    """Raises :class:`InvalidRequest` for a setting that is neither ``on`` nor ``off``."""
    text = os.environ.get(VARIABLE, "").strip() or "on"
    if text not in ("on", "off"):
        raise InvalidRequest(f"{VARIABLE} is {text!r}.", hint="It takes on or off.")
    return text == "on"


def keep(root: str, paths: Iterable[str]) -> None:
    """Return when the disk has ``paths`` below ``root``, and the folders on the way to them.

    A file that is not there has nothing to be kept; whoever needs it finds out. Raises :class:`OSError` as the disk
    does.
    """
    files = [f"{root}/{path}" for path in paths]
    _each(sync_file, files)
    _each(_sync_folder, _folders(root, files))


def sync_file(path: str) -> None:
    """What it holds; its name is kept by its folder."""
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


def _folders(root: str, files: Iterable[str]) -> list[str]:
    """Those that hold one of ``files``, and all above them up to ``root``, each once."""
    found: dict[str, None] = {}
    for file in files:
        folder = file.rpartition("/")[0]
        while len(folder) >= len(root) and folder not in found:
            found[folder] = None
            folder = folder.rpartition("/")[0]
    return list(found)


def _each(sync: Callable[[str], None], paths: Sequence[str]) -> None:
    """A disk takes many at once into one write of its own."""
    if len(paths) < _FEW:
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(sync, paths):
            pass
