"""Plans as they are kept: JSON files named after their content, and which of them are being carried out.

The newest difference of a campaign is kept beside its plan: others read it without computing it, and without Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.text import suggest_name

_PLANS, _OPEN, _PLANNERS = "_plans", "_plans/_open", "_plans/_by"
_ID = re.compile(r"plan-[0-9a-f]{16}")


def is_plan_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def keep_plan(storage: Storage, id: str, text: str) -> bool:
    """Keep a plan; False if it was kept before: the same id is the same content."""
    return storage.put_if_absent(_path(id), text.encode())


def kept_plan(storage: Storage, id: str) -> bytes:
    """The JSON of the plan ``id``; raises :class:`InvalidRequest` with the nearest one if there is none."""
    if not storage.exists(_path(id)):
        hint = suggest_name(id, plan_ids(storage), "backfill plan TARGET --days A..B makes one.")
        raise InvalidRequest(f"There is no plan {id!r} in {storage.root}.", hint=hint)
    return storage.read_bytes(_path(id))


def keep_planner(storage: Storage, id: str, report: Mapping[str, str]) -> None:
    """Record who made the plan, beside it. The first one stays: the same id is the same content."""
    storage.put_if_absent(f"{_PLANNERS}/{id}", json.dumps(report).encode())


def kept_planner(storage: Storage, id: str) -> Mapping[str, str]:
    """Who made the plan first; empty if that is not recorded. Raises :class:`LakehouseUnusable` if it is damaged."""
    return _json(storage, f"{_PLANNERS}/{id}")


def recipients(storage: Storage, plan: str) -> tuple[str, ...]:
    """For whom the notices about ``plan`` are, as it was kept; empty if it does not say so.

    Raises :class:`LakehouseUnusable` if it is damaged.
    """
    kept = _kept_json(storage, plan) if is_plan_id(plan) else {}
    return tuple(kept.get("terms", {}).get("notices", ()))


def plan_ids(storage: Storage) -> list[str]:
    names = (file.path.rsplit("/", 1)[1].removesuffix(".json") for file in storage.files(_PLANS))
    return sorted(name for name in names if is_plan_id(name))


@dataclass(frozen=True)
class PlanUnderWay:
    """A plan that is being carried out, the tables that it will change, and since when (UTC)."""

    plan: str
    tables: tuple[str, ...]
    since: datetime
    damage: str = ""
    """Why its tables are unknown; empty if they are known."""


def open_plan(storage: Storage, id: str) -> None:
    """Mark the plan as being carried out: plans that touch its days are warned, and readers can see it."""
    storage.write_bytes(f"{_OPEN}/{id}", b"")


def close_plan(storage: Storage, id: str) -> None:
    storage.delete(f"{_OPEN}/{id}")


def open_plan_ids(storage: Storage) -> list[str]:
    """The ids of open plans. Files with other names are ignored: an editor or a file manager leaves some."""
    return sorted(id for file in storage.files(_OPEN) if is_plan_id(id := file.path.rsplit("/", 1)[1]))


def under_way(storage: Storage) -> list[PlanUnderWay]:
    """The plans that are being carried out: the notice on the tables that they will change, until they are closed."""
    plans = []
    for file in sorted(storage.files(_OPEN), key=lambda file: file.path):
        id = file.path.rsplit("/", 1)[1]
        if not is_plan_id(id):
            continue
        tables, damage = tuple[str, ...](), ""
        try:
            tables = _tables_to_change(storage, id)
        except LakehouseUnusable as error:
            damage = str(error)
        plans.append(PlanUnderWay(id, tables, datetime.fromtimestamp(file.modified_ms // 1000, UTC), damage))
    return plans


def _tables_to_change(storage: Storage, id: str) -> tuple[str, ...]:
    steps = _kept_json(storage, id).get("steps", ())
    return tuple(table for step in steps if step["rebuild"] for table in step["tables"])


def pinned_versions(storage: Storage, since: datetime) -> Mapping[str, frozenset[int]]:
    """The versions of tables that plans were made from, by table: nothing of them may be reclaimed.

    Of plans that are being carried out, and of those that were kept ``since`` then: they may still be started. Raises
    :class:`LakehouseUnusable` if one is damaged: what it was made from is unknown then.
    """
    versions_of: dict[str, set[int]] = {}
    for id in sorted({*open_plan_ids(storage), *_kept_since(storage, since)}):
        for pinned in _kept_json(storage, id).get("pinned", ()):
            if pinned["version"] is not None:
                versions_of.setdefault(pinned["table"], set()).add(int(pinned["version"]))
    return {table: frozenset(versions) for table, versions in versions_of.items()}


def _kept_since(storage: Storage, since: datetime) -> list[str]:
    files = (file for file in storage.files(_PLANS) if file.modified_ms >= since.timestamp() * 1000)
    names = (file.path.rsplit("/", 1)[1].removesuffix(".json") for file in files)
    return [name for name in names if is_plan_id(name)]


def _kept_json(storage: Storage, id: str) -> Mapping[str, Any]:
    """A plan as it was kept, by any version of the code; empty if it was removed."""
    return _json(storage, _path(id))


def _json(storage: Storage, path: str) -> Mapping[str, Any]:
    """What the file holds; empty if it is not there. Raises :class:`LakehouseUnusable` if that is no JSON object."""
    try:
        found = json.loads(storage.read_bytes(path)) if storage.exists(path) else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LakehouseUnusable(
            f"The file {storage.uri(path)} is damaged.",
            hint="Put it back from a backup, or remove it: backfill plan makes the same plan again.",
        )
    return found


def keep_difference(storage: Storage, plan: str, text: str) -> None:
    """Keep the newest difference of ``plan``; what was kept before is replaced."""
    storage.replace_bytes(_difference(plan), text.encode())


def kept_difference(storage: Storage, plan: str) -> bytes | None:
    """The JSON of the difference of ``plan``; None if none was computed yet."""
    return storage.read_bytes(_difference(plan)) if storage.exists(_difference(plan)) else None


def keep_page(storage: Storage, plan: str, html: str) -> str:
    """Keep the page of the newest difference of ``plan``; returns where it is."""
    storage.replace_bytes(_page(plan), html.encode())
    return page_uri(storage, plan)


def kept_page(storage: Storage, plan: str) -> bytes | None:
    """The page of the newest difference of ``plan``; None if none is kept."""
    return storage.read_bytes(_page(plan)) if storage.exists(_page(plan)) else None


def page_uri(storage: Storage, plan: str) -> str:
    """Where the page of the newest difference of ``plan`` is kept."""
    return storage.uri(_page(plan))


def _path(id: str) -> str:
    if not is_plan_id(id):
        raise InvalidRequest(f"{id!r} is not the id of a plan.", hint="They look like plan-0123456789abcdef.")
    return f"{_PLANS}/{id}.json"


def _page(plan: str) -> str:
    return f"{_PLANS}/{plan}.difference.html"


def _difference(plan: str) -> str:
    return f"{_PLANS}/{plan}.difference.json"
