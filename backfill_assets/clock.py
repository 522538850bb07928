"""The one place that asks for the time, waits, and draws at random; all of it can be replaced together.

A decision takes moments as arguments. What is below this module's callers gets them from :func:`now`, so that one
clock shows everybody the same time, and a week passes in a test in no time.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Protocol


class Clock(Protocol):
    """What a process asks that is not in its files: another answer each time."""

    def now(self) -> datetime:
        """The moment, in UTC."""

    def seconds(self) -> float:
        """Seconds since some moment in the past, which nobody sets back: for how long something takes."""

    def sleep(self, seconds: float) -> None:
        """Come back after so many seconds."""

    def token(self, length: int) -> str:
        """Hexadecimal digits that nobody has drawn before, and nobody can guess: two for each of ``length`` bytes."""

    def between(self, least: float, most: float) -> float:
        """Any number of a range, so that those who wait for one another do not come back together."""


class MachineClock:
    """The clock and the randomness of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def seconds(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def token(self, length: int) -> str:
        return secrets.token_hex(length)

    def between(self, least: float, most: float) -> float:
        return random.uniform(least, most)  # noqa: S311


_clock: Clock = MachineClock()


def now() -> datetime:
    """The moment, in UTC."""
    return _clock.now()


def today() -> date:
    """The day in UTC."""
    return _clock.now().date()


def seconds() -> float:
    """Seconds that only grow: the difference of two is how long something took."""
    return _clock.seconds()


def sleep(seconds: float) -> None:
    """Wait so many seconds."""
    _clock.sleep(seconds)


def token(length: int) -> str:
    """A new name, of two hexadecimal digits for each of ``length`` bytes; safe as a secret."""
    return _clock.token(length)


def between(least: float, most: float) -> float:
    """A random number of a range."""
    return _clock.between(least, most)


@contextmanager
def use(clock: Clock) -> Iterator[None]:
    """Have ``clock`` answer in all threads of this process while the block runs."""
    global _clock  # noqa: PLW0603
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before
