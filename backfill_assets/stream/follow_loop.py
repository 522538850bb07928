"""The second loop: facts follow in a thread of their own, so that no batch of raw waits for those of the one before.

Which thread has what?

- The one that waits: the query, what the source has, and the minute without a batch.
- Spark's: a batch, the reading, the throttle. ``LiveStream``'s lock of a batch hands them to the one that waits.
- That of the facts: the follower, with Delta handles, readers of logs and memory of its own. Raw hands over batches,
  and sees what waits and what failed.

Lease and reporter have a lock each, and whoever publishes to raw its turn.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from backfill_assets.lakehouse.disk import full_disk
from backfill_assets.stream.gained import NOTHING, Gained, GainedBatch

_LOOK_SECONDS = 1.0
_TURN_SECONDS = 0.0005


class Following(Protocol):
    """What a stream does with what raw gained."""

    @property
    def waiting(self) -> Gained:
        """What no following has taken yet."""

    @property
    def is_at_work(self) -> bool:
        """Also if something waits."""

    @property
    def failure(self) -> BaseException | None:
        """What ended it."""

    def add(self, batch: GainedBatch) -> None: ...

    def again(self) -> None:
        """What was left is tried again."""

    def pause(self, seconds: float) -> None:
        """Wait until it has taken or done something, at most so long."""

    def stop(self, seconds: float) -> None:
        """Let it do what it has, within so many seconds; what is left is for the next start."""


@contextmanager
def short_turns() -> Iterator[None]:
    """A thread that comes back from a file or a database waits while the other one computes: by default 5 ms each time,
    which makes both loops half as fast.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@dataclass
class InTurn:
    """In raw's own thread, where nothing follows."""

    follow: Callable[[Gained], None]
    follow_again: Callable[[], None]
    waiting: Gained = NOTHING
    is_at_work: bool = False
    failure: BaseException | None = None

    def add(self, batch: GainedBatch) -> None:
        self.follow(Gained((batch,)))

    def again(self) -> None:
        self.follow_again()

    def pause(self, seconds: float) -> None:
        pass

    def stop(self, seconds: float) -> None:
        pass


@dataclass
class FollowLoop:
    """At most one following at a time: meanwhile batches add up, and the next one takes them all."""

    follow: Callable[[Gained], None]
    follow_again: Callable[[], None]
    waiting: Gained = NOTHING
    failure: BaseException | None = None
    _is_asked_again: bool = False
    _at_work: bool = False
    _stopping: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    """Guards all of these."""
    _thread: threading.Thread | None = None

    @property
    def is_at_work(self) -> bool:
        with self._changed:
            return not self._is_idle()

    def add(self, batch: GainedBatch) -> None:
        with self._changed:
            self.waiting = self.waiting.plus(batch)
            self._begin()

    def again(self) -> None:
        with self._changed:
            self._is_asked_again = True
            self._begin()

    def pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait(seconds)

    def stop(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(self._is_idle, seconds)
            self._stopping = True
            self._changed.notify_all()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="stream-facts")
            self._thread.start()
        self._changed.notify_all()

    def _is_idle(self) -> bool:
        return self.failure is not None or not (self._at_work or self.waiting or self._is_asked_again)

    # ------------------------------------------------------------------ its thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._work(*self._take())
        except BaseException as error:
            with self._changed:
                self.failure = error
                self._changed.notify_all()

    def _take(self) -> tuple[Gained, bool]:
        with self._changed:
            self._at_work = False
            self._changed.notify_all()
            while not (self.waiting or self._is_asked_again or self._stopping):
                self._changed.wait(_LOOK_SECONDS)
            if self._stopping:
                return NOTHING, False
            taken = self.waiting, self._is_asked_again
            self.waiting, self._is_asked_again, self._at_work = NOTHING, False, True
            return taken

    def _work(self, taken: Gained, is_asked_again: bool) -> None:
        where = "in the middle of a batch" if taken else "between batches"
        try:
            if taken:
                self.follow(taken)
            elif is_asked_again:
                self.follow_again()
        except Exception as error:
            raise full_disk(f"The stream stopped {where}", error) or error from error
