"""Which of the two ways to hash a test uses: the process would take the compiled one once it has many rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from backfill_assets.quality import compilation

Way = Literal["numpy", "compiled"]
WAYS: tuple[Way, ...] = ("numpy", "compiled")


@contextmanager
def hashed_by(way: Way) -> Iterator[None]:
    """Hash by ``way`` until the end of the block."""
    loaded = compilation.compiled_hashes()
    compilation.forget()
    if way == "compiled":
        compilation.compile_for(compilation.FROM_ROWS)
    try:
        yield
    finally:
        compilation.forget()
        if loaded is not None:
            compilation.compile_for(compilation.FROM_ROWS)
