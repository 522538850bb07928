"""Gathering a stream's entries of the publication log: thousands a day lie in a few files, from the same hour on.

A stream makes as many entries in a day as everything else in years. They are gathered as they come, a few hundred into
one file and those files into one of some thousands, and stay there: folding leaves them out, so that no month of them
is ever written again as a whole. They have files of their own, so that looking for a campaign or a rollback leaves
them closed. Like folding, it moves rows by a commit that changes no data, on exactly the version it was decided on.
"""

from __future__ import annotations

import re
import uuid

from backfill_assets.publication_log.files import ENTRIES, LogFiles
from backfill_assets.publication_log.head import HeadState, named_files
from backfill_assets.publication_log.log import PublicationLog
from backfill_assets.publication_log.rows import ARROW_SCHEMA

STREAM = "stream "
"""Begins what launched a publication of a stream."""
GATHER_FROM = (256, 16)
"""So many entries become one file, and so many of those files one that stays."""
_GATHERED = re.compile(rf"{ENTRIES}/stream-(\d)-[0-9a-f]+\.parquet$")
_OWN = re.compile(rf"{ENTRIES}/\d{{20}}-[0-9a-f]+\.parquet$")
_LAST = "stream!"


def gather(log: PublicationLog) -> int:
    """Put entries of streams together once there are many, and return how many files that were.

    A stream calls it after a batch. 0 if there are too few, or if others appended in the same moment.
    """
    head = log.head()
    files = LogFiles.of(log.storage, head.handle)
    for level, least in enumerate(GATHER_FROM):
        loose = files.only(_of_level(files, head.state, level))
        if len(loose.paths) >= least:
            name = f"{ENTRIES}/stream-{level + 1}-{uuid.uuid4().hex[:12]}.parquet"
            done = log.replace_files(head, loose.sizes, {name: loose.read(ARROW_SCHEMA.names)})
            return len(loose.paths) if done else 0
    return 0


def is_gathered(path: str) -> bool:
    """True for a file of a stream's entries."""
    return _GATHERED.search(path) is not None


def _of_level(files: LogFiles, state: HeadState, level: int) -> list[str]:
    """The files that were gathered so many times, and that the head does not name; 0 for entries of their own."""
    named = set(named_files(state))
    of_streams = files.between("launched_by", STREAM, _LAST).paths
    return [path for path in of_streams if path not in named and _level(path) == level]


def _level(path: str) -> int:
    match = _GATHERED.search(path)
    return int(match[1]) if match else 0 if _OWN.search(path) else -1
