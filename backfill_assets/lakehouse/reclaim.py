"""Reclaiming: delete data files that nothing retained refers to any more. Intent on the log first, then delete.

Published data lives in ``_timelines/`` for good, so files go by reference, never by folder. Protected are: what main's
retained versions and the version of the last closed map name, what the publication log names within the retention
window (adds and before-images), open entries, open timelines, the versions that open plans were made from, and whatever
was written within the window.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import timedelta

from backfill_assets.lakehouse.delta_log import VersionGone
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.pin import files_at
from backfill_assets.lakehouse.plans import pinned_versions
from backfill_assets.lakehouse.publication import Prepared
from backfill_assets.lakehouse.publication_log import Head, HeadState
from backfill_assets.lakehouse.publish import Publisher, Step
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.lakehouse.timelines import open_timelines


def reclaim(publisher: Publisher, table: str) -> list[str]:
    """Delete the reclaimable files of ``table`` and return their paths below the lakehouse root.

    Finishes intents that a dead process left, first. A publication that is prepared after the intent refuses files it
    names; one prepared before it makes this append fail, and what is reclaimable is looked up again.
    """
    finish_reclaiming(publisher)
    while True:
        publisher.recover()
        head = publisher.log.head()
        doomed = reclaimable(publisher, table)
        if not doomed:
            return []
        intent = uuid.uuid4().hex[:16]
        rows = [
            {
                "event": "reclaiming",
                "publication": intent,
                "table": table,
                "detail": path,
            }
            for path in doomed
        ]
        if publisher.log.append(head, rows, _intending(head, intent)):
            publisher.reached(Step.RECLAIM_INTENDED, intent)
            finish_reclaiming(publisher)
            return doomed


def finish_reclaiming(publisher: Publisher) -> None:
    """Carry out every open intent and close it on the log."""
    while intents := publisher.log.head().state.reclaiming:
        intent, file = next(iter(intents.items()))
        for path in publisher.log.intended(file):
            publisher.storage.delete(path)
            publisher.reached(Step.RECLAIM_DELETED, intent)
        _close_intent(publisher, intent)


def _close_intent(publisher: Publisher, intent: str) -> None:
    while True:
        head = publisher.log.head()
        if intent not in head.state.reclaiming:
            return
        rest = {key: file for key, file in head.state.reclaiming.items() if key != intent}
        state = head.state.model_copy(update={"reclaiming": rest})
        rows = [{"event": "reclaimed", "publication": intent}]
        if publisher.log.append(head, rows, _unchanged(state)):
            return


def _intending(head: Head, intent: str) -> Callable[[str], HeadState]:
    def state(file: str) -> HeadState:
        return head.state.model_copy(update={"reclaiming": {**head.state.reclaiming, intent: file}})

    return state


def _unchanged(state: HeadState) -> Callable[[str], HeadState]:
    return lambda file: state


def reclaimable(publisher: Publisher, table: str, closing: Collection[str] = ()) -> list[str]:
    """Paths of data files of ``table`` that are older than the window and that nothing retained refers to.

    Of timelines in ``closing`` as if they were closed.
    """
    oldest_ms = (publisher.now() - timedelta(days=publisher.retention_days)).timestamp() * 1000
    old = [file.path for file in _data_files(publisher, table, closing) if file.modified_ms < oldest_ms]
    referred = _by_main(publisher, publisher.log.head(), table) | _by_log(publisher, table)
    return sorted(set(old) - referred - _by_plans(publisher.storage, table))


def _data_files(publisher: Publisher, table: str, closing: Collection[str]) -> Iterable[StoredFile]:
    wanted = {f"{each.path}/" for each in open_timelines(publisher.storage, table) if each.name not in closing}
    for file in publisher.storage.files(table, recursive=True):
        is_data = file.path.endswith(".parquet") and "/_delta_log/" not in file.path
        if is_data and not any(file.path.startswith(folder) for folder in wanted):
            yield file


def _by_main(publisher: Publisher, head: Head, table: str) -> set[str]:
    main = MainTable.open(publisher.storage, table)
    if main is None:
        return set()
    state = main.state()
    oldest = (publisher.now() - timedelta(days=publisher.retention_days)).timestamp() * 1000
    retained = {file.path for file in state.removed.values() if file.removed_ms >= oldest}
    pinned = files_at(publisher.storage, table, head.state.versions.get(table)).active.keys()
    return {f"{table}/{path}" for path in state.active.keys() | retained | pinned}


def _by_log(publisher: Publisher, table: str) -> set[str]:
    since = publisher.now() - timedelta(days=publisher.retention_days)
    return {path for prepared in publisher.log.prepared_since(since, table) for path in _named(prepared, table)}


def _by_plans(storage: Storage, table: str) -> set[str]:
    """What open plans were made from, however old it is; a version whose log is gone can be read by nobody."""
    found: set[str] = set()
    for version in pinned_versions(storage).get(table, ()):
        with suppress(VersionGone):
            found |= {f"{table}/{path}" for path in files_at(storage, table, version).active}
    return found


def _named(prepared: Prepared, table: str) -> Iterable[str]:
    if table in prepared.publication.writes:
        for day in prepared.change(table).days:
            yield from (f"{table}/{add.path}" for add in day.adds)
        for before in prepared.before[table].values():
            yield from (f"{table}/{file.path}" for file in before.files)
