"""A Dagster instance belongs to one lakehouse: with two, it would show days as materialized that one of them lacks."""

from __future__ import annotations

import dagster as dg

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.published.reading import anything_published

_KEY = "backfill_assets/lakehouse"


def why_not_own(instance: dg.DagsterInstance, storage: Storage) -> str:
    """What :func:`require_own_lakehouse` refuses, for the tick of a sensor; empty if it refuses nothing.

    A sensor that raises shows a traceback each time, where people look for what to do.
    """
    try:
        require_own_lakehouse(instance, storage)
    except LakehouseUnusable as error:
        return str(error)
    return ""


def require_own_lakehouse(instance: dg.DagsterInstance, storage: Storage) -> None:
    """Record the lakehouse in ``storage`` as the one of ``instance``; raise if it belongs to another that still exists.

    After a lakehouse was moved or removed, another one can take its place.
    """
    known = instance.daemon_cursor_storage.get_cursor_values({_KEY}).get(_KEY)
    if known == storage.root:
        return
    if known is not None and anything_published(Storage(known)):
        raise LakehouseUnusable(
            f"This Dagster instance is about the lakehouse {known}, and this is for {storage.root}.",
            hint=(
                "Give each lakehouse a Dagster of its own: "
                'export DAGSTER_HOME="$(python -m backfill_assets.cli.dev.dagster_home)", with BACKFILL_HOME set.'
            ),
        )
    instance.daemon_cursor_storage.set_cursor_values({_KEY: storage.root})
