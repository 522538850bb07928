"""Delivers due notices to all places at once, *effectively once* at each place that wants them.

A process may die between sending and marking: messages carry keys for the receiver to deduplicate. What a place is
told of an incident is recorded first, so that the end is told wherever the beginning may have arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable, NoAnswer, NotDelivered
from backfill_assets.notice_routes import LOG, Route, routes_for, routes_to
from backfill_assets.publish import outbox, places
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.due_notice import DueNotice, in_one_message
from backfill_assets.publish.endings import Told, ending
from backfill_assets.publish.places import FailingPlace
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.side_by_side import LIMITS, Answered, RoundLimits, SideBySide

NO_TIME = "no time was left for it in this round"


@dataclass(frozen=True)
class NoticeDelivery:
    sent: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    waiting: tuple[tuple[str, str], ...] = ()
    failing: tuple[FailingPlace, ...] = ()


class Outlet(Protocol):
    """Raises :class:`NotDelivered` unless the notice certainly arrived. Runs in a thread, the log's in the caller's."""

    def send(self, due: DueNotice) -> None: ...


@dataclass(frozen=True)
class Routed:
    routes: tuple[Route, ...]
    outlets: Mapping[str, Outlet]
    limits: RoundLimits = LIMITS


Sender = Outlet | Routed


def deliver(publisher: Publisher, sender: Sender, *, at_once: bool = False) -> NoticeDelivery:
    """Send due notices to all places that want them, and mark them; ``at_once`` also to paused ones."""
    routed = sender if isinstance(sender, Routed) else Routed((), {LOG: sender})
    # In this order: a mark of a notice that is not due any more belongs to a delivered one.
    marked = outbox.routes_taken(publisher.storage)
    dues = outbox.due_notices(publisher)
    for key in marked.keys() - {due.key for due in dues}:
        outbox.unmark(publisher.storage, key, marked[key])
    found = _Round(publisher, routed, marked, grouped=routed is sender)
    for due in dues:
        publisher.reached(CrashPoint.NOTICE_READ, due.key)
        found.take(due)
    found.end_what_is_over()
    failing = places.failing_places(publisher.storage, routed.routes)
    found.leave_alone([] if at_once else failing)
    found.send({each.name for each in failing})
    if failing or found.failed:
        failing = places.failing_places(publisher.storage, routed.routes)
    failed = {key: "; ".join(dict.fromkeys(reasons)) for key, reasons in found.failed.items()}
    return NoticeDelivery(tuple(found.sent), tuple(failed.items()), tuple(found.waiting.items()), tuple(failing))


@dataclass
class _Round:
    publisher: Publisher
    routed: Routed
    marked: dict[str, set[str]]
    grouped: bool
    wanted: dict[str, dict[str, Route]] = field(default_factory=dict)
    dues: dict[str, DueNotice] = field(default_factory=dict)
    told: dict[str, dict[str, Told]] = field(default_factory=dict)
    queues: dict[str, deque[DueNotice]] = field(default_factory=dict)
    stuck: set[tuple[str, str]] = field(default_factory=set)
    """Place and incident of unsent notices, which later ones must not overtake."""
    sent: list[str] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)

    # -------------------------------------------------------------- what goes where

    def take(self, due: DueNotice) -> None:
        if due.damage:
            self.failed[due.key] = [due.damage]
            return
        notice = due.notice
        try:
            if notice.incident and notice.incident not in self.told:
                self.told[notice.incident] = self._told(notice.incident)
        except LakehouseUnusable as error:
            self.failed[due.key] = [f"{error.message} {error.hint}"]
            return
        self.dues[due.key] = due
        if not (notice.resolved and notice.incident):
            self.wanted[due.key] = routes_for(self.routed.routes, notice.severity, notice.dataset)

    def _told(self, incident: str) -> dict[str, Told]:
        documents = outbox.told_of(self.publisher.storage, incident)
        return {place: documents.get(place) or Told() for place in documents.files()}

    def end_what_is_over(self) -> None:
        for due in self.dues.values():
            if due.key not in self.wanted:
                self.wanted[due.key] = self._end(due)
        # Beginnings first: a delivered end says that its beginning is not sent any more.
        for due in sorted(self.dues.values(), key=lambda due: due.notice.resolved):
            if not self._left(due.key):
                self._settle(due)

    def _end(self, due: DueNotice) -> dict[str, Route]:
        notice, told = due.notice, self.told[due.notice.incident]
        begun = [each.key for each in self.dues.values() if each.notice.incident == notice.incident]
        begun = [key for key in begun if not self.dues[key].notice.resolved]
        pending = {place for key in begun for place in self._left(key)}
        ends = {place for key in begun for place in self.marked[key]}
        if not told and not pending and not ends:
            return routes_for(self.routed.routes, "critical", notice.dataset)
        if not told and pending:
            self._write_told(notice.incident, min(pending), Told())
        for place in {*told, *pending}:
            left = [key for key in begun if place in self._left(key)]
            found = ending(left, told.get(place))
            for key in found.dropped:
                del self.wanted[key][place]
            if found.is_told:
                ends.add(place)
        return routes_to(self.routed.routes, ends, notice.dataset)

    def _left(self, key: str) -> set[str]:
        return self.wanted.get(key, {}).keys() - self.marked[key]

    # -------------------------------------------------------------- sending

    def leave_alone(self, failing: Sequence[FailingPlace]) -> None:
        """Queue messages, except of places that failed recently; a place without due notices is forgotten in a day."""
        for name in self.routed.outlets:
            self.queues[name] = deque(self._messages(name))
        for each in failing:
            if not self.queues.get(each.name) and clock.now() - each.last > places.SPOKEN_OF:
                places.forget_failures(self.publisher.storage, each.name)
            if each.again > clock.now():
                self._not_sent(each.name, f"{each.name} is left alone until {each.again:%H:%M} UTC: {each.words}")

    def send(self, failing: Collection[str]) -> None:
        asked = SideBySide(self._next, self._hand_over, self.routed.limits, in_caller=(LOG,))
        taken, refused = set[str](), dict[str, NotDelivered]()
        for answer in asked.answers(list(self.routed.outlets)):
            if answer.error is None:
                taken.add(answer.place)
                self._mark(answer.message, answer.place)
            else:
                refused[answer.place] = answer.error
                self._refused(answer, answer.error)
        for name in self.routed.outlets:
            self._not_sent(name, refused[name].message if name in refused else NO_TIME)
        # A place that has taken one message is up, whatever it said of another.
        for name in taken.intersection(failing):
            places.forget_failures(self.publisher.storage, name)
        for name in refused.keys() - taken:
            places.note_failure(self.publisher.storage, name, refused[name], clock.now())

    def _messages(self, name: str) -> Iterator[DueNotice]:
        together: dict[str, list[DueNotice]] = {}
        for key, due in self.dues.items():
            if name in self._left(key):
                route = self.wanted[key][name]
                if route.holds(due.notice.severity, clock.now()):
                    self.waiting[key] = name
                else:
                    about = due.about if self.grouped and route.groups else ""
                    together.setdefault(f"about {about}" if about else key, []).append(due)
        return (in_one_message(each) for each in together.values())

    def _next(self, name: str) -> DueNotice | None:
        while self.queues[name]:
            message = self.queues[name].popleft()
            stuck = [due for due in message.parts if (name, due.notice.incident) in self.stuck]
            for due in stuck:
                self._fail(due, "what comes before it was not sent")
            still = [due for due in message.parts if due not in stuck]
            if still := [due for due in still if not outbox.is_taken(self.publisher, name, due)]:
                return in_one_message([self._begun(due, name, still[0].key) for due in still])
        return None

    def _begun(self, due: DueNotice, name: str, message: str) -> DueNotice:
        notice = due.notice
        told = self.told.get(notice.incident, {}).get(name)
        if notice.incident and not notice.resolved:
            now = (told or Told()).and_now(due.key, notice.severity, message, clock.now())
            if now != told:
                self._write_told(notice.incident, name, now)
        return replace(due, before=told)

    def _hand_over(self, name: str, message: DueNotice) -> None:
        self.routed.outlets[name].send(message)

    def _write_told(self, incident: str, name: str, told: Told) -> None:
        outbox.told_of(self.publisher.storage, incident).replace(name, told)
        self.told[incident][name] = told

    # -------------------------------------------------------------- what became of it

    def _mark(self, message: DueNotice, name: str) -> None:
        for due in message.parts:
            self.publisher.reached(CrashPoint.NOTICE_SENT, due.key)
            if self._left(due.key) - {name}:
                outbox.mark_taken(self.publisher, name, due.key)
                self.marked[due.key].add(name)
            else:
                self.marked[due.key].add(name)
                self._settle(due)
            self.publisher.reached(CrashPoint.NOTICE_MARKED, due.key)

    def _refused(self, answer: Answered[DueNotice], error: NotDelivered) -> None:
        incidents: dict[str, DueNotice] = {}
        for due in answer.message.parts:
            self._fail(due, error.message)
            if due.notice.incident:
                self.stuck.add((answer.place, due.notice.incident))
                incidents.setdefault(due.notice.incident, due)
        for first in incidents.values():
            if not first.notice.resolved and not self._may_have_it(answer.place, first, error):
                self._take_back(first, answer.place)

    def _may_have_it(self, place: str, due: DueNotice, error: NotDelivered) -> bool:
        """In doubt an alert counts as told, because it fires until its end is; people are told no end."""
        in_doubt = isinstance(error, NoAnswer) and self.wanted[due.key][place].kind == "alertmanager"
        return in_doubt or outbox.is_taken(self.publisher, place, due)

    def _take_back(self, first: DueNotice, place: str) -> None:
        incident = first.notice.incident
        if first.before is not None:
            self._write_told(incident, place, first.before)
            return
        self.told[incident].pop(place, None)
        outbox.told_of(self.publisher.storage, incident).delete(place)

    def _not_sent(self, name: str, why: str) -> None:
        queue = self.queues.get(name, deque())
        for message in queue:
            for due in message.parts:
                self._fail(due, why)
        queue.clear()

    def _fail(self, due: DueNotice, why: str) -> None:
        self.failed.setdefault(due.key, []).append(why)

    def _settle(self, due: DueNotice) -> None:
        storage = self.publisher.storage
        outbox.mark_delivered(self.publisher, due)
        outbox.unmark(storage, due.key, self.marked[due.key])
        if due.notice.resolved and due.notice.incident:
            outbox.forget_told(storage, due.notice.incident)
        if self.marked[due.key]:
            self.sent.append(due.key)
