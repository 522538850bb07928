"""Which versions publications made current, read from the newest commit of the log alone."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_assets.lakehouse.records import CurrentVersion
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publication_log.log import PublicationLog, utc_now
from backfill_assets.published.reading import anything_published


def read_current(storage: Storage) -> Mapping[str, CurrentVersion]:
    """By step; the version that is declared as current counts for all others. Writes nothing."""
    return PublicationLog(storage, utc_now).head().state.current if anything_published(storage) else {}


def read_switches(storage: Storage) -> dict[str, str]:
    """The versions of :func:`read_current` alone."""
    return {step: each.version for step, each in read_current(storage).items()}
