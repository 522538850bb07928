"""Places that take no notices now, with a pause that grows with each failure. A success removes the record."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from backfill_assets.errors import NotDelivered
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.notice_routes import LOG, Route

SHORTEST, LONGEST, SPOKEN_OF = timedelta(minutes=1), timedelta(minutes=30), timedelta(days=1)


class FailingPlace(AuditRecord):
    """Named by its route: no address is kept."""

    name: str
    since: datetime
    last: datetime
    words: str
    next_step: str = ""
    failures: int = 1
    again: datetime

    def __str__(self) -> str:
        return self.said("notices")

    def said(self, what: str) -> str:
        return (
            f"{self.name} takes no {what} since {_minute(self.since)} UTC. Last tried at {_minute(self.last)} UTC: "
            f"{self.words.rstrip('.')}. Tried again from {_minute(self.again)} UTC on"
        )


def pause_after(failures: int) -> timedelta:
    return min(SHORTEST * (1 << min(failures - 1, 10)), LONGEST)


def failing_places(storage: Storage, routes: Iterable[Route]) -> list[FailingPlace]:
    kept = {each.name: each for each in _places(storage).readable()}
    names = dict.fromkeys((*(route.name for route in routes), LOG))
    return [kept[name] for name in names if name in kept]


def failing_place(storage: Storage, name: str) -> FailingPlace | None:
    return next((each for each in _places(storage).readable() if each.name == name), None)


def note_failure(storage: Storage, name: str, why: NotDelivered, now: datetime) -> FailingPlace:
    """The log is never paused: trying it costs nothing."""
    before = failing_place(storage, name)
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
    _places(storage).delete(name)


def _places(storage: Storage) -> Documents[FailingPlace]:
    return Documents(storage, "_outbox/failing", FailingPlace, "Remove the file: the place is tried again at once.")


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"
