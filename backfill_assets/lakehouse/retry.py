"""Bounded retries around a commit, with jitter, reported after seconds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from backfill_assets import clock
from backfill_assets.errors import LakehouseBusy

MOST_ATTEMPTS = 200
"""About four minutes with the waits."""
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 2.0
_REPORT_EVERY_SECONDS = 5.0


def warn(message: str) -> None:
    logging.getLogger("backfill_assets.lakehouse").warning(message)


@dataclass
class Retry:
    what: str
    most: int = MOST_ATTEMPTS
    report: Callable[[str], None] = warn
    lost_attempts: int = 0
    _started: float = field(init=False)
    _reported: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self._reported = clock.seconds()

    def lost(self, reason: str) -> None:
        """Raises :class:`LakehouseBusy` after too many."""
        self.lost_attempts += 1
        now = clock.seconds()
        if self.lost_attempts >= self.most:
            raise LakehouseBusy(
                f"{self.what}: gave up after {_attempts(self.lost_attempts)} in {now - self._started:.0f} s, because"
                f" {reason}.",
                hint="Run it again when fewer writers publish at once. What was staged is reused.",
            )
        if now - self._reported >= _REPORT_EVERY_SECONDS:
            self._reported = now
            self.report(
                f"{self.what}: {_attempts(self.lost_attempts)} in {now - self._started:.0f} s, because {reason}."
            )
        clock.sleep(clock.between(0, min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.lost_attempts, 12))))


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
