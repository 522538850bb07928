"""Runs real code step by step: every actor has a thread, and exactly one thread runs at a time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from backfill_assets.publish.crash_points import CrashPoint

HITS: Counter[str] = Counter()
"""How often each step was reached, and how often an actor died there, over all runs of this process."""


class Crashed(BaseException):
    """The process of an actor dies: nothing of the code under test may catch it."""


class Actor:
    """A process that works on the lakehouse. ``work`` calls :meth:`reached` at every step, and waits there."""

    def __init__(self, name: str, work: Callable[[Actor], object]) -> None:
        self.name = name
        self.at = "start"
        self.finished = False
        self.error: BaseException | None = None
        self.refusal: Exception | None = None
        self._doomed = False
        self._go = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def reached(self, step: CrashPoint | str, about: str = "") -> None:
        """Called by the code under test, in the actor's thread: hand over, and wait to be advanced."""
        self.at = str(step)
        HITS[self.at] += 1
        self._wait()

    def advance(self) -> None:
        """Let the actor run to its next step, or to its end."""
        if not self.finished:
            self._go.release()
            self._paused.acquire()

    def advance_to(self, step: str) -> None:
        """Let the actor run until it stands at ``step``, or to its end."""
        self.advance()
        while not self.finished and self.at != step:
            self.advance()

    def run_out(self) -> None:
        while not self.finished:
            self.advance()

    def crash(self) -> None:
        """The actor dies where it stands; files and tables stay as they are."""
        if not self.finished:
            HITS["died at " + self.at] += 1
            self._doomed = True
            self.advance()
            self._thread.join()

    def _wait(self) -> None:
        self._paused.release()
        self._go.acquire()
        if self._doomed:
            raise Crashed

    def _run(self) -> None:
        try:
            self._go.acquire()
            if not self._doomed:
                self._work(self)
        except Crashed:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.finished = True
            self._paused.release()


def never_hit(prefix: str = "") -> list[str]:
    """The named steps that no run has reached (or, with a prefix, where no actor has died)."""
    return [step.value for step in CrashPoint if not HITS[prefix + step.value]]


def report() -> str:
    """Hits per step, for the output of a test run."""
    rows = [f"{step.value:18} {HITS[step.value]:7} {HITS['died at ' + step.value]:6}" for step in CrashPoint]
    return "\n".join(["step               reached   died", *rows])
