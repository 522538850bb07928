"""Which small files of a day are put together while a stream adds to it: each row is written again a few times only.

A day that gains a file every ten seconds cannot be rewritten whole each time. Files are kept in tiers by their rows,
each sixteen times the one below. When a tier is full, it becomes one file of a higher tier together with the tiers
below it, and larger files are left alone. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

FULL = 16
"""So many files of a tier become one. A day keeps fewer files than this for each of its tiers."""
LARGE_BYTES = 16 * 1024 * 1024
"""Files of this size are left alone: writing sixteen of them again takes seconds."""


class CountedFile(Protocol):
    """A file of a day, as :class:`AddedFile` and the tests have it."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def rows(self) -> int: ...


def tier(rows: int) -> int:
    """How many times sixteen files were put together, at least, for a file of so many rows."""
    found = 0
    while rows >= FULL:
        rows, found = rows // FULL, found + 1
    return found


def files_to_compact(files: Iterable[CountedFile]) -> list[str]:
    """The paths of one day that become one file; empty while no tier is full."""
    small = [file for file in files if file.size < LARGE_BYTES]
    if len(small) < FULL:
        return []
    tiers = {file.path: tier(file.rows) for file in small}
    full = [each for each, count in Counter(tiers.values()).items() if count >= FULL]
    return sorted(path for path, each in tiers.items() if each <= max(full)) if full else []
