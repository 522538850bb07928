"""The outbox: a notice is written together with its publication, and delivered afterwards, *effectively once*.

The notice of a publication is in its Prepared entry. The append that closes the publication as done makes it due, so
there is no publication without its notice and no notice of one that was aborted. A notice that belongs to no
publication is a file, created only where there is none. Delivery is repeated until it is marked, always under the same
deduplication key: a receiver drops a key that it has seen.

A notice may go to several places. Each place that has it is marked by itself, so that one that fails is tried again
alone; what all have that want it is delivered. Sending and marking are two things, and a process may die in between:
every message carries the key (``Idempotency-Key``, the labels of an alert, the text), by which its receiver can tell.

Looking for due notices costs the same however long the log is: the head of the log names them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from backfill_assets.errors import InvalidRequest, LakehouseUnusable, NotDelivered
from backfill_assets.lakehouse.campaign_journal import plan_of
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.plans import recipients
from backfill_assets.lakehouse.records import Notice
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.notice_routes import SEVERITIES, Route, routes_for
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
    together: tuple[DueNotice, ...] = ()
    """The notices that go as this one message; empty for a message of one."""

    @property
    def parts(self) -> tuple[DueNotice, ...]:
        return self.together or (self,)


@dataclass(frozen=True)
class NoticeDelivery:
    """What one round of delivering came to: the keys that are wherever they are wanted, and why others are not."""

    sent: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    waiting: tuple[tuple[str, str], ...] = ()
    """Those that wait for the end of quiet hours, and where."""


class Outlet(Protocol):
    """Hands a notice over; raises :class:`NotDelivered` when it is not certain that it arrived."""

    def send(self, due: DueNotice) -> None: ...


@dataclass(frozen=True)
class Routed:
    """The outlet of each place that ``routes`` lead to, by the name of the route; and that of the log."""

    routes: tuple[Route, ...]
    outlets: Mapping[str, Outlet]


Sender = Outlet | Routed
"""One that gets everything, each notice by itself; or routes to several."""


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
    """Send every due notice to all places that want it, and mark it. What cannot be sent holds up nothing else.

    A process that dies between sending and marking leaves the notice due there: it is sent again under the same key.
    """
    routed = sender if isinstance(sender, Routed) else Routed((), {Route().name: sender})
    # In this order: a mark of a notice that is not due any more is left over from one that was delivered.
    marked = _marked(publisher.storage)
    dues = due_notices(publisher)
    for key in marked.keys() - {due.key for due in dues}:
        _unmark(publisher.storage, key, marked[key])
    found = _Round(publisher, routed, marked)
    for due in dues:
        publisher.reached(CrashPoint.NOTICE_READ, due.key)
        found.take(due)
    for name, outlet in routed.outlets.items():
        for message in found.messages(name, grouped=routed is sender):
            found.send(message, name, outlet)
    return NoticeDelivery(tuple(found.sent), tuple(found.failed.items()), tuple(found.waiting.items()))


@dataclass
class _Round:
    """One round of delivering."""

    publisher: Publisher
    routed: Routed
    marked: dict[str, set[str]]
    """The routes by which each notice has gone, by its key; a mark is kept of each."""
    wanted: dict[str, dict[str, Route]] = field(default_factory=dict)
    dues: dict[str, DueNotice] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)

    def take(self, due: DueNotice) -> None:
        """Have it sent, unless it is damaged, or is wherever it is wanted: its deliverer died before it said so."""
        if due.damage:
            self.failed[due.key] = due.damage
            return
        self.dues[due.key] = due
        self.wanted[due.key] = routes_for(self.routed.routes, due.notice.severity, due.notice.dataset)
        if not self._left(due.key):
            self._settle(due)

    def messages(self, name: str, *, grouped: bool) -> Iterator[DueNotice]:
        """What goes by a route now: where it groups, what is about a dataset, or else of an incident, is one message.

        Of an incident, what comes later cannot overtake what could not be sent.
        """
        together: dict[str, list[DueNotice]] = {}
        for key, due in self.dues.items():
            if name in self._left(key):
                route = self.wanted[key][name]
                if route.holds(due.notice.severity, self.publisher.now()):
                    self.waiting[key] = name
                else:
                    about = _about(due) if grouped and route.groups else ""
                    together.setdefault(f"about {about}" if about else key, []).append(due)
        return (_in_one_message(each) for each in together.values())

    def send(self, message: DueNotice, name: str, outlet: Outlet) -> None:
        if not (still := tuple(due for due in message.parts if not self._is_sent(due, name))):
            return
        try:
            outlet.send(_in_one_message(still))
        except NotDelivered as error:
            self.failed |= {due.key: error.message for due in still}
            return
        for due in still:
            self.publisher.reached(CrashPoint.NOTICE_SENT, due.key)
            if self._left(due.key) - {name}:
                _routes_taken(self.publisher.storage).create(f"{name}/{due.key}", self.publisher.now())
                self.marked[due.key].add(name)
            else:
                self._settle(due)
            self.publisher.reached(CrashPoint.NOTICE_MARKED, due.key)

    def _left(self, key: str) -> set[str]:
        return self.wanted[key].keys() - self.marked[key]

    def _is_sent(self, due: DueNotice, name: str) -> bool:
        """Whether another process has sent it since it was looked for."""
        storage = self.publisher.storage
        if due.with_publication and due.key not in self.publisher.log.head().state.due:
            return True
        marks = (_routes_taken(storage).path(f"{name}/{due.key}"), _delivered(storage).path(due.key))
        return any(map(storage.exists, marks))

    def _settle(self, due: DueNotice) -> None:
        _mark(self.publisher, due)
        _unmark(self.publisher.storage, due.key, self.marked[due.key])
        self.sent.append(due.key)


def _in_one_message(dues: Sequence[DueNotice]) -> DueNotice:
    """Several are told in a line each, as urgently as the most urgent."""
    first = dues[0]
    if len(dues) == 1:
        return first
    severity = max((due.notice.severity for due in dues), key=SEVERITIES.index)
    notice = Notice(title=f"{len(dues)} notices about {_about(first)}", severity=severity)
    return DueNotice(first.key, notice, together=tuple(dues))


def _about(due: DueNotice) -> str:
    return due.notice.dataset or due.notice.incident


def _routes_taken(storage: Storage) -> Documents[datetime]:
    """When a notice that is still due elsewhere has gone by a route, by the name of the route and the notice's key."""
    return Documents(storage, "_outbox/routes", datetime)


def _marked(storage: Storage) -> defaultdict[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for route, _, key in (name.partition("/") for name in _routes_taken(storage).files(recursive=True)):
        found[key].add(route)
    return found


def _unmark(storage: Storage, key: str, routes: Iterable[str]) -> None:
    for route in routes:
        _routes_taken(storage).delete(f"{route}/{key}")


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
        campaign = key.removesuffix(_BEGINS).partition(".")[0]
        yield _addressed(storage, DueNotice(key, notice, with_publication=False), campaign)


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
