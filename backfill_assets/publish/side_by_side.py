"""Sends to several places at once, to each in order: a place that hangs holds up no other.

Daemon threads that nobody joins send; all else is in the caller's thread, between two answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from backfill_assets import clock
from backfill_assets.errors import NoAnswer, NotDelivered

T = TypeVar("T")


@dataclass(frozen=True)
class RoundLimits:
    message_seconds: float = 10.0
    round_seconds: float = 10.0

    @property
    def words(self) -> str:
        return f"no answer within {self.message_seconds:g} s"


LIMITS = RoundLimits()


@dataclass(frozen=True)
class Answered(Generic[T]):
    place: str
    message: T
    error: NotDelivered | None = None


@dataclass
class SideBySide(Generic[T]):
    """``next_of`` gives a place's next message; ``in_caller`` places cannot hang."""

    next_of: Callable[[str], T | None]
    send: Callable[[str, T], None]
    limits: RoundLimits = LIMITS
    in_caller: Collection[str] = ()

    def answers(self, places: Collection[str]) -> Iterator[Answered[T]]:
        self._until, self._under_way = clock.seconds() + self.limits.round_seconds, dict[str, tuple[T, float]]()
        self._done: SimpleQueue[Answered[T]] = SimpleQueue()
        for place in places:
            self._begin(place)
        while self._under_way:
            answer = self._next_answer()
            if answer is None:
                yield from self._given_up()
            elif self._under_way.get(answer.place, (None,))[0] is answer.message:
                del self._under_way[answer.place]
                yield answer
                if not isinstance(answer.error, NoAnswer):
                    self._begin(answer.place)

    def _begin(self, place: str) -> None:
        if clock.seconds() >= self._until or (message := self.next_of(place)) is None:
            return
        self._under_way[place] = message, clock.seconds() + self.limits.message_seconds
        if place in self.in_caller:
            self._work(place, message)
        else:
            Thread(target=self._work, args=(place, message), name=f"notice to {place}", daemon=True).start()

    def _work(self, place: str, message: T) -> None:
        try:
            self.send(place, message)
        except NotDelivered as error:
            self._done.put(Answered(place, message, error))
        except Exception as error:
            # It must not end the round of the others; its text may contain an address.
            self._done.put(Answered(place, message, NotDelivered(f"it failed with {type(error).__name__}")))
        else:
            self._done.put(Answered(place, message))

    def _next_answer(self) -> Answered[T] | None:
        ends = min(end for _, end in self._under_way.values())
        try:
            return self._done.get(timeout=max(0.0, ends - clock.seconds()))
        except Empty:
            return None

    def _given_up(self) -> Iterator[Answered[T]]:
        """The place waited for is given up, whatever the clock shows."""
        now = max(clock.seconds(), min(end for _, end in self._under_way.values()))
        for place in [place for place, (_, end) in self._under_way.items() if end <= now]:
            message, _ = self._under_way.pop(place)
            yield Answered(place, message, NoAnswer(self.limits.words))
