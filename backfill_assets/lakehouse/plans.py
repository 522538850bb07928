"""Plans as they are kept: JSON files named after their content, and which of them are being carried out.

The newest difference of a campaign is kept beside its plan, with its page: others read it without computing it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.text import suggest_name

PLANS, _OPEN, _PLANNERS = "_plans", "_plans/_open", "_plans/_by"
_MEND = "Put it back from a backup, or remove it: backfill plan makes the same plan again."
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


def planners(storage: Storage) -> Documents[dict[str, str]]:
    """Who made each plan, by its id. The first one stays: the same id is the same content."""
    return Documents(storage, _PLANNERS, dict[str, str], _MEND)


def recipients(storage: Storage, plan: str) -> tuple[str, ...]:
    """For whom the notices about ``plan`` are, as it was kept; empty if it does not say so.

    Raises :class:`LakehouseUnusable` if it is damaged.
    """
    return _kept(storage, plan).asked.terms.notices if is_plan_id(plan) else ()


def plan_ids(storage: Storage) -> list[str]:
    return list(filter(is_plan_id, _plans(storage).files()))


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
    return list(_open_marks(storage))


def _open_marks(storage: Storage) -> dict[str, StoredFile]:
    marks = {file.path.rsplit("/", 1)[1]: file for file in storage.files(_OPEN)}
    return {id: marks[id] for id in sorted(marks) if is_plan_id(id)}


def under_way(storage: Storage) -> list[PlanUnderWay]:
    """The plans that are being carried out: the notice on the tables that they will change, until they are closed."""
    plans = []
    for id, mark in _open_marks(storage).items():
        tables, damage = tuple[str, ...](), ""
        try:
            tables = tuple(table for step in _kept(storage, id).steps if step.rebuild for table in step.tables)
        except LakehouseUnusable as error:
            damage = str(error)
        plans.append(PlanUnderWay(id, tables, datetime.fromtimestamp(mark.modified_ms // 1000, UTC), damage))
    return plans


def pinned_versions(storage: Storage, since: datetime) -> Mapping[str, frozenset[int]]:
    """The versions of tables that plans were made from, by table: nothing of them may be reclaimed.

    Of plans that are being carried out, and of those that were kept ``since`` then: they may still be started. Raises
    :class:`LakehouseUnusable` if one is damaged: what it was made from is unknown then.
    """
    versions_of: dict[str, set[int]] = {}
    oldest = since.timestamp() * 1000
    young = {id for id, file in _plans(storage).files().items() if is_plan_id(id) and file.modified_ms >= oldest}
    for id in sorted(young.union(open_plan_ids(storage))):
        for pinned in _kept(storage, id).pinned:
            if pinned.version is not None:
                versions_of.setdefault(pinned.table, set()).add(pinned.version)
    return {table: frozenset(versions) for table, versions in versions_of.items()}


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
    return f"{PLANS}/{id}.json"


def _page(plan: str) -> str:
    return f"{PLANS}/{plan}.difference.html"


# ------------------------------------------------------------------ what a kept plan says to those below it


class _PinnedTable(AuditRecord):
    table: str
    version: int | None = None


class _Step(AuditRecord):
    tables: tuple[str, ...]
    rebuild: Mapping[str, Any] = {}


class _Terms(AuditRecord):
    notices: tuple[str, ...] = ()


class _Request(AuditRecord):
    terms: _Terms = _Terms()


class _KeptPlan(AuditRecord):
    """The part of a plan that is read here, as any version of the code has kept it."""

    steps: tuple[_Step, ...] = ()
    pinned: tuple[_PinnedTable, ...] = ()
    asked: _Request = _Request()


def _plans(storage: Storage) -> Documents[_KeptPlan]:
    return Documents(storage, PLANS, _KeptPlan, _MEND)


def _kept(storage: Storage, id: str) -> _KeptPlan:
    """The plan as it was kept; an empty one if it was removed."""
    return _plans(storage).get(id) or _KeptPlan()
