"""Sends OpenLineage events of publications: at least once, in the order of the log, each with the id of its run.

Off, and without import, until the client's own settings name a receiver; then earlier publications are told as well,
a round at a time. A position in the log says what was sent. No publication waits for a receiver; one that fails is
left alone for a while. With the client's ``async_http`` nobody hears what became of an event.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backfill_assets import clock
from backfill_assets.errors import BackfillError, NotDelivered
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import places
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.log import anything_published
from backfill_assets.publish.places import FailingPlace
from backfill_assets.publish.publisher import Publisher
from backfill_assets.settings import Settings, wants_lineage

if TYPE_CHECKING:
    from backfill_assets.model.catalog import Catalog
    from backfill_assets.publish.lineage_event import ClosedPublication, LineagePlaces

OPENLINEAGE = "openlineage"
NAMESPACE = "OPENLINEAGE_NAMESPACE"
LINEAGE_MISSING = "the package openlineage-python is not installed"
INSTALL_LINEAGE = "pip install 'backfill-assets[lineage]'"
_AT_ONCE, _MOST_SECONDS = 20, 10.0
"""Events between two notes of the position; a round's time, which the last event may exceed."""


@dataclass(frozen=True)
class LineageRound:
    sent: tuple[str, ...] = ()
    failing: FailingPlace | None = None
    is_over: bool = True

    def __str__(self) -> str:
        if self.failing:
            return self.failing.said("events")
        return "" if self.is_over else "More events of publications are due: the next round goes on."


def send_lineage(
    publisher: Publisher, settings: Settings, declared: Callable[[], Catalog], *, at_once: bool = False
) -> LineageRound:
    """Send what is due, unless the receiver failed a moment ago; ``at_once`` tries it anyway. Raises nothing."""
    if not wants_lineage() or not anything_published(publisher.storage):
        return LineageRound()
    failing = places.failing_place(publisher.storage, OPENLINEAGE)
    if failing and failing.again > clock.now() and not at_once:
        return LineageRound(failing=failing)
    found = _Round(publisher, settings, declared)
    try:
        found.send()
    except Exception as error:  # a damaged position, a client's file that cannot be read: none holds up the caller
        why = error if isinstance(error, NotDelivered) else _not_made(error)
        failing = places.note_failure(publisher.storage, OPENLINEAGE, why, clock.now())
        return LineageRound(tuple(found.sent), failing, is_over=False)
    if failing and (found.sent or found.is_over):
        places.forget_failures(publisher.storage, OPENLINEAGE)
    return LineageRound(tuple(found.sent), None, found.is_over)


def sent_up_to(storage: Storage) -> int:
    found = _position(storage).get("sent")
    return -1 if found is None else found


def _position(storage: Storage) -> Documents[int]:
    return Documents(storage, "_outbox/lineage", int, "Remove the file: all events are sent again.")


def lineage_places(settings: Settings) -> LineagePlaces:
    from backfill_assets.publish.lineage_event import NAMESPACE as DEFAULT
    from backfill_assets.publish.lineage_event import LineagePlaces

    topic = settings.stream_source if settings.stream_source.startswith("kafka:") else ""
    namespace = os.environ.get(NAMESPACE, "").strip() or DEFAULT
    return LineagePlaces(str(settings.lakehouse), str(settings.landing), topic, namespace)


@dataclass
class _Round:
    publisher: Publisher
    settings: Settings
    declared: Callable[[], Catalog]
    sent: list[str] = field(default_factory=list)
    is_over: bool = False

    def send(self) -> None:
        due = self._due()
        if due:
            event_of, client = self._client()
            ends = clock.seconds() + _MOST_SECONDS
            for start in range(0, len(due), _AT_ONCE):
                if start and clock.seconds() > ends:
                    return
                self._send_some(due[start : start + _AT_ONCE], event_of, client)
        self.is_over = True

    def _due(self) -> list[Mapping[str, Any]]:
        columns, after = ["publication", "at", "detail"], sent_up_to(self.publisher.storage)
        rows = self.publisher.log.files().rows(columns, after=after, event="closed", outcome="done")
        return list(rows.to_pylist())

    def _client(self) -> tuple[Callable[[ClosedPublication], Any], Any]:
        try:
            from openlineage.client import OpenLineageClient
            from openlineage.client.transport.http import HttpTransport

            from backfill_assets.publish.lineage_event import run_event
        except ImportError:
            raise NotDelivered(LINEAGE_MISSING, hint=INSTALL_LINEAGE) from None
        logging.getLogger("openlineage.client").setLevel(logging.ERROR)  # it tells each start
        with _environment_kept():
            client = OpenLineageClient()
        if isinstance(client.transport, HttpTransport):  # This outbox tries again, and it does not wait meanwhile.
            client.transport.config.retry = {"total": 0, "status_forcelist": []}
        known, declared = lineage_places(self.settings), self.declared()
        return (lambda closed: run_event(closed, known, declared)), client

    def _send_some(self, due: list[Mapping[str, Any]], event_of: Callable[[Any], Any], client: Any) -> None:
        done = -1
        try:
            for sequence, closed in self._closed(due):
                event = event_of(closed)
                try:
                    client.emit(event)
                except Exception as error:
                    raise NotDelivered(_answer(error)) from None
                self.publisher.reached(CrashPoint.NOTICE_SENT, closed.prepared.publication.id)
                self.sent.append(closed.prepared.publication.id)
                done = sequence
        finally:
            if done > sent_up_to(self.publisher.storage):
                _position(self.publisher.storage).replace("sent", done)

    def _closed(self, due: list[Mapping[str, Any]]) -> Iterator[tuple[int, ClosedPublication]]:
        from backfill_assets.publish.lineage_event import ClosedPublication

        found = self.publisher.log.prepared_of([row["publication"] for row in due])
        prepared = {each.publication.id: each for each in found}
        for row in due:
            closed = ClosedPublication(prepared[row["publication"]], row["at"], json.loads(row["detail"]))
            yield row["sequence"], closed


@contextmanager
def _environment_kept() -> Iterator[None]:
    """The client writes address and key into the environment, which child processes get."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]


def _not_made(error: Exception) -> NotDelivered:
    if isinstance(error, BackfillError):
        return NotDelivered(error.message, hint=error.hint)
    return NotDelivered(f"no event could be made ({type(error).__name__}: {error})")


def _answer(error: Exception) -> str:
    """Leaves out the text of the client's error, which may repeat a secret address."""
    code = getattr(getattr(error, "response", None), "status_code", None)
    return f"the receiver answered {code}" if code else f"the receiver did not answer ({type(error).__name__})"
