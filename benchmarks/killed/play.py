"""The same workload for each: one process rewrites all days of all tables and is killed, again and again; others read.

Whatever a contender's processes told becomes a history. A rewrite is one publication, whose tables belong together:
the fact, and the reports that are made of it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

from backfill_assets_tests.simulator.history import History, Key, Operation, Outcome
from benchmarks.killed.contract import Held

_REPOSITORY = Path(__file__).resolve().parents[2]
_LEFT_ALONE_SECONDS = 0.4
"""What a kill left is there so long, until somebody tries again."""
_READERS = 2
_EVERY_NTH_ENDS, _LAST_KILLS = 4, 12
_PHASES = ("replaces", "commits")


@dataclass(frozen=True)
class Entrant:
    """A contender, with the interpreter that it runs in and what has to be up around it."""

    name: str
    module: str
    python: Path = Path(sys.executable)
    around: Callable[[Path], AbstractContextManager[object]] = nullcontext
    ways_to_read: tuple[str, ...] = ("pinned",)


@dataclass
class Played:
    """What came of it; ``apart`` counts the kills after which tables of different rewrites stood side by side."""

    entrant: Entrant
    history: History = field(default_factory=History)
    kills: int = 0
    apart: int = 0
    refused: list[str] = field(default_factory=list)
    left: Held = field(default_factory=dict)
    after_routine: Held = field(default_factory=dict)
    litter: int = 0
    rewrite_seconds: float = 0.0


def play(entrant: Entrant, home: Path, kills: int, seed: int) -> Played:
    """Set up, so many rewrites that are killed at random moments and some in between that are not, and a last look."""
    with entrant.around(home):
        return _Play(entrant, home, random.Random(f"{entrant.name} {seed}")).run(kills)


def is_whole(values: Held) -> bool:
    """All days of all tables are of one rewrite."""
    return len({value for days in values.values() for value in days.values()}) == 1


@dataclass
class _Play:
    entrant: Entrant
    home: Path
    draw: random.Random
    attempts: int = 0
    operations: list[Operation] = field(default_factory=list)
    killed_at: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    took: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in _PHASES})
    """Seconds from each phase to the end, of those that were not killed."""

    def run(self, kills: int) -> Played:
        self._set_up()
        with ExitStack() as running:
            for how in self.entrant.ways_to_read:
                for number in range(_READERS):
                    running.enter_context(self._reader(how, number))
            self._rewrite()
            while len(self.killed_at) < kills:
                self._kill_a_rewrite()
                if self.attempts % _EVERY_NTH_ENDS == 0:
                    self._rewrite()
            left = self._kill_until_apart()
        self._tell("routine")
        after, litter = self._look(), self._tell("litter")[-1]["litter"]
        reads = self._reads()
        history = History((*self.operations, *reads))
        apart = self._apart(reads)
        seconds = round(median(self.took["replaces"]), 2)
        return Played(self.entrant, history, len(self.killed_at), apart, self.refused, left, after, litter, seconds)

    def _kill_until_apart(self) -> Held:
        """What is left at the end, so that it is seen what becomes of it; whole where no kill leaves it apart."""
        for _ in range(_LAST_KILLS):
            self._kill_a_rewrite()
            if not is_whole(left := self._look()):
                break
        return left

    def _set_up(self) -> None:
        began = time.monotonic_ns()
        self._tell("set-up")
        writes = dict.fromkeys(_by_key(self._look()), "setup")
        nothing: dict[Key, str | None] = dict.fromkeys(writes)
        ended = time.monotonic_ns()
        self.operations.append(Operation("set-up", "publish", began, ended, "ok", writes, nothing, publication="setup"))

    def _rewrite(self) -> None:
        """To its end."""
        tag = self._next_tag()
        told = self._tell("rewrite", tag)
        self._note(tag, told)
        at = _moments(told)
        for phase in _PHASES:
            self.took[phase].append((at["done"] - at[phase]) / 1e9)

    def _kill_a_rewrite(self) -> None:
        """At a random moment since it was about to write, or to commit; it may come too late."""
        tag, phase = self._next_tag(), self.draw.choice(_PHASES)
        told: list[dict[str, Any]] = []
        with self._start("rewrite", tag) as process:
            for line in process.stdout or ():
                told += _lines([line])
                if told and phase in told[-1]:
                    break
            time.sleep(self.draw.random() * self.took[phase][-1])
            os.killpg(process.pid, signal.SIGKILL)
            killed_at = time.monotonic_ns()
            told += _lines(process.stdout or ())
        self._note(tag, told)
        if "done" not in told[-1]:
            self.killed_at.append(killed_at)
        time.sleep(_LEFT_ALONE_SECONDS)

    def _next_tag(self) -> str:
        self.attempts += 1
        return f"w{self.attempts}"

    def _note(self, tag: str, told: list[dict[str, Any]]) -> None:
        replaced = _by_key([line["replaces"] for line in told if "replaces" in line][-1])
        at = _moments(told)
        end, writes = at.get("done"), dict.fromkeys(replaced, tag)
        outcome: Outcome = "unknown" if end is None else "ok"
        process, begin = f"rewriter-{self.attempts}", at["begins"]
        self.operations.append(Operation(process, "publish", begin, end, outcome, writes, replaced, publication=tag))

    # -------------------------------------------------------------- processes

    @property
    def _log(self) -> Path:
        return self.home / "processes.log"

    def _start(self, *words: str, stdout: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        action, *more = words
        command = [str(self.entrant.python), "-m", self.entrant.module, action, str(self.home), *more]
        environment = {**os.environ, "PYTHONPATH": str(_REPOSITORY), "NO_COLOR": "1"}
        with self._log.open("a") as log:
            return subprocess.Popen(
                command,
                env=environment,
                cwd=self.home,
                stdout=stdout,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def _tell(self, *words: str) -> list[dict[str, Any]]:
        with self._start(*words) as process:
            told = _lines(process.stdout or ())
        if process.returncode:
            raise RuntimeError(f"{self.entrant.name}, {words[0]}: {self._log.read_text()[-2000:]}")
        return told

    def _look(self) -> Held:
        held: Held = next(line["reads"] for line in self._tell("read", "pinned", "1") if "reads" in line)
        return held

    @contextmanager
    def _reader(self, how: str, number: int) -> Iterator[None]:
        with (self.home / f"{how} {number}.jsonl").open("w") as told:
            process = self._start("read", how, stdout=told)
            try:
                yield
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _reads(self) -> list[Operation]:
        found = []
        for file in sorted(self.home.glob("*.jsonl")):
            for told in _lines(file.read_text().splitlines()):
                if "refused" in told:
                    self.refused.append(told["refused"])
                else:
                    pinned, reads = file.name.startswith("pinned"), _by_key(told["reads"])
                    began, ended = told["began"], told["ended"]
                    found.append(Operation(file.stem, "read", began, ended, "ok", reads=reads, pinned=pinned))
        return found

    def _apart(self, reads: Iterable[Operation]) -> int:
        """By what was read last before somebody tried again."""
        pinned, apart = [read for read in reads if read.pinned], 0
        for moment in self.killed_at:
            again = min((each.begin for each in self.operations if each.begin > moment), default=time.monotonic_ns())
            seen = [read for read in pinned if read.begin > moment and (read.end or again) < again]
            last = max(seen, key=lambda read: read.begin, default=None)
            apart += last is not None and len(set(last.reads.values())) > 1
        return apart


def _lines(lines: Iterable[str]) -> list[dict[str, Any]]:
    """What was told, but for a last line whose process died meanwhile, and what libraries print themselves."""
    found = []
    for line in lines:
        try:
            told = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(told, dict):
            found.append(told)
    return found


def _moments(told: list[dict[str, Any]]) -> dict[str, int]:
    """When each thing was told last."""
    return {name: line["at"] for line in told for name in line}


def _by_key(values: Held) -> dict[Key, str | None]:
    return {(table, day): value for table, days in values.items() for day, value in days.items()}
