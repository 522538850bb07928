"""A life of an actor: a thread that runs the package's unchanged code, and that goes on only when it has the baton."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from backfill_assets_tests.death import Died
from backfill_assets_tests.simulator.schedule import Ending, Turn
from backfill_assets_tests.simulator.store import Fault


class Process:
    """Passes the steps of its turns. Exactly one thread of a world runs at any time."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.at = "start"
        """The call, or the place in the code, that it stands before."""
        self.died_at = ""
        self.struck = False
        """Has one of its calls gone wrong?"""
        self.finished = False
        self.error: BaseException | None = None
        self.passed = 0
        self._left = 0
        self._ends: Ending = "waits"
        self._doomed = False
        self._work = work
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def step(self, what: str) -> Fault | None:
        """Called before each thing that others could see or overtake; says how a call goes wrong."""
        if self._doomed:  # What is closed on the way out is not: the process is gone.
            raise Died
        self.at = what
        while self._left == 0:
            ends, self._ends = self._ends, "waits"
            if ends == "dies":
                self._doomed, self.died_at = True, what
                raise Died
            if ends != "waits":
                self.struck = True
                self._doomed = ends == "dies in the middle"
                self.died_at = what if self._doomed else ""
                return ends
            self._back.release()
            self._go.acquire()
        self._left -= 1
        self.passed += 1
        return None

    def rest(self) -> None:
        """Its turn ends here: there is nothing more for it to do at the moment."""
        self._left = 0

    def take(self, turn: Turn) -> None:
        """Let it have its turn, to the end of which, or of its work, the caller waits."""
        if not self.finished:
            self._left, self._ends = turn.steps, turn.ends
            self._go.release()
            self._back.acquire()
            self._join()

    def _join(self) -> None:
        if self.finished:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._go.acquire()
            self._work()
        except Died:
            self.died_at = self.died_at or self.at
        except BaseException as error:
            self.error = error
        finally:
            self.finished = True
            self._back.release()


class Undisturbed(Process):
    """The caller itself: nobody goes on meanwhile, and nothing goes wrong."""

    def __init__(self) -> None:
        self.struck = self.finished = False
        self.passed = 0

    def step(self, what: str) -> None:
        return None

    def rest(self) -> None:
        return None


@contextmanager
def no_lock_is_held() -> Iterator[None]:
    """Python 3.11 computes a cached property under a lock of its whole class: who waits there would stop everybody."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functools.cached_property, "__get__", _computed)
        yield


def _computed(cached: Any, instance: Any, owner: object = None) -> Any:
    """As later versions of Python do it."""
    if instance is None:
        return cached
    known = instance.__dict__
    if cached.attrname not in known:
        known[cached.attrname] = cached.func(instance)
    return known[cached.attrname]
