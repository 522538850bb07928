"""The parts of ``backfill dev``: processes that are started again when they end, and are stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil

from backfill_assets.cli.dev.sessions import living_sessions, stop_sessions
from backfill_assets.errors import BackfillError
from backfill_assets.spark.service import command_line

LOOK_EVERY_SECONDS = 0.5
MOST_EARLY_ENDS = 5
_EARLY_SECONDS = 20.0


class DevPartEnded(BackfillError):
    """A part of ``backfill dev`` ends again and again right after its start."""


@dataclass
class DevPart:
    """One process: ``start`` starts it in a session of its own, and returns when it can be used.

    With ``has_worker``, a child of the process does the work: the process counts as ended when it has no child left.
    With ``has_owner``, it is restarted here and stopped by its owner. A part whose ``start`` does not wait until it can
    be used says by ``is_ready`` when that is.
    """

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    has_worker: bool = False
    has_owner: bool = False
    is_ready: Callable[[], bool] = lambda: True
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    early_ends: int = 0
    is_awaited: bool = False
    """It was started again, and was not ready so far."""

    def ending(self) -> str:
        """How it ended; empty while it works."""
        if self.process is None:
            return ""
        code = self.process.poll()
        if code is not None:
            return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        old_enough = time.monotonic() - self.started > _EARLY_SECONDS
        lost = self.has_worker and old_enough and _is_alone(self.process)
        return "lost the process that does its work" if lost else ""


@dataclass
class DevParts:
    """Starts ``parts`` in their order, and each of them again whenever it ends."""

    parts: Sequence[DevPart]
    say: Callable[[str], None]
    _sessions: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Every process started, while something of its session is left: runs outlive the code server that started them."""

    def start(self) -> None:
        for part in self.parts:
            self._start(part)

    def watch(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """While ``goes_on``; :class:`DevPartEnded` for a part that ends :data:`MOST_EARLY_ENDS` times in a row."""
        while goes_on():
            self.restart_ended()
            time.sleep(LOOK_EVERY_SECONDS)

    def restart_ended(self) -> bool:
        """Check every part once. True if one had to be started again."""
        self._sessions = living_sessions(self._sessions)
        ended = [(part, how) for part in self.parts if (how := part.ending())]
        for part, how in ended:
            self._restart(part, how)
        for part in self.parts:
            self._report_back(part)
        return bool(ended)

    def stop(self) -> None:
        """End every process with all that it started: a run that has to stop gets some seconds to say so."""
        stop_sessions(self._sessions)

    def _restart(self, part: DevPart, how: str) -> None:
        part.early_ends = part.early_ends + 1 if time.monotonic() - part.started < _EARLY_SECONDS else 1
        if part.early_ends >= MOST_EARLY_ENDS:
            raise DevPartEnded(
                f"The {part.name} {how}, {part.early_ends} times in a row within {_EARLY_SECONDS:.0f} s of its start.",
                hint="Its last lines above say why; when that is put right, start the command again.",
            )
        self.say(f"The {part.name} {how}. Starting it again ...")
        if part.process is not None and part.process.poll() is None:
            os.kill(part.process.pid, signal.SIGKILL)
        try:
            self._start(part)
        except BackfillError as error:
            # The next check counts this as one more early end.
            part.started = time.monotonic()
            self.say(str(error))
        else:
            part.is_awaited = True

    def _report_back(self, part: DevPart) -> None:
        if part.is_awaited and not part.ending() and part.is_ready():
            part.is_awaited = False
            self.say(f"The {part.name} is back.")

    def _start(self, part: DevPart) -> None:
        part.process = part.start()
        part.started = time.monotonic()
        if not part.has_owner:
            self._sessions.append(part.process)


def _is_alone(process: subprocess.Popen[bytes]) -> bool:
    """True if it lives and has no living child."""
    try:
        children = psutil.Process(process.pid).children()
    except psutil.NoSuchProcess:
        return False
    return process.poll() is None and not any(command_line(child.pid) for child in children)
