"""Try, publish, look again; and after some tries ask others to wait: one loop for writers of what others move."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TypeVar

from backfill_assets.errors import PublicationRefused

MOST_TRIES = 20
_TRIES_BEFORE_A_HOLD = 3
Settled = TypeVar("Settled")


@dataclass(frozen=True)
class Unsettled:
    """A try that published nothing, since others were faster."""

    again: str
    """What is done now."""
    refused: PublicationRefused
    """Raised if it was the last try."""


def publish_until_settled(
    attempt: Callable[[bool], Settled | Unsettled],
    hold: Callable[[], AbstractContextManager[object]],
    report: Callable[[str], None],
    *,
    most: int = MOST_TRIES,
    before_a_hold: int = _TRIES_BEFORE_A_HOLD,
) -> Settled:
    """Call ``attempt`` until it settles, ``most`` times at most; gives what it returned.

    After ``before_a_hold`` tries, each further one is made under a new ``hold``, so that others let it pass. An attempt
    is told whether it has one: without it, it waits for those of others.
    """
    number = 0
    with ExitStack() as held:
        while True:
            number += 1
            outcome = attempt(number > before_a_hold)
            if not isinstance(outcome, Unsettled):
                return outcome
            if number == most:
                raise outcome.refused
            report(outcome.again)
            if number >= before_a_hold:
                held.close()
                held.enter_context(hold())
