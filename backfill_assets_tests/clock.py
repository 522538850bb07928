"""The clock of tests: time passes while somebody sleeps, and when it is told to."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

NOON = datetime(2017, 3, 10, 12, tzinfo=UTC)


@dataclass
class FakeClock:
    """It is noon; ``at_sleep`` is what happens while somebody sleeps. What it draws is a function of ``dice``."""

    moment: datetime = NOON
    slept: list[float] = field(default_factory=list)
    at_sleep: Callable[[], object] = lambda: None
    dice: random.Random = field(default_factory=random.Random)

    def now(self) -> datetime:
        return self.moment

    def seconds(self) -> float:
        """As a machine counts them that was started a while ago."""
        return 1_000 + (self.moment - NOON).total_seconds()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_seconds(seconds)
        self.at_sleep()

    def token(self, length: int) -> str:
        return self.dice.randbytes(length).hex()

    def between(self, least: float, most: float) -> float:
        return self.dice.uniform(least, most)

    def pass_seconds(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
