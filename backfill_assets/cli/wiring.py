"""What commands work with: settings, catalog, storage and publisher."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from backfill_assets.errors import InvalidRequest
from backfill_assets.settings import Settings

if TYPE_CHECKING:
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.model.catalog import Catalog
    from backfill_assets.publish.publisher import Publisher


LAKEHOUSE = "backfill_assets.lakehouse"


def current_settings() -> Settings:
    settings = Settings.from_environment()
    context = click.get_current_context(silent=True)
    lakehouse = context.meta.get(LAKEHOUSE) if context else None
    return replace(settings, lakehouse=lakehouse.absolute()) if lakehouse else settings


def current_catalog() -> Catalog:
    """Raises :class:`InvalidRequest` if no datasets are named."""
    from backfill_assets.model import catalog

    name = current_settings().datasets
    if not name:
        raise InvalidRequest(
            "No datasets are named.",
            hint="Set BACKFILL_DATASETS to the package that declares them, or datasets under [tool.backfill] in the "
            "pyproject.toml of this folder. backfill init FOLDER writes a project that does.",
        )
    return catalog.load(name)


def open_storage() -> Storage:
    from backfill_assets.lakehouse.storage import Storage

    return Storage(str(current_settings().lakehouse))


def open_publisher() -> Publisher:
    from backfill_assets.publish.publisher import Publisher

    return Publisher(open_storage(), retention_days=current_settings().rollback_window_days)
