"""How much of this machine's memory Spark's driver may take."""

from __future__ import annotations

from pathlib import Path

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_GIB = 1024**3


def usable_memory() -> int:
    """Bytes: the machine's, or the container's where that is less."""
    import psutil

    physical = psutil.virtual_memory().total
    return min([physical, *(limit for file in _LIMITS if (limit := _limit(file)) is not None)])


def driver_memory(usable: int | None = None) -> str:
    """A quarter of it, in whole GiB from 1 to 8, for ``spark.driver.memory``: two runs and Dagster fit beside it."""
    return f"{min(8, max(1, (usable_memory() if usable is None else usable) // 4 // _GIB))}g"


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
