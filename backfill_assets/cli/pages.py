"""The page of Dagster's UI that a command is about: a link below its output, while a UI runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from backfill_assets.cli.wiring import current_catalog
from backfill_assets.errors import BackfillError
from backfill_assets.ui_addresses import BACKFILLS, asset_page

_OVERVIEW = "/assets"
_START_HERE = asset_page("start_here")
_PAGES: Mapping[str, str] = {
    "doctor": "/deployment",
    "demo": BACKFILLS,
    "maintain": "/asset-groups",
    "timeline": asset_page("timelines"),
    "history": _OVERVIEW,
    "rollback": _OVERVIEW,
    "status": _OVERVIEW,
    "plan": asset_page("campaign"),
    "stream": _OVERVIEW,
}
"""Of commands that are about no table, plan or timeline, or were given none."""
_WITHOUT = frozenset({"ui", "sample", "dataset", "lab", "spark"})
"""Commands about nothing that the UI shows."""


def page_of(command: str, parameters: Mapping[str, Any]) -> str:
    """The path of the page that a command is about, by what was given to it; empty for one about none."""
    if command in _WITHOUT:
        return ""
    words = _words(parameters)
    day = parameters.get("day")
    for word in words:
        if page := page_about(word, str(day) if day else ""):
            return page
    return _PAGES.get(command, "")


def page_about(word: str, day: str = "") -> str:
    """The page of a table, a plan, a campaign or a timeline; empty for another word.

    Of a campaign that is carried out by commands it is the first page, which names the commands that it waits for.
    """
    if word in current_catalog().table_names:
        return asset_page(word, day)
    if campaign := _campaign(word):
        if not _is_of_daemon(campaign):
            return _START_HERE
        return asset_page("campaign", campaign)
    return asset_page("timelines", name) if (name := _timeline(word)) else ""


def _words(parameters: Mapping[str, Any]) -> Sequence[str]:
    """What names something, the most precise first."""
    names = ("name", "plan", "tables", "table", "target", "what", "left", "right", "step")
    given = (parameters.get(name) for name in names)
    flat = (each for value in given for each in (value if isinstance(value, tuple) else (value,)))
    return [each for each in flat if isinstance(each, str) and each]


def _campaign(word: str) -> str:
    """The campaign of a plan that is typed in full or short; empty if it is none."""
    from backfill_assets.cli.ids import find_plan, typed_storage
    from backfill_assets.lakehouse.campaign_journal import campaign_of

    with suppress(BackfillError, OSError):
        return campaign_of(find_plan(typed_storage(), word))
    return ""


def _is_of_daemon(campaign: str) -> bool:
    """Whether Dagster has carried it: a campaign that commands carry has no page of its own."""
    from backfill_assets.cli.ids import typed_storage
    from backfill_assets.lakehouse.campaign_journal import entries

    with suppress(BackfillError, OSError):
        return any(entry.report.get("daemon") for entry in entries(typed_storage(), campaign))
    return False


def _timeline(word: str) -> str:
    from backfill_assets.cli.ids import find_timeline, timelines, typed_storage

    with suppress(BackfillError, OSError):
        storage = typed_storage()
        found = find_timeline(storage, word)
        return found if any(each.name == found for each in timelines(storage)) else ""
    return ""
