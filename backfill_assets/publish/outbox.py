"""The outbox: a notice is written with its publication and delivered afterwards, *effectively once*.

The notice is in the Prepared entry, and due by the append that closes as done; an aborted publication sends none.
Without a publication it is a file. Delivery is repeated under its key until marked, by place
(:mod:`backfill_assets.publish.delivery`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.campaign_journal import plan_of
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.plans import recipients
from backfill_assets.lakehouse.records import Notice
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.endings import Told
from backfill_assets.publish.log import Entry, Head
from backfill_assets.publish.publisher import Publisher

_BEGINS = "-begins"
_KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,150}")


def begins_key(campaign: str) -> str:
    return f"{campaign}{_BEGINS}"


def announce(storage: Storage, key: str, notice: Notice) -> bool:
    """False if one with ``key`` is due or delivered."""
    if not _KEY.fullmatch(key):
        raise InvalidRequest(f"{key!r} cannot be the key of a notice.", hint="Use a-z, 0-9, dots and hyphens.")
    if storage.exists(_delivered(storage).path(key)):
        return False
    return _due(storage).create(key, notice)


def withdraw(storage: Storage, key: str) -> None:
    _due(storage).delete(key)


def _due(storage: Storage) -> Documents[Notice]:
    return Documents(storage, "_outbox/due", Notice, "To give this notice up, remove the file.")


def _delivered(storage: Storage) -> Documents[Notice]:
    return Documents(storage, "_outbox/delivered", Notice)


def due_notices(publisher: Publisher) -> list[DueNotice]:
    return [*_announcements(publisher.storage), *_notices_of_publications(publisher)]


# ------------------------------------------------------------------ what has gone where


def _routes_taken(storage: Storage) -> Documents[datetime]:
    return Documents(storage, "_outbox/routes", datetime)


def routes_taken(storage: Storage) -> defaultdict[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for route, _, key in (name.partition("/") for name in _routes_taken(storage).files(recursive=True)):
        found[key].add(route)
    return found


def mark_taken(publisher: Publisher, route: str, key: str) -> None:
    _routes_taken(publisher.storage).create(f"{route}/{key}", clock.now())


def unmark(storage: Storage, key: str, routes: Iterable[str]) -> None:
    for route in routes:
        _routes_taken(storage).delete(f"{route}/{key}")


def is_taken(publisher: Publisher, route: str, due: DueNotice) -> bool:
    storage = publisher.storage
    if due.with_publication and due.key not in publisher.log.head().state.due:
        return True
    marks = (_routes_taken(storage).path(f"{route}/{due.key}"), _delivered(storage).path(due.key))
    return any(map(storage.exists, marks))


def told_of(storage: Storage, incident: str) -> Documents[Told]:
    return Documents(storage, f"_outbox/told/{incident}", Told, "Remove the file: its end is then told nowhere.")


def forget_told(storage: Storage, incident: str) -> None:
    for place in (documents := told_of(storage, incident)).files():
        documents.delete(place)
    storage.delete_empty_folder(documents.folder)


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
        if notice.resolved:
            notice = notice.model_copy(update={"severity": "info"})  # It was urgent as long as it was not over.
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
    """If the plan that names the recipients is damaged, the notice stays due."""
    try:
        return replace(due, recipients=recipients(storage, plan_of(campaign)))
    except LakehouseUnusable as error:
        return replace(due, damage=f"for whom it is cannot be read: {error.message.rstrip('.')}")


def mark_delivered(publisher: Publisher, due: DueNotice) -> None:
    if not due.with_publication:
        _delivered(publisher.storage).create(due.key, due.notice)
        _due(publisher.storage).delete(due.key)
        return

    def mark(head: Head) -> Entry | None:
        row = {"event": "delivered", "publication": due.key}
        return ([row], lambda file: head.state.delivering(due.key)) if due.key in head.state.due else None

    publisher.log.settle(f"Marking the notice {due.key} as sent", mark)
