"""A commit that a machine without power has left in part: the newest of its log, and nobody was told of it.

Delta-rs gives a commit its name when it has written all of it, and a disk may have the name first. The storage is told
to keep a commit before anything stands on it (``Storage.keep``). So one that is not whole was never acknowledged.
"""

from __future__ import annotations

import json

from backfill_assets.lakehouse.delta_log import commit_file
from backfill_assets.lakehouse.retry import warn
from backfill_assets.lakehouse.storage import Storage


def drop_torn_commit(storage: Storage, table: str, version: int) -> bool:
    """Delete the commit ``version`` of ``table``, its newest, if it is not whole; True if it was deleted.

    Of several processes one deletes it, and none the commit that comes in its place. Object stores have no such files.
    """
    path = commit_file(table, version)
    if not storage.is_folder or not storage.delete_if(path, is_torn):
        return False
    storage.keep([path])
    warn(f"{path} was not whole, as a loss of power leaves it, and is deleted: nobody was told that it was done.")
    return True


def is_torn(data: bytes) -> bool:
    """No commit is empty, and each of its lines is JSON."""
    try:
        actions = [json.loads(line) for line in data.splitlines()]
    except ValueError:
        return True
    return not actions
