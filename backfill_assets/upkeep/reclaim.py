"""Deletes data files that nothing retained refers to: an intent on the log first, then the files.

Published data stays in ``_timelines/``; with its last data file, a timeline loses its log and folder. Protected are:

- files of main's retained versions, and of its version in the last closed map;
- files that the publication log names within the window (adds and before-images), and open entries;
- open timelines; kept named timelines, with what they read through to;
- versions that open plans, and plans of the window, were made from;
- all that was written within the window.

The window is the setting, or a longer one promised with a publication and not over. A clock that is ahead makes all
files old: long steps in the log are not counted as age, unless a person has checked the clock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from backfill_assets import clock
from backfill_assets.lakehouse.delta_log import VersionGone, files_at
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, MainTable
from backfill_assets.lakehouse.named_timelines import files_of_timelines, kept_timelines
from backfill_assets.lakehouse.plans import pinned_versions
from backfill_assets.lakehouse.records import Prepared
from backfill_assets.lakehouse.retry import Retry
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.lakehouse.timelines import CAMPAIGN, TIMELINES, Timeline, open_timelines
from backfill_assets.publish.files import LOG_TABLE, LogFiles
from backfill_assets.publish.fold import left_behind
from backfill_assets.publish.log import Entry, Head, PublicationLog
from backfill_assets.publish.pinned import pinned_files
from backfill_assets.publish.publisher import CrashPoint, Publisher
from backfill_assets.state.campaigns import plans_under_way
from backfill_assets.state.view import View

MOST_QUIET = timedelta(days=8)
_WINDOWS = 2
"""After a jump, older files look too old for one window, and a store with its own clock dates newer ones correctly."""
_NOTHING = timedelta()
_STAGED_DAY = re.compile(rf"{TIMELINES}/.+/{PARTITION_COLUMN}=(\d{{4}}-\d{{2}}-\d{{2}})/[^/]+")


def reclaim(publisher: Publisher, table: str, *, clock_checked: bool = False) -> list[str]:
    """Deletes the reclaimable files of ``table``; returns their paths below the root.

    Finishes intents of dead processes. A later publication refuses files that the intent names; one prepared before
    makes this append fail, and files are looked up again.
    """
    finish_reclaiming(publisher)
    retry = Retry(f"Reclaiming files of {table}")
    while True:
        publisher.recover([table])
        head = publisher.log.head()
        doomed = reclaimable(publisher, table, clock_checked=clock_checked)
        if not doomed:
            return []
        if _intend(publisher, head, table, doomed):
            return doomed
        retry.lost("other writers append to the log")


def delete_now(publisher: Publisher, table: str, paths: Collection[str]) -> list[str]:
    """Delete files of ``table`` that main does not name, however young: a person erases their rows. A rollback that
    needs one names it, and changes nothing.
    """
    finish_reclaiming(publisher)
    retry = Retry(f"Deleting files of {table}")
    while True:
        publisher.recover([table])
        head, main = publisher.log.head(), MainTable.open(publisher.storage, table)
        named = {f"{table}/{path}" for path in main.state().active} if main else set()
        doomed = sorted(set(paths) - named)
        if not doomed or _intend(publisher, head, table, doomed):
            return doomed
        retry.lost("other writers append to the log")


def _intend(publisher: Publisher, head: Head, table: str, doomed: Collection[str]) -> bool:
    intent = f"{clock.now():%Y%m%dt%H%M%S}-reclaim-{clock.token(8)}"
    row = {"event": "reclaiming", "publication": intent, "table": table}
    rows = [{**row, "detail": path} for path in doomed]
    if not publisher.log.append(head, rows, partial(head.state.intending, intent)):
        return False
    publisher.reached(CrashPoint.RECLAIM_INTENDED, intent)
    finish_reclaiming(publisher)
    return True


def finish_reclaiming(publisher: Publisher) -> None:
    while intents := publisher.log.head().state.reclaiming:
        intent, file = next(iter(intents.items()))
        paths = publisher.log.reclaim_paths(file)
        # A timeline may have been made since these were looked up, and who makes one from now on sees the intent.
        for path in sorted(set(paths) - _wanted_since(publisher.storage, paths)):
            publisher.storage.delete(path)
            publisher.reached(CrashPoint.RECLAIM_DELETED, intent)
        folders = {_timeline_folder(path, path.partition("/")[0]) for path in paths} - {None}
        for folder in sorted(map(str, folders)):
            publisher.storage.delete_empty_folder(folder)
        _close_intent(publisher, intent)


def _wanted_since(storage: Storage, paths: Iterable[str]) -> set[str]:
    tables = {path.partition("/")[0] for path in paths} - {LOG_TABLE}
    return {path for table in tables for path in _by_named_timelines(storage, table, clock.now())}


def _close_intent(publisher: Publisher, intent: str) -> None:
    def close(head: Head) -> Entry | None:
        row = {"event": "reclaimed", "publication": intent}
        return ([row], lambda file: head.state.reclaiming_done(intent)) if intent in head.state.reclaiming else None

    publisher.log.settle(f"Closing the reclaim intent {intent}", close)


def reclaimable(
    publisher: Publisher, table: str, closing: Collection[str] = (), *, clock_checked: bool = False
) -> list[str]:
    """Files older than the window that nothing retained refers to, and files of the log that were replaced. ``closing``
    timelines count as closed.
    """
    storage, head = publisher.storage, publisher.log.head()
    now = believed_now(publisher, clock_checked=clock_checked)
    if table == LOG_TABLE:
        return left_behind(publisher.log, now)
    since = now - timedelta(days=head.state.window_days(publisher.retention_days, now))
    oldest_ms = since.timestamp() * 1000
    files = _unwanted_files(storage, table, closing, now)
    old = [file.path for file in files if _is_data(file) and file.modified_ms < oldest_ms]
    referred = _by_main(publisher, head, table, oldest_ms) | _by_log(publisher, table, since, _days_of(old, table))
    doomed = set(old) - referred - _by_plans(publisher.log, table, since) - _by_named_timelines(storage, table, now)
    return sorted(doomed | _dead_timelines(files, table, doomed, oldest_ms))


def _unwanted_files(storage: Storage, table: str, closing: Collection[str], now: datetime) -> list[StoredFile]:
    """Leaves out timelines whose staged days a later run may want. A named one that is not kept is unwanted even if
    open: nothing closes it.
    """
    kept = tuple(f"{each.id}-" for each in kept_timelines(storage, now))
    wanted = [
        each
        for each in open_timelines(storage, table)
        if each.name not in closing and (not each.is_named or each.name.startswith(kept))
    ]
    names = {each.name for each in wanted} | _adopted_from(wanted)
    folders = tuple(f"{table}/{TIMELINES}/{name}/" for name in names)
    return [file for file in storage.files(table, recursive=True) if not file.path.startswith(folders)]


def _adopted_from(timelines: Iterable[Timeline]) -> set[str]:
    """A timeline may be deleted while the campaign that adopted from it awaits approval."""
    return {name for each in timelines if each.name.startswith(CAMPAIGN) for name in each.adopted_from()}


def _is_data(file: StoredFile) -> bool:
    return file.path.endswith(".parquet") and "/_delta_log/" not in file.path


def _dead_timelines(files: Iterable[StoredFile], table: str, doomed: Collection[str], oldest_ms: float) -> set[str]:
    by_timeline: dict[str, list[StoredFile]] = {}
    for file in files:
        if (folder := _timeline_folder(file.path, table)) is not None:
            by_timeline.setdefault(folder, []).append(file)
    dead = [
        found
        for found in by_timeline.values()
        if all(file.modified_ms < oldest_ms and (file.path in doomed or not _is_data(file)) for file in found)
    ]
    return {file.path for found in dead for file in found}


def _timeline_folder(path: str, table: str) -> str | None:
    below = f"{table}/{TIMELINES}/"
    name, slash, _ = path.removeprefix(below).partition("/")
    return f"{below}{name}" if path.startswith(below) and slash and not name.startswith("_") else None


def _by_main(publisher: Publisher, head: Head, table: str, oldest_ms: float) -> set[str]:
    main = MainTable.open(publisher.storage, table)
    if main is None:
        return set()
    state = main.state()
    retained = {file.path for file in main.removed_files().values() if file.removed_ms >= oldest_ms}
    pinned = pinned_files(publisher.log, head, table).active.keys()
    return {f"{table}/{path}" for path in state.active.keys() | retained | pinned}


def _by_log(publisher: Publisher, table: str, since: datetime, days: Collection[str] | None) -> set[str]:
    prepared = publisher.log.prepared_since(since, table, days)
    return {path for each in prepared for path in _named_files(each, table)}


def _days_of(paths: Iterable[str], table: str) -> set[str] | None:
    found = {_STAGED_DAY.fullmatch(path.removeprefix(f"{table}/")) for path in paths}
    return None if None in found else {match[1] for match in found if match}


def _by_plans(log: PublicationLog, table: str, since: datetime) -> set[str]:
    """A version whose log is gone protects nothing."""
    paths: set[str] = set()
    for version in pinned_versions(log.storage, since, plans_under_way(log)).get(table, ()):
        with suppress(VersionGone):
            paths |= {f"{table}/{path}" for path in files_at(log.storage, table, version).active}
    return paths


def _by_named_timelines(storage: Storage, table: str, now: datetime) -> set[str]:
    kept = kept_timelines(storage, now)
    paths = {f"{table}/{path}" for path in files_of_timelines(kept, table)}
    bases = {each.versions[table]: each for timeline in kept for each in timeline.bases if table in each.versions}
    for base in bases.values():
        paths |= {f"{table}/{path}" for path in View.at(storage, base).paths(table)}
    return paths


def _named_files(prepared: Prepared, table: str) -> Iterable[str]:
    if table in prepared.publication.writes:
        for day in prepared.change(table).days:
            yield from (f"{table}/{add.path}" for add in day.adds)
        for before in prepared.before[table].values():
            yield from (f"{table}/{file.path}" for file in before.files)


# ------------------------------------------------------------------ how far the clock is believed


def believed_now(publisher: Publisher, *, clock_checked: bool = False) -> datetime:
    now = clock.now()
    if clock_checked:
        return now
    window = timedelta(days=max(publisher.retention_days, *map(int, publisher.log.head().state.promised), 0))
    return now - not_borne_out(_newest_first(publisher.log.files(), now - _WINDOWS * window), now, _WINDOWS * window)


def not_borne_out(newest_first: Iterable[datetime], now: datetime, look_back: timedelta) -> timedelta:
    """Long steps between entries until ``now``, as far as ``look_back`` before the believed time.

    If machines take turns and one is ahead, steps forward and back cancel out: the running sum's maximum counts.
    """
    later, missing, most = now, _NOTHING, _NOTHING
    for at in newest_first:
        if abs(later - at) > MOST_QUIET:
            missing += later - at
            most = max(most, missing)
        if at < now - most - look_back:
            break
        later = at
    return most


def _newest_first(files: LogFiles, since: datetime) -> list[datetime]:
    found: list[tuple[int, datetime]] = []
    for number, (low, high, newest) in enumerate(files.spans()):
        if low and high and newest is not None and (high < since or high - low <= MOST_QUIET):
            found += [(newest, low), (newest, high)]
        else:
            rows = files.only(files.paths[number : number + 1]).read(["sequence", "at"])
            found += zip(rows.column("sequence").to_pylist(), rows.column("at").to_pylist(), strict=True)
    return [at for _, at in sorted(found, reverse=True)]
