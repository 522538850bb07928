"""Times a command as a whole: the clock, the CPU seconds and the greatest memory of it and everything it started."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.backfill.machine import load

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Timed:
    """One run of a command. ``peak_mib`` is the largest process it had."""

    seconds: float
    cpu_seconds: float
    peak_mib: int
    load: float
    jvm: bool
    """Whether it started one, or was one."""
    output: str = ""
    peak_mib_of_jvm: int = 0
    peak_mib_of_others: int = 0
    """Of the largest process besides the JVM."""


@dataclass
class ProcessFamily:
    """What the processes of one session used, the ended ones included, as far as they were looked at."""

    session: int
    cpu: dict[int, float] = field(default_factory=dict)
    peak_kib: int = 0
    peak_kib_of_jvm: int = 0
    peak_kib_of_others: int = 0
    jvm: bool = False

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())

    def look(self) -> None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                self._look_at(entry)

    def _look_at(self, process: Path) -> None:
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) != self.session:
                return
            self.cpu[int(process.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
            # What the JVM is about to start has its memory until then, and the name of one of its threads.
            is_jvm = (process / "exe").readlink().name == "java"
            self.jvm |= is_jvm
            status = (process / "status").read_text()
        except (OSError, IndexError):
            return  # it ended while it was looked at
        peak = max([0, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))])
        self.peak_kib = max(self.peak_kib, peak)
        if is_jvm:
            self.peak_kib_of_jvm = max(self.peak_kib_of_jvm, peak)
        else:
            self.peak_kib_of_others = max(self.peak_kib_of_others, peak)


def timed(command: Sequence[str], environment: Mapping[str, str], log: Path, timeout_seconds: float = 3600) -> Timed:
    """Run ``command`` and wait for its end; what it says goes to ``log``, what it prints is given back.

    Raises ``RuntimeError`` with its last words when it fails or takes longer than ``timeout_seconds``.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    before, started = load(), time.perf_counter()
    with log.open("w") as said, log.with_suffix(".out").open("w+") as printed:
        process = subprocess.Popen(
            list(command), env={**os.environ, **environment}, stdout=printed, stderr=said, start_new_session=True
        )
        family = ProcessFamily(process.pid)
        while process.poll() is None:
            family.look()
            if time.perf_counter() - started > timeout_seconds:
                process.kill()
            time.sleep(_POLL_SECONDS)
        seconds = time.perf_counter() - started
        printed.seek(0)
        output = printed.read()
    if process.returncode != 0:
        words = "\n".join((output + log.read_text()).splitlines()[-25:])
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode} after {seconds:.0f} s:\n{words}")
    cpu = round(family.cpu_seconds, 2)
    return Timed(
        round(seconds, 2),
        cpu,
        family.peak_kib // 1024,
        before,
        family.jvm,
        output,
        family.peak_kib_of_jvm // 1024,
        family.peak_kib_of_others // 1024,
    )
