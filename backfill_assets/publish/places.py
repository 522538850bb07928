"""Places that take no notices now. Each is left alone for a while that grows with each failure, then tried again.

It is kept in the lakehouse, beside what has gone by which route, so that the next process knows it. A place that takes
one again is forgotten here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from backfill_assets.errors import NotDelivered
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.notice_routes import LOG, Route

SHORTEST, LONGEST, SPOKEN_OF = timedelta(minutes=1), timedelta(minutes=30), timedelta(days=1)
"""How long a place is left alone at first, and at most; how long it is shown once nothing is due there."""


class FailingPlace(AuditRecord):
    """A place that did not take the last message, by the name of its route: no address is kept."""

    name: str
    since: datetime
    """When the first of its failures in a row was."""
    last: datetime
    words: str
    """Of the last failure."""
    next_step: str = ""
    """What a person does about it; empty if that is not known."""
    failures: int = 1
    again: datetime
    """When it is tried again; until then it is left alone."""

    def __str__(self) -> str:
        return (
            f"{self.name} takes no notices since {_minute(self.since)} UTC. Last tried at {_minute(self.last)} UTC: "
            f"{self.words.rstrip('.')}. Tried again from {_minute(self.again)} UTC on"
        )


def pause_after(failures: int) -> timedelta:
    """How long a place is left alone after so many failures in a row."""
    return min(SHORTEST * (1 << min(failures - 1, 10)), LONGEST)


def failing_places(storage: Storage, routes: Iterable[Route]) -> list[FailingPlace]:
    """Those of ``routes`` that did not take the last message, in the order of the routes."""
    kept = {each.name: each for each in _places(storage).readable()}
    names = dict.fromkeys((*(route.name for route in routes), LOG))
    return [kept[name] for name in names if name in kept]


def note_failure(storage: Storage, name: str, why: NotDelivered, now: datetime) -> FailingPlace:
    """Keep that a place did not take a message. The log costs nothing: it is never left alone."""
    before = next((each for each in _places(storage).readable() if each.name == name), None)
    failures = before.failures + 1 if before else 1
    found = FailingPlace(
        name=name,
        since=before.since if before else now,
        last=now,
        words=why.message,
        next_step=why.hint or "",
        failures=failures,
        again=now if name == LOG else now + pause_after(failures),
    )
    _places(storage).replace(name, found)
    return found


def forget_failures(storage: Storage, name: str) -> None:
    """A place has taken a message."""
    _places(storage).delete(name)


def _places(storage: Storage) -> Documents[FailingPlace]:
    return Documents(storage, "_outbox/failing", FailingPlace, "Remove the file: the place is tried again at once.")


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"
