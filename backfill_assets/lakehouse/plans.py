"""Plans as they are kept: JSON files named after their content, and which of them are being carried out."""

from __future__ import annotations

import re
from difflib import get_close_matches

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage

_PLANS, _OPEN = "_plans", "_plans/_open"
_ID = re.compile(r"plan-[0-9a-f]{16}")


def is_plan_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def keep_plan(storage: Storage, id: str, text: str) -> bool:
    """Keep a plan; False if it was kept before: the same id is the same content."""
    return storage.put_if_absent(_path(id), text.encode())


def kept_plan(storage: Storage, id: str) -> bytes:
    """The JSON of the plan ``id``; raises :class:`InvalidRequest` with the nearest one if there is none."""
    if not storage.exists(_path(id)):
        near = get_close_matches(id, plan_ids(storage), n=1)
        hint = f"Did you mean {near[0]}?" if near else "backfill plan TARGET --days A..B makes one."
        raise InvalidRequest(f"There is no plan {id!r} in {storage.root}.", hint=hint)
    return storage.read_bytes(_path(id))


def plan_ids(storage: Storage) -> list[str]:
    names = (file.path.rsplit("/", 1)[1].removesuffix(".json") for file in storage.files(_PLANS))
    return sorted(name for name in names if is_plan_id(name))


def open_plan(storage: Storage, id: str) -> None:
    """Say that the plan is being carried out: others that touch its days are warned."""
    storage.write_bytes(f"{_OPEN}/{id}", b"")


def close_plan(storage: Storage, id: str) -> None:
    storage.delete(f"{_OPEN}/{id}")


def open_plan_ids(storage: Storage) -> list[str]:
    return sorted(file.path.rsplit("/", 1)[1] for file in storage.files(_OPEN))


def _path(id: str) -> str:
    if not is_plan_id(id):
        raise InvalidRequest(f"{id!r} is not the id of a plan.", hint="They look like plan-0123456789abcdef.")
    return f"{_PLANS}/{id}.json"
