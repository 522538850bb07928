"""Of several streams of one table one has the lease: nobody is granted it while another one's is in force."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime


@dataclass
class Grant:
    """The last time that a stream was told that it has the lease: which it asked for at ``begin``."""

    begin: int
    end: int
    until: datetime
    alone: bool
    """Nobody asked meanwhile: it had the lease then, and not only before."""


class LeaseJudge:
    """Moments are ordinals of questions and answers."""

    def __init__(self) -> None:
        self.granted: dict[tuple[str, str], Grant] = {}
        self._asking: dict[tuple[str, str], bool] = {}
        """By who asks: whether nobody else of the same table has asked since."""
        self._ordinal = 0

    @contextmanager
    def asks(self, table: str, stream: str) -> Iterator[Callable[[datetime, datetime], None]]:
        """While ``stream`` asks for the lease; granted, it tells until when it has it, and what time it is."""
        key, begin = (table, stream), self._next()
        others = [each for each in self._asking if each[0] == table]
        self._asking |= dict.fromkeys(others, False)
        self._asking[key] = not others

        def told(until: datetime, at: datetime) -> None:
            mine = self.granted.get(key)
            for (of, other), grant in self.granted.items():
                later = mine is None or grant.begin > mine.end
                if of == table and other != stream and grant.alone and later and grant.end < begin:
                    assert grant.until <= at, f"{stream} and {other} both stream into {table}"
            self.granted[key] = Grant(begin, self._next(), until, self._asking[key])

        try:
            yield told
        finally:
            del self._asking[key]

    def ended(self, table: str, stream: str) -> None:
        """It gives the lease back, or its process is known to have lost it."""
        self.granted.pop((table, stream), None)

    def _next(self) -> int:
        self._ordinal += 1
        return self._ordinal
