"""The whole publication log, as an audit reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.rows import ARROW_SCHEMA


def log_rows(log: PublicationLog, *events: str, columns: Sequence[str] = ARROW_SCHEMA.names) -> list[dict[str, Any]]:
    """Entries of the given kinds (all kinds if none is named), oldest first."""
    files = log.files()
    found = files.rows(columns, event=events) if events else files.read(columns)
    rows: list[dict[str, Any]] = found.select(list(columns)).to_pylist()
    return rows


def delivered_keys(publisher: Publisher) -> list[str]:
    """The keys of all notices that were delivered: those that were announced on their own come first."""
    announced = (file.path for file in publisher.storage.files("_outbox/delivered"))
    keys = sorted(path.rpartition("/")[2].removesuffix(".json") for path in announced)
    return [*keys, *(row["publication"] for row in log_rows(publisher.log, "delivered"))]
