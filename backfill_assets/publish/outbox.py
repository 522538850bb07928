"""The outbox: a notice is written together with its publication, and delivered afterwards, *effectively once*.

The notice of a publication is in its Prepared entry. The append that closes the publication as done makes it due, so
there is no publication without its notice and no notice of one that was aborted. A notice that belongs to no
publication is a file, created only where there is none. Delivery is repeated until it is marked, always under the same
deduplication key: a receiver drops a key that it has seen.

Looking for due notices costs the same however long the log is: the head of the log names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from backfill_assets.errors import InvalidRequest, LakehouseUnusable, NotDelivered
from backfill_assets.lakehouse.campaign_journal import plan_of
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.plans import recipients
from backfill_assets.lakehouse.records import Notice
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.log import Entry, Head
from backfill_assets.publish.publisher import Publisher

_BEGINS = "-begins"
_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,150}")


@dataclass(frozen=True)
class DueNotice:
    """A notice to be delivered. ``key`` is the same at every attempt."""

    key: str
    notice: Notice
    with_publication: bool = True
    """False for one that was announced on its own; ``key`` is then not the name of a publication."""
    recipients: tuple[str, ...] = ()
    """For whom it is, as the plan of its campaign says."""
    damage: str = ""
    """Why it cannot be sent as it is kept; empty for all others."""


@dataclass(frozen=True)
class NoticeDelivery:
    """What one round of delivering came to: the keys that were sent, and why others were not, by key."""

    sent: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


class Sender(Protocol):
    """Hands a notice over; raises :class:`NotDelivered` when it is not certain that it arrived."""

    def send(self, due: DueNotice) -> None: ...


def begins_key(campaign: str) -> str:
    """The key of the notice that ``campaign`` begins."""
    return f"{campaign}{_BEGINS}"


def announce(storage: Storage, key: str, notice: Notice) -> bool:
    """Make ``notice`` due; False if one of this ``key`` is due or was delivered already, so it may be repeated."""
    if not _KEY.fullmatch(key):
        raise InvalidRequest(f"{key!r} cannot be the key of a notice.", hint="Use a-z, 0-9, dots and hyphens.")
    if storage.exists(_delivered(storage).path(key)):
        return False
    return _due(storage).create(key, notice)


def withdraw(storage: Storage, key: str) -> None:
    """Send no notice of this ``key`` that was announced on its own, if it was not sent yet."""
    _due(storage).delete(key)


def _due(storage: Storage) -> Documents[Notice]:
    return Documents(storage, "_outbox/due", Notice, "To give this notice up, remove the file.")


def _delivered(storage: Storage) -> Documents[Notice]:
    return Documents(storage, "_outbox/delivered", Notice)


def due_notices(publisher: Publisher) -> list[DueNotice]:
    """What is due, announcements first; reads the head of the log and one file for each notice."""
    return [*_announcements(publisher.storage), *_notices_of_publications(publisher)]


def deliver(publisher: Publisher, sender: Sender) -> NoticeDelivery:
    """Send every due notice and mark it. One that cannot be sent stays due and does not hold up the others.

    A process that dies between sending and marking leaves the notice due: it is sent again under the same key.
    """
    sent: list[str] = []
    failed: list[tuple[str, str]] = []
    for due in due_notices(publisher):
        publisher.reached(CrashPoint.NOTICE_READ, due.key)
        if due.damage:
            failed.append((due.key, due.damage))
            continue
        try:
            sender.send(due)
        except NotDelivered as error:
            failed.append((due.key, error.message))
            continue
        publisher.reached(CrashPoint.NOTICE_SENT, due.key)
        _mark(publisher, due)
        publisher.reached(CrashPoint.NOTICE_MARKED, due.key)
        sent.append(due.key)
    return NoticeDelivery(tuple(sent), tuple(failed))


def _announcements(storage: Storage) -> Iterable[DueNotice]:
    due, files = _due(storage), _due(storage).files()
    for key in sorted(files, key=lambda key: (files[key].modified_ms, key)):
        if storage.exists(_delivered(storage).path(key)):
            due.delete(key)  # its deliverer died after marking it
            continue
        try:
            notice = due.get(key)
        except LakehouseUnusable as error:
            damage = f"{error.message} {error.hint}"
            yield DueNotice(key, Notice(title="It cannot be read"), with_publication=False, damage=damage)
            continue
        if notice is None:
            continue  # another process has delivered or withdrawn it since it was listed
        yield _addressed(storage, DueNotice(key, notice, with_publication=False), key.removesuffix(_BEGINS))


def _notices_of_publications(publisher: Publisher) -> Sequence[DueNotice]:
    due = publisher.log.head().state.due
    entries = ((id, publisher.log.prepared_in(file).publication) for id, file in due.items())
    return [
        _addressed(publisher.storage, DueNotice(id, held.notice), held.provenance.campaign)
        for id, held in entries
        if held.notice is not None
    ]


def _addressed(storage: Storage, due: DueNotice, campaign: str) -> DueNotice:
    """With for whom it is. While the plan that says it is damaged, the notice stays due."""
    try:
        return replace(due, recipients=recipients(storage, plan_of(campaign)))
    except LakehouseUnusable as error:
        return replace(due, damage=f"for whom it is cannot be read: {error.message.rstrip('.')}")


def _mark(publisher: Publisher, due: DueNotice) -> None:
    if not due.with_publication:
        _delivered(publisher.storage).create(due.key, due.notice)
        _due(publisher.storage).delete(due.key)
        return

    def mark(head: Head) -> Entry | None:
        row = {"event": "delivered", "publication": due.key}
        return ([row], lambda file: head.state.delivering(due.key)) if due.key in head.state.due else None

    publisher.log.settle(f"Marking the notice {due.key} as sent", mark)
