"""The difference of a campaign, kept beside its plan: others read it without computing it, and without Spark."""

from __future__ import annotations

from backfill_assets.lakehouse.storage import Storage


def keep_difference(storage: Storage, plan: str, text: str) -> None:
    """Keep the newest difference of ``plan``; what was kept before is replaced."""
    storage.replace_bytes(_path(plan), text.encode())


def kept_difference(storage: Storage, plan: str) -> bytes | None:
    """The JSON of the difference of ``plan``; None if none was computed yet."""
    return storage.read_bytes(_path(plan)) if storage.exists(_path(plan)) else None


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


def _page(plan: str) -> str:
    return f"_plans/{plan}.difference.html"


def _path(plan: str) -> str:
    return f"_plans/{plan}.difference.json"
