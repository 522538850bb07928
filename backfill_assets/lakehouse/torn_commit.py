"""The newest commit, left in part by a loss of power and never acknowledged.

Delta-rs writes it whole before naming it, but a disk may have the name first.
"""

from __future__ import annotations

import json

from backfill_assets.lakehouse.delta_log import commit_file
from backfill_assets.lakehouse.retry import warn
from backfill_assets.lakehouse.storage import Storage


def drop_torn_commit(storage: Storage, table: str, version: int) -> bool:
    """Delete the newest commit unless whole; True if deleted.

    One process deletes it, none what replaces it. Object stores have no torn commits.
    """
    path = commit_file(table, version)
    if not storage.is_folder or not storage.delete_if(path, is_torn):
        return False
    storage.keep([path])
    warn(f"{path} was not whole, as a loss of power leaves it, and is deleted: nobody was told that it was done.")
    return True


def is_torn(data: bytes) -> bool:
    try:
        actions = [json.loads(line) for line in data.splitlines()]
    except ValueError:
        return True
    return not actions
