"""The page of Dagster's UI about a table, a plan, a campaign or a timeline."""

from __future__ import annotations

from contextlib import suppress

from backfill_assets.cli.wiring import current_catalog
from backfill_assets.errors import BackfillError
from backfill_assets.ui_addresses import asset_page

_START_HERE = asset_page("start_here")


def page_about(word: str, day: str = "") -> str:
    """The path of the page; empty for another word.

    Of a campaign that is carried out by commands it is the first page, which names the commands that it waits for.
    """
    if word in current_catalog().table_names:
        return asset_page(word, day)
    if campaign := _campaign(word):
        if not _is_of_daemon(campaign):
            return _START_HERE
        return asset_page("campaign", campaign)
    return asset_page("timelines", name) if (name := _timeline(word)) else ""


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
