"""What a benchmark says: measured values beside their goals, as a table and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.backfill.machine import load, this_machine
from benchmarks.backfill.timed import Timed


@dataclass(frozen=True)
class Goal:
    """A bound on a measured value: at most ``bound``, or at least."""

    bound: float
    at_least: bool = False

    def reached(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


@dataclass(frozen=True)
class Line:
    """One figure. ``value`` is the median of ``rounds``; ``load`` is the greatest before any of them."""

    what: str
    value: float
    unit: str
    rounds: tuple[float, ...] = ()
    goal: Goal | None = None
    note: str = ""
    load: float = 0.0

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "reached" if self.goal.reached(self.value) else "NOT REACHED"


def figure(what: str, rounds: Sequence[float], unit: str, goal: Goal | None = None, note: str = "") -> Line:
    """The median of ``rounds``, taken under the load of this moment."""
    return Line(what, round(statistics.median(rounds), 3), unit, tuple(rounds), goal, note, load())


def seconds(what: str, runs: Sequence[Timed], goal: Goal | None = None, note: str = "") -> Line:
    """The clock's seconds of ``runs``, with their CPU seconds and peak memory beside them."""
    cpu = statistics.median(run.cpu_seconds for run in runs)
    peak = max(run.peak_mib for run in runs)
    beside = f"CPU {cpu:.0f} s, {peak} MiB" + (f"; {note}" if note else "")
    rounds = tuple(run.seconds for run in runs)
    return Line(what, round(statistics.median(rounds), 2), "s", rounds, goal, beside, max(run.load for run in runs))


def ratios(what: str, of: Sequence[Timed], to: Sequence[Timed], goal: Goal | None = None) -> list[Line]:
    """Round by round: the clock's, held against the goal, and the CPU's, which other work on the machine moves less."""
    pairs = list(zip(of, to, strict=False))
    most = max(max(a.load, b.load) for a, b in pairs)
    clock = tuple(round(a.seconds / b.seconds, 3) for a, b in pairs)
    cpu = tuple(round(a.cpu_seconds / max(b.cpu_seconds, 0.01), 3) for a, b in pairs)
    return [
        Line(what, round(statistics.median(clock), 3), "ratio", clock, goal, load=most),
        Line(f"{what}, CPU seconds", round(statistics.median(cpu), 3), "ratio", cpu, load=most),
    ]


def say(lines: Sequence[Line]) -> None:
    rows = Table("what", "median", "", "rounds", "goal", "", "load", "beside it")
    for line in lines:
        rounds = " ".join(f"{each:g}" for each in line.rounds)
        goal = str(line.goal) if line.goal else ""
        rows.add_row(line.what, f"{line.value:g}", line.unit, rounds, goal, line.verdict, f"{line.load:g}", line.note)
    Console(width=None if Console().is_terminal else 220).print(rows)


def write(file: Path, size: str, lines: Sequence[Line]) -> None:
    """The same as JSON, with the machine and the time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    told = {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": asdict(this_machine()),
        "size": size,
        "figures": [{**asdict(line), "verdict": line.verdict} for line in lines],
    }
    file.write_text(json.dumps(told, indent=2) + "\n")
