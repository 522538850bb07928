"""Commands of ``backfill`` as processes of their own, killed with -9 at random moments and started again.

A kill takes the process alone, or its JVM with it: by chance. What is left running is ended by :meth:`Processes.end`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import psutil

_CHANCE_OF_THE_JVM = 0.5
_SHOWN = 600
"""Characters of a message that are kept."""


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended by itself: after kills and new starts, if there were any."""

    arguments: tuple[str, ...]
    status: int
    output: str
    problem: str
    """The end of what it wrote to standard error."""
    began: float
    ended: float

    @property
    def succeeded(self) -> bool:
        return self.status == 0

    def json(self) -> Any:
        return json.loads(self.output)


@dataclass
class Processes:
    """Starts commands on one home. Of each process that it started it knows the children, to end them too."""

    home: Path
    _started: list[psutil.Process] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(
        self, arguments: Sequence[str], output: IO[bytes], problems: IO[bytes], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", "from backfill_assets.cli import main; main()", *arguments],
            env=self.environment() | dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=problems,
            start_new_session=True,
        )
        self._remember(process.pid)
        return process

    def kill(self, process: subprocess.Popen[bytes], *, with_children: bool) -> None:
        """As ``kill -9``. A child that is left notices by itself that its starter is gone."""
        children = self._remember(process.pid)
        process.kill()
        process.wait()
        if with_children:
            _kill(children)

    def end(self) -> None:
        """Kill what still runs."""
        for process in list(self._started):
            self._remember(process.pid)
        _kill(self._started)

    def _remember(self, pid: int) -> list[psutil.Process]:
        with self._lock, suppress(psutil.Error):
            process = psutil.Process(pid)
            family = process.children(recursive=True)
            self._started += [process, *family]
            return family
        return []

    def environment(self) -> dict[str, str]:
        """That of a person's terminal, with this home."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "SPARK_REMOTE"))}
        return kept | {"BACKFILL_HOME": str(self.home)}


def _kill(processes: Sequence[psutil.Process]) -> None:
    """A process that has ended is left alone, also if another one has its number now."""
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running():
                process.kill()


@dataclass
class KilledCommands:
    """Runs commands one after another. While ``kills`` are left, each is killed at a random moment and started again.

    ``seconds`` is how long a command of a kind takes, until one was measured.
    """

    name: str
    processes: Processes
    folder: Path
    random: random.Random
    kills: int
    variables: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 20.0
    killed: list[str] = field(default_factory=list)
    """Each kill: the command, and after how many seconds."""
    ends: list[CommandEnd] = field(default_factory=list)
    _measured: dict[str, float] = field(default_factory=dict)

    @property
    def kills_left(self) -> int:
        return self.kills - len(self.killed)

    @property
    def refused(self) -> list[CommandEnd]:
        return [each for each in self.ends if not each.succeeded]

    def run(self, *arguments: str) -> CommandEnd:
        """Run a command to its end, and start it again after each kill."""
        began = time.time()
        while True:
            ended = self._run_once(arguments, began)
            if ended is not None:
                self.ends.append(ended)
                return ended

    def _run_once(self, arguments: tuple[str, ...], began: float) -> CommandEnd | None:
        """None if it was killed."""
        kind, started = arguments[0], time.monotonic()
        with self._files() as (output, problems):
            process = self.processes.start(arguments, output, problems, self.variables)
            if self._is_killed(process, kind):
                self.killed.append(f"{kind} after {time.monotonic() - started:.1f} s")
                return None
            status = process.wait()
            self._measured[kind] = time.monotonic() - started
            output.seek(0)
            problems.seek(0)
            written = output.read().decode(), problems.read().decode(errors="replace")[-_SHOWN:]
        return CommandEnd(arguments, status, *written, began, time.time())

    def _is_killed(self, process: subprocess.Popen[bytes], kind: str) -> bool:
        if self.kills_left <= 0:
            return False
        try:
            process.wait(self._measured.get(kind, self.seconds) * self.random.uniform(0.2, 1.0))
        except subprocess.TimeoutExpired:
            self.processes.kill(process, with_children=self.random.random() < _CHANCE_OF_THE_JVM)
            return True
        return False

    @contextmanager
    def _files(self) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        number = len(self.killed) + len(self.ends)
        files = (self.folder / f"{self.name}-{number}.{kind}" for kind in ("out", "err"))
        with next(files).open("w+b") as output, next(files).open("w+b") as problems:
            yield output, problems


@dataclass
class KilledStream:
    """A stream that is started again as soon as it was killed; what all of its starts have reported is in one file."""

    processes: Processes
    folder: Path
    random: random.Random
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    """How a process ended that was not killed."""
    most_memory: int = 0
    """Bytes of the process with its children, whenever it was watched."""
    _process: subprocess.Popen[bytes] | None = None
    _reported: int = 0
    _started: float = 0.0

    @property
    def output(self) -> Path:
        return self.folder / "stream.jsonl"

    @property
    def problems(self) -> Path:
        return self.folder / "stream.err"

    def start(self) -> None:
        self._reported, self._started = len(self.batches()), time.monotonic()
        with self.output.open("ab") as output, self.problems.open("ab") as problems:
            self._process = self.processes.start(self.arguments, output, problems, self.variables)

    def watch(self) -> None:
        """Start it again if it ended by itself, and keep how."""
        if self._process is not None and (status := self._process.poll()) is not None:
            self.unexpected.append(f"the stream ended with {status}: {self.problems.read_text()[-_SHOWN:]}")
            self.start()
        self.most_memory = max(self.most_memory, self._memory())

    def _memory(self) -> int:
        with suppress(psutil.Error, AttributeError):
            process = psutil.Process(self._process.pid)  # type: ignore[union-attr]
            return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))
        return 0

    @property
    def has_worked(self) -> bool:
        """Has it published a batch since its start? Killed earlier each time, it would never come to anything."""
        return len(self.batches()) > self._reported

    def kill(self) -> None:
        """Kill it, and start it again at once."""
        assert self._process is not None, "the stream was never started"
        with_children = self.random.random() < _CHANCE_OF_THE_JVM
        self.processes.kill(self._process, with_children=with_children)
        self.killed.append(f"{datetime.now(UTC):%H:%M:%S} after {time.monotonic() - self._started:.1f} s")
        self.start()

    def stop(self, seconds: float) -> int:
        """End it as Ctrl-C does: after the running batch."""
        assert self._process is not None, "the stream was never started"
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.unexpected.append(f"the stream did not end within {seconds:.0f} s of Ctrl-C")
            self.processes.kill(self._process, with_children=True)
            return -signal.SIGKILL

    def reports(self) -> list[dict[str, Any]]:
        """What was reported. The last line of a process that was killed may be cut."""
        found = []
        for line in self.output.read_text().splitlines() if self.output.exists() else []:
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    def batches(self) -> list[dict[str, Any]]:
        return [each for each in self.reports() if each.get("event") == "batch"]
