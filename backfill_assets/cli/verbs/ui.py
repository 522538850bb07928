"""``backfill ui``: opens the page of Dagster's UI about a table, a plan or a timeline."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from backfill_assets.cli.completion import complete_anything, complete_days
from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import say, say_json, screen, wants_json
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.errors import BackfillError, InvalidRequest
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


# ------------------------------------------------------------------ pages

_EPILOG = """
\b
Examples:
  backfill ui
  backfill ui fact_daily_revenue --day 2017-03-01
  backfill ui plan-0123456                what the campaign would change, and what it waits for
  backfill ui with-v2 | cat               the address of a timeline's page; a browser opens on a terminal only
"""


@click.command(epilog=_EPILOG)
@click.argument("about", shell_complete=complete_anything, required=False)
@click.option(
    "--day", "day_text", shell_complete=complete_days, metavar="YYYY-MM-DD", help="Of a table: the page of this day."
)
@as_json
def ui(about: str | None, day_text: str | None) -> None:
    """Open the page about a table, a plan, a campaign or a timeline in the browser; by default the overview.

    Of the UI that `backfill dev` of this home has started, or that BACKFILL_UI names. Without a desktop, and on a pipe,
    the address is printed. The exit code is 1 if no UI runs.
    """
    from backfill_assets.cli.running_dev import no_ui, running_ui
    from backfill_assets.cli.verbs.ui import page_about
    from backfill_assets.days import parse_day

    day = str(parse_day(day_text)) if day_text else ""
    page = page_about(about, day) if about else "/assets"
    if not page:
        raise InvalidRequest(
            f"{about!r} is no table, plan, campaign or timeline.",
            hint="backfill status lists the tables, with open campaigns, backfill timeline list lists timelines.",
        )
    address = running_ui(current_settings())
    if not address:
        raise no_ui()
    url = f"{address}{page}"
    if wants_json():
        say_json({"url": url})
        return
    say(url)
    if screen() and _has_desktop():
        click.launch(url)


def _has_desktop() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
