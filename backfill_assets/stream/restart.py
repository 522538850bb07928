"""Whether a stream is restarted: after a crash, never twice at once, and later with each early failure. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from backfill_assets.text import format_count

STEADY = timedelta(minutes=10)
_FIRST_WAIT = timedelta(seconds=15)
_LONGEST_WAIT = timedelta(minutes=10)
Ending = Literal["failed", "stopped", "finished"]
"""``stopped`` by a person, ``finished`` by itself; ``failed`` includes killed processes."""


@dataclass(frozen=True)
class EarlierStart:
    run: str
    started: datetime
    ended: datetime
    ending: Ending

    @property
    def was_early(self) -> bool:
        return self.ended - self.started < STEADY


@dataclass(frozen=True)
class RestartDecision:
    repeat: EarlierStart | None
    reason: str
    begin: bool = False


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
    """``running`` is the process with the lease, ``under_way`` a run that starts or watches one, ``holder`` the last
    run with the lease. ``earlier`` runs are newest first.

    What a person stopped stays off. A start that ended while an older one ran was refused, and does not count.
    ``begins``: no person has to start it.
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
    """A start that ended before an older one never was the stream.

    The end of a run killed with its daemon is noticed late. If a person stopped the one after it by then, the stream
    was stopped.
    """
    return [
        start
        for number, start in enumerate(earlier)
        if (start.ending == "stopped" and start.run == holder)
        or all(older.ended <= start.ended for older in earlier[number + 1 :])
    ]


def early_ends(earlier: Sequence[EarlierStart]) -> int:
    for count, start in enumerate(earlier):
        if start.ending != "failed" or not start.was_early:
            return count
    return len(earlier)


def wait_after(early: int) -> timedelta:
    """Zero after a start that lasted; else 15 s, doubled with each early end, up to 10 minutes."""
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(early - 1, 10)) if early else timedelta(0)


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"
