"""How much memory there is to share between programs."""

from __future__ import annotations

from pathlib import Path

_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def usable_memory() -> int:
    """Bytes: the machine's, or the container's where that is less."""
    import psutil

    physical = psutil.virtual_memory().total
    return min([physical, *(limit for file in _LIMITS if (limit := _limit(file)) is not None)])


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
