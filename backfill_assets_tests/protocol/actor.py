"""Runs real code step by step: every actor has a thread, and exactly one thread runs at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.publish.crash_points import CrashPoint


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
        self._wait()

    def advance(self) -> None:
        """Let the actor run to its next step, or to its end."""
        if not self.finished:
            self._go.release()
            self._paused.acquire()

    def run_out(self) -> None:
        while not self.finished:
            self.advance()

    def crash(self) -> None:
        """The actor dies where it stands; files and tables stay as they are."""
        if not self.finished:
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


@dataclass(frozen=True)
class SteppedStorage(Storage):
    """Calls ``reached`` before each call that others can be faster than."""

    reached: Callable[[str], None] = field(default=print, compare=False)

    def files(self, path: str, *, recursive: bool = False) -> list[StoredFile]:
        self.reached("list files")
        return super().files(path, recursive=recursive)

    def folders(self, path: str) -> list[str]:
        self.reached("list folders")
        return super().folders(path)

    def read_bytes(self, path: str) -> bytes:
        self.reached("read")
        return super().read_bytes(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.reached("put")
        return super().put_if_absent(path, data)

    def replace_bytes(self, path: str, data: bytes) -> None:
        self.reached("replace")
        super().replace_bytes(path, data)

    def delete(self, path: str) -> None:
        if not path.endswith(".tmp"):
            self.reached("delete")
        super().delete(path)
