"""Only here time is read, waited and drawn; :func:`use` replaces it in tests."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from typing import Protocol


class Clock(Protocol):
    """A process's nondeterminism."""

    def now(self) -> datetime:
        """UTC."""

    def seconds(self) -> float:
        """Monotonic."""

    def sleep(self, seconds: float) -> None:
        pass

    def token(self, length: int) -> str:
        """Unguessable, two hexadecimal digits a byte."""

    def between(self, least: float, most: float) -> float:
        """Random: waiting processes do not return together."""


class MachineClock:
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
    return _clock.now()


def today() -> date:
    return _clock.now().date()


def seconds() -> float:
    return _clock.seconds()


def sleep(seconds: float) -> None:
    _clock.sleep(seconds)


def token(length: int) -> str:
    """Two random hexadecimal digits a byte; safe as a secret."""
    return _clock.token(length)


def between(least: float, most: float) -> float:
    return _clock.between(least, most)


@contextmanager
def use(clock: Clock) -> Iterator[None]:
    global _clock  # noqa: PLW0603
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before
