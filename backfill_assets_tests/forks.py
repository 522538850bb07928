"""Processes to be killed, forked where everything is imported and nothing was opened: a second less for each.

A module calls :func:`serve`. Each line of its standard input, with tabs between the words, starts one process. The
first answer is its process id, the last one ``ended`` and its status; between them is what it says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import pyarrow as pa

_ENDED = "ended"


def serve(run: Callable[..., int]) -> None:
    """Each process calls ``run`` with the words of its line, and ends with what that returns."""
    pa.array([0])  # Arrow's first array imports pandas: here, and not in each process
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            say(str(os.getpid()))
            os._exit(_status(run, line.rstrip("\n").split("\t")))
        _, status = os.waitpid(child, 0)
        say(f"{_ENDED} {os.waitstatus_to_exitcode(status)}")


def say(line: str) -> None:
    """In one piece and at once: both processes write to the same pipe, each in its turn."""
    os.write(1, f"{line}\n".encode())


def _status(run: Callable[..., int], words: Sequence[str]) -> int:
    try:
        return run(*words)
    except Exception:
        traceback.print_exc()
        return 1


@dataclass
class Forks:
    """Starts the processes of a module that serves, one after the other; each has to end with one of ``statuses``."""

    process: subprocess.Popen[str]
    statuses: Collection[int]

    def start(self, *words: object) -> int:
        """Its process id."""
        assert self.process.stdin
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return int(self.next())

    def next(self) -> str:
        """What it says next."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the process that starts them has ended"
        return line.strip()

    def end(self, said: Sequence[str] = ()) -> tuple[int, list[str]]:
        """The status, and what it has said, with what was read already."""
        lines = list(said)
        while not (line := self.next()).startswith(_ENDED):
            lines.append(line)
        status = int(line.removeprefix(_ENDED))
        assert status in self.statuses, "its traceback is in standard error"
        return status, lines

    def run(self, *words: object) -> tuple[int, list[str]]:
        self.start(*words)
        return self.end()


@contextmanager
def forks_of(module: ModuleType, *statuses: int) -> Iterator[Forks]:
    """The processes of a ``module``; they may be killed, too."""
    command = [sys.executable, "-m", module.__name__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Forks(process, {-9, *statuses})
        finally:
            assert process.stdin
            process.stdin.close()
