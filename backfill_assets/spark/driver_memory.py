"""How much of this machine's memory Spark's driver may take."""

from __future__ import annotations

from backfill_assets.judge.engine import usable_memory

_GIB = 1024**3


def driver_memory(usable: int | None = None) -> str:
    """A quarter of it, in whole GiB from 1 to 8, for ``spark.driver.memory``: two runs and Dagster fit beside it."""
    return f"{min(8, max(1, (usable_memory() if usable is None else usable) // 4 // _GIB))}g"
