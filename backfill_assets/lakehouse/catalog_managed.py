"""Refuses catalog-managed tables: their log may be outdated. Pure.

See https://github.com/delta-io/delta/blob/master/PROTOCOL.md#catalog-managed-tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from backfill_assets.errors import LakehouseUnusable

_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview", "catalogOwned"})


class CatalogManaged(LakehouseUnusable):
    pass


def require_own_log(table: str, log: Iterable[Iterable[Mapping[str, Any]]]) -> None:
    protocol = _newest_protocol(log)
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    if found := sorted(features & _FEATURES):
        raise CatalogManaged(
            f"{table} cannot be read: it is a catalog-managed table (table feature {found[0]}), whose commits are "
            "decided by a catalog, not by its folder.",
            hint=f"Give it back to its folder, ALTER TABLE {table} DROP FEATURE {found[0]}, or copy its rows into a "
            "table without this feature.",
        )


def _newest_protocol(log: Iterable[Iterable[Mapping[str, Any]]]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = {}
    for actions in log:
        for action in actions:
            found = action.get("protocol") or found
    return found
