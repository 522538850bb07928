"""The machine that a figure was taken on, and how busy it was: without them a figure says nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "dagster", "pyarrow")


@dataclass(frozen=True)
class Machine:
    """``memory_gib`` is what the machine has; ``versions`` are those of the project's own environment."""

    cpu: str
    cores: int
    memory_gib: int
    system: str
    python: str
    java: str
    versions: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        packages = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{self.cpu}, {self.cores} cores, {self.memory_gib} GiB; Python {self.python}, {self.java}; {packages}"


def this_machine() -> Machine:
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3),
        system=platform.system(),
        python=platform.python_version(),
        java=_java(),
        versions={name: version(name) for name in _PACKAGES},
    )


def load() -> float:
    """Processes that want a core, averaged over the last minute; a benchmark alone makes 1 to 3 of them on 2 cores."""
    return round(os.getloadavg()[0], 1)


def _cpu() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _java() -> str:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()  # noqa: S607
    return told[0].strip() if told else "no Java"
