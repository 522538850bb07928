"""Which small files of a day are merged beside a stream, so that rows are rewritten a few times only. Pure.

Tiers by rows, each sixteen times the one below: a full one and those below become one file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

FULL = 16
LARGE_BYTES = 16 * 1024 * 1024
"""Rewriting sixteen larger ones takes seconds."""


class CountedFile(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def rows(self) -> int: ...


def tier(rows: int) -> int:
    found = 0
    while rows >= FULL:
        rows, found = rows // FULL, found + 1
    return found


def files_to_compact(files: Iterable[CountedFile]) -> list[str]:
    small = [file for file in files if file.size < LARGE_BYTES]
    if len(small) < FULL:
        return []
    tiers = {file.path: tier(file.rows) for file in small}
    full = [each for each, count in Counter(tiers.values()).items() if count >= FULL]
    return sorted(path for path, each in tiers.items() if each <= max(full)) if full else []
