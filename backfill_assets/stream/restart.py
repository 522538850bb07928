"""Whether a stream is to be started again: after a crash, never twice, and later each time it fails early. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from backfill_assets.text import format_count

STEADY = timedelta(minutes=10)
"""A start that lasted this long was a good one: the count of early ends begins anew."""
_FIRST_WAIT = timedelta(seconds=15)
_LONGEST_WAIT = timedelta(minutes=10)
Ending = Literal["failed", "stopped", "finished"]
"""``stopped`` by a person, ``finished`` by itself; ``failed`` also for a process that was killed."""


@dataclass(frozen=True)
class EarlierStart:
    """A run that was the stream, and has ended."""

    run: str
    started: datetime
    ended: datetime
    ending: Ending

    @property
    def was_early(self) -> bool:
        return self.ended - self.started < STEADY


@dataclass(frozen=True)
class RestartDecision:
    """The start to repeat, or None; and why, for people."""

    repeat: EarlierStart | None
    reason: str
    begin: bool = False
    """Whether it is to be started for the first time."""


def decide_restart(
    name: str,
    running: str,
    under_way: str,
    earlier: Sequence[EarlierStart],
    now: datetime,
    holder: str = "",
    *,
    begins: bool = False,
) -> RestartDecision:
    """``running`` describes the process that has the lease, ``under_way`` a run that is to start or watch one.

    ``earlier`` are the runs that have ended, newest first. A stream that a person stopped stays off. A start that
    ended while an older one ran, as a second stream is refused, does not count. ``holder`` is the run that had the
    lease last: it was the stream. ``begins`` says that it is to be on although no person has started it.
    """
    if running or under_way:
        return RestartDecision(None, f"{name} is on: {running or under_way}.")
    earlier = _without_beside(earlier, holder)
    if not earlier and begins:
        return RestartDecision(None, f"{name} is declared to run always: it is started.", begin=True)
    if not earlier:
        return RestartDecision(None, f"{name} was never started: materialize it once.")
    newest = earlier[0]
    if newest.ending != "failed":
        return RestartDecision(None, f"{name} is off: it was {newest.ending} at {_at(newest.ended)}. Materialize it.")
    attempts = early_ends(earlier)
    due = newest.ended + wait_after(attempts)
    if now < due:
        how_often = format_count(attempts, "time")
        return RestartDecision(None, f"{name} failed at {_at(newest.ended)}, {how_often}: next at {_at(due)}.")
    return RestartDecision(newest, f"{name} failed at {_at(newest.ended)}: it is started again.")


def _without_beside(earlier: Sequence[EarlierStart], holder: str) -> list[EarlierStart]:
    """Those of ``earlier`` that were the stream: a start that ended before an older one never was.

    Of a run that was killed with its daemon the end is known late. A person who has stopped the one after it by then
    has stopped the stream.
    """
    return [
        start
        for number, start in enumerate(earlier)
        if (start.ending == "stopped" and start.run == holder)
        or all(older.ended <= start.ended for older in earlier[number + 1 :])
    ]


def early_ends(earlier: Sequence[EarlierStart]) -> int:
    """How many of the newest starts failed early, one after the other."""
    for count, start in enumerate(earlier):
        if start.ending != "failed" or not start.was_early:
            return count
    return len(earlier)


def wait_after(early: int) -> timedelta:
    """None after a start that lasted; then 15 s, doubled with each early end, up to 10 minutes."""
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(early - 1, 10)) if early else timedelta(0)


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"
