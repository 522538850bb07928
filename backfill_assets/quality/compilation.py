"""When hashes are compiled: for as many rows as repay the time it takes to load what compiles them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Protocol, cast

from backfill_assets.quality.xxh64 import Bytes, Places, Words

FROM_ROWS = 400_000
"""Loading takes up to a second; hashes of a row of 13 columns then take 2 us less."""


class Hashes(Protocol):
    """What ``quality/compiled_hashes.py`` has: hashes of many values, each seeded by what is before it in its row."""

    def hash_of_texts(self, prefix: bytes, data: Bytes, places: Places, seeds: Words) -> Words:
        """Of ``prefix`` and each text of ``data``: one begins at each of ``places``, and the last of them ends."""
        ...

    def hash_of_numbers(self, prefix: bytes, unscaled: Places, scale: int, seeds: Words) -> Words:
        """Of ``prefix`` and the digits of each number, ``scale`` of them behind the point."""
        ...


@dataclass
class _Loaded:
    hashes: Hashes | None = None
    is_refused: bool = False


_LOADED = _Loaded()


def compile_for(rows: int) -> None:
    """Load the compiled hashes if ``rows`` are many. What this process hashes after it is hashed by them.

    Numba refuses to compile where it may not keep what it compiled, neither beside the package nor in the user's
    cache: then every process would compile anew, and numpy goes on hashing.
    """
    if rows < FROM_ROWS or _LOADED.hashes is not None or _LOADED.is_refused:
        return
    try:
        _LOADED.hashes = cast("Hashes", importlib.import_module("backfill_assets.quality.compiled_hashes"))
    except RuntimeError:
        _LOADED.is_refused = True


def compiled_hashes() -> Hashes | None:
    """The compiled hashes, if this process has loaded them."""
    return _LOADED.hashes


def forget() -> None:
    """Hash with numpy again, until many rows come: what a test begins with."""
    _LOADED.hashes, _LOADED.is_refused = None, False
