"""A clock that all processes of a world share, and whose days pass in no time; what is drawn comes from its seed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

BEGINS = datetime(2017, 4, 3, 9, tzinfo=UTC)
TICK = timedelta(milliseconds=1)
"""What a look takes: two looks never show the same moment, so that names with a moment in them differ."""


class SimulatedClock:
    """``at`` is called when a process looks or waits: somebody else may go on meanwhile."""

    def __init__(self, seed: str, at: Callable[[str], object] = lambda what: None) -> None:
        self.moment = BEGINS
        self.at = at
        self._draw = Random(f"clock {seed}")

    def now(self) -> datetime:
        self.at("look at the clock")
        self.moment += TICK
        return self.moment

    def seconds(self) -> float:
        return (self.moment - BEGINS).total_seconds()

    def sleep(self, seconds: float) -> None:
        """Who waits has waited: time passes for all, as long as nobody else goes on first."""
        until = self.moment + timedelta(seconds=seconds)
        self.at("wait")
        self.moment = max(self.moment, until)

    def token(self, length: int) -> str:
        return self._draw.randbytes(length).hex()

    def between(self, least: float, most: float) -> float:
        return self._draw.uniform(least, most)

    def milliseconds(self) -> int:
        """Since 1970, without a look."""
        return int(self.moment.timestamp() * 1000)

    stamp = milliseconds

    def pass_on(self, time: timedelta) -> None:
        self.moment += time
