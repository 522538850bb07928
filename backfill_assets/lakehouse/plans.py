from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_reports import ByPerson
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.text import suggest_name

PLANS, _PLANNERS = "_plans", "_plans/_by"
_MEND = "Put it back from a backup, or remove it: backfill plan makes the same plan again."
_ID = re.compile(r"plan-[0-9a-f]{16}")


def is_plan_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def keep_plan(storage: Storage, id: str, text: str) -> bool:
    return storage.put_if_absent(_path(id), text.encode())


def kept_plan(storage: Storage, id: str) -> bytes:
    """Raises :class:`InvalidRequest` with the nearest id."""
    if not storage.exists(_path(id)):
        hint = suggest_name(id, plan_ids(storage), "backfill plan TARGET --days A..B makes one.")
        raise InvalidRequest(f"There is no plan {id!r} in {storage.root}.", hint=hint)
    return storage.read_bytes(_path(id))


def planners(storage: Storage) -> Documents[ByPerson]:
    return Documents(storage, _PLANNERS, ByPerson, _MEND)


def recipients(storage: Storage, plan: str) -> tuple[str, ...]:
    """Raises :class:`LakehouseUnusable` for a damaged plan."""
    return _kept(storage, plan).asked.terms.notices if is_plan_id(plan) else ()


def plan_ids(storage: Storage) -> list[str]:
    return list(filter(is_plan_id, _plans(storage).files()))


def tables_rebuilt(storage: Storage, id: str) -> tuple[str, ...]:
    """Raises :class:`LakehouseUnusable` for a damaged plan."""
    return tuple(table for step in _kept(storage, id).steps if step.rebuild for table in step.tables)


def pinned_versions(storage: Storage, since: datetime, under_way: Iterable[str]) -> Mapping[str, frozenset[int]]:
    """Plans ``under_way`` or kept ``since`` may still be started: nothing of these versions is reclaimed.

    Raises :class:`LakehouseUnusable` for a damaged plan: its needs are unknown.
    """
    versions_of: dict[str, set[int]] = {}
    oldest = since.timestamp() * 1000
    young = {id for id, file in _plans(storage).files().items() if is_plan_id(id) and file.modified_ms >= oldest}
    for id in sorted(young.union(under_way)):
        for pinned in _kept(storage, id).pinned:
            if pinned.version is not None:
                versions_of.setdefault(pinned.table, set()).add(pinned.version)
    return {table: frozenset(versions) for table, versions in versions_of.items()}


def keep_page(storage: Storage, plan: str, html: str) -> str:
    storage.replace_bytes(_page(plan), html.encode())
    return page_uri(storage, plan)


def kept_page(storage: Storage, plan: str) -> bytes | None:
    return storage.read_bytes(_page(plan)) if storage.exists(_page(plan)) else None


def page_uri(storage: Storage, plan: str) -> str:
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
    steps: tuple[_Step, ...] = ()
    pinned: tuple[_PinnedTable, ...] = ()
    asked: _Request = _Request()


def _plans(storage: Storage) -> Documents[_KeptPlan]:
    return Documents(storage, PLANS, _KeptPlan, _MEND)


def _kept(storage: Storage, id: str) -> _KeptPlan:
    return _plans(storage).get(id) or _KeptPlan()
