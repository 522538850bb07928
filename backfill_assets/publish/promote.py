"""Promotion: the one way of staged days into main, however often others move what they were staged against.

A :class:`Package` comes into main together. What others have moved meanwhile, and only that, is staged again, up to so
many tries; after some of them under a hold, so that others let it pass.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypeVar

from backfill_assets.errors import BackfillError, PublicationRefused
from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish.holds import wait_for_holds
from backfill_assets.publish.publisher import NO_READERS, Conflict, Published, Publisher, Readers

MOST_TRIES, FEW_TRIES = 20, 5
"""Tries of appending rows, and of staging days."""
_TRIES_BEFORE_A_HOLD = 3
Nothing = TypeVar("Nothing")
Nothing_co = TypeVar("Nothing_co", covariant=True)
"""None for a package that may have nothing to publish."""


@dataclass(frozen=True)
class Again:
    what: str
    refused: BackfillError
    """Raised if it was the last try."""


class Package(Protocol[Nothing_co]):
    """Days that come into main together, or not at all."""

    def stage(self, *, held: bool) -> Publication | Conflict | Nothing_co:
        """Stage what is not there as it is to be published; None if there is nothing to publish.

        ``held`` says whether others were asked to leave its days alone. What has moved already is a :class:`Conflict`.
        """

    def overtaken(self, by: Conflict) -> Again:
        """Let go of what others have moved, so that the next try stages it again."""


def silent(message: str) -> None:
    pass


def promote(
    publisher: Publisher,
    package: Package[Nothing],
    report: Callable[[str], None] = silent,
    *,
    most: int = FEW_TRIES,
    wait_seconds: float = 0.0,
    hold: Callable[[], AbstractContextManager[object]] | None = None,
    before_a_hold: int = _TRIES_BEFORE_A_HOLD,
    readers: Readers = NO_READERS,
) -> Published | Nothing:
    """Bring ``package`` into main in one publication; None if there was nothing to publish.

    A try without a hold waits for those of others on its days, ``wait_seconds`` at most. After ``before_a_hold`` tries
    each further one is made under a new ``hold``, if there is one. Raises what the package refuses after ``most``.
    """
    with ExitStack() as held:
        for number in count(1):
            is_held = hold is not None and number > before_a_hold
            outcome: Published | Conflict | Nothing
            staged = package.stage(held=is_held)
            if isinstance(staged, Publication):
                if not is_held:
                    days = {change.table: [day.day for day in change.days] for change in staged.tables}
                    wait_for_holds(publisher.storage, "", days, progress=report, longest=wait_seconds)
                outcome = publisher.publish(staged, readers)
            else:
                outcome = staged
            if not isinstance(outcome, Conflict):
                return outcome
            again = package.overtaken(outcome)
            if number == most:
                raise again.refused
            report(again.what)
            if hold is not None and number >= before_a_hold:
                held.close()
                held.enter_context(hold())
    raise AssertionError("A promotion ends with what it published, or with an error.")


def main_moved(what: str, doing: str, then: str) -> PublicationRefused:
    return PublicationRefused(
        f"{what}: main moved {FEW_TRIES} times while {doing}.",
        hint=f"Another run is rewriting the same days; let it finish, then {then}.",
    )
