"""Folds the publication log: settled entries share a file a month, so an old log opens as fast as a young one.

The commit of a fold changes no data. Replaced files are deleted a day later, by a reclaim intent.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets import clock
from backfill_assets.lakehouse.delta_log import read_log, removed_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.files import ENTRIES, LOG_TABLE, LogFiles
from backfill_assets.publish.head import HeadState, named_files
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.rows import ARROW_SCHEMA

SETTLED = timedelta(days=7)
COMMITS_KEPT = timedelta(hours=1)
"""A stream makes 1,500 an hour, which readers list. A process that slept longer reads again."""
READABLE = timedelta(days=1)
FOLD_FROM_FILES = 64
_MONTHLY = re.compile(r"/month-(\d{4}-\d{2})-[a-z]+-[0-9a-f]+\.parquet$")
_LOG_FILE = re.compile(r"/_delta_log/(\d{20})\.(json|checkpoint[.\d]*\.parquet)$")


def foldable(log: PublicationLog, now: datetime) -> list[str]:
    head = log.head()
    return _foldable(LogFiles.of(log.storage, head.handle), head.state, now)


def fold(log: PublicationLog, now: datetime) -> int:
    """How many files were folded; 0 if others appended meanwhile."""
    head = log.head()
    files = LogFiles.of(log.storage, head.handle)
    loose = _foldable(files, head.state, now)
    if not loose:
        return 0
    added = files.only(loose).read(ARROW_SCHEMA.names)
    months = set(pc.strftime(added.column("at"), "%Y-%m").to_pylist())
    old = files.only([*loose, *(path for path in files.paths if _month(path) in months)])
    if not log.replace_files(head, old.sizes, _by_month(old.read(ARROW_SCHEMA.names), now - SETTLED)):
        return 0
    newest = log.head()
    newest.handle.create_checkpoint()
    log.keep(newest)
    return len(loose)


def _foldable(files: LogFiles, state: HeadState, now: datetime) -> list[str]:
    named = set(named_files(state))
    settled = files.between("at", high=now - SETTLED).paths
    loose = [path for path in settled if path not in named and _month(path) is None and not is_gathered(path)]
    return loose if len(loose) >= FOLD_FROM_FILES else []


def _month(path: str) -> str | None:
    match = _MONTHLY.search(path)
    return match[1] if match else None


def _by_month(rows: pa.Table, settled_until: datetime) -> dict[str, pa.Table]:
    """Rollbacks, campaigns and notes have files of their own, for searches that skip daily runs."""
    month = pc.strftime(rows.column("at"), "%Y-%m")
    recent = pc.greater(rows.column("at"), pa.scalar(settled_until))
    rollback = pc.fill_null(pc.equal(rows.column("kind"), "rollback"), False)
    campaign = pc.not_equal(pc.fill_null(rows.column("campaign"), ""), "")
    group = pc.if_else(rollback, "rollbacks", pc.if_else(campaign, "campaigns", "runs"))
    group = pc.if_else(pc.is_null(rows.column("kind")), "notes", group)
    name = pc.binary_join_element_wise(month, group, "-")
    name = pc.if_else(recent, None, name)
    file_rows: dict[str, pa.Table] = {}
    for each in pc.unique(name).to_pylist():
        chosen = rows.filter(pc.is_null(name) if each is None else pc.fill_null(pc.equal(name, each), False))
        file_rows[f"{ENTRIES}/{f'month-{each}' if each else 'unsettled'}-{clock.token(6)}.parquet"] = chosen
    return file_rows


def left_behind(log: PublicationLog, now: datetime) -> list[str]:
    head = log.head()
    state = read_log(log.storage, LOG_TABLE, head.version)
    removed = removed_files(log.storage, LOG_TABLE, head.version)
    young = int((now - READABLE).timestamp() * 1000)
    kept = {*state.active, *(path for path, file in removed.items() if file.removed_ms > young)}
    needed = {*named_files(head.state), *(f"{LOG_TABLE}/{path}" for path in kept)}
    data = [
        file.path
        for file in log.storage.files(LOG_TABLE, recursive=True)
        if file.path.endswith(".parquet") and "/_delta_log/" not in file.path and file.modified_ms < young
    ]
    return sorted({*data} - needed) + _old_commits(log.storage, now)


def trim(log: PublicationLog, now: datetime) -> int:
    """Delete commits that checkpoints cover, oldest first: a crash leaves no gap."""
    doomed = _old_commits(log.storage, now)
    for path in doomed:
        log.storage.delete(path)
    return len(doomed)


def _old_commits(storage: Storage, now: datetime) -> list[str]:
    oldest = int((now - COMMITS_KEPT).timestamp() * 1000)
    commits = [
        (match, file) for file in storage.files(f"{LOG_TABLE}/_delta_log") if (match := _LOG_FILE.search(file.path))
    ]
    checkpoints = [int(m[1]) for m, file in commits if m[2] != "json" and file.modified_ms < oldest]
    base = max(checkpoints, default=0)
    return sorted(file.path for match, file in commits if int(match[1]) < base)


# ------------------------------------------------------------------ a stream's entries, gathered as they come

STREAM = "stream "
GATHER_FROM = (256, 16)
"""So many entries become one file, and so many of those one that stays."""
_GATHERED = re.compile(rf"{ENTRIES}/stream-(\d)-[0-9a-f]+\.parquet$")
_OWN = re.compile(rf"{ENTRIES}/\d{{20}}-[0-9a-f]+\.parquet$")
_LAST = "stream!"


def gatherable(log: PublicationLog) -> list[str]:
    head = log.head()
    return _gatherable(LogFiles.of(log.storage, head.handle), head.state)[1]


def gather(log: PublicationLog) -> int:
    """Merge entries of streams into one file; how many, 0 if others appended meanwhile.

    A stream makes as many a day as everything else in years; folding leaves such files out.
    """
    head = log.head()
    files = LogFiles.of(log.storage, head.handle)
    level, paths = _gatherable(files, head.state)
    if not paths:
        return 0
    loose, name = files.only(paths), f"{ENTRIES}/stream-{level}-{clock.token(6)}.parquet"
    done = log.replace_files(head, loose.sizes, {name: loose.read(ARROW_SCHEMA.names)})
    return len(paths) if done else 0


def _gatherable(files: LogFiles, state: HeadState) -> tuple[int, list[str]]:
    for level, least in enumerate(GATHER_FROM):
        if len(paths := _of_level(files, state, level)) >= least:
            return level + 1, paths
    return 0, []


def is_gathered(path: str) -> bool:
    return _GATHERED.search(path) is not None


def _of_level(files: LogFiles, state: HeadState, level: int) -> list[str]:
    named = set(named_files(state))
    of_streams = files.between("launched_by", STREAM, _LAST).paths
    return [path for path in of_streams if path not in named and _level(path) == level]


def _level(path: str) -> int:
    match = _GATHERED.search(path)
    return int(match[1]) if match else 0 if _OWN.search(path) else -1
