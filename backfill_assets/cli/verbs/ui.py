from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import date

import click

from backfill_assets.cli.completion import complete_anything
from backfill_assets.cli.options import DAY, as_json
from backfill_assets.cli.output import say, say_json, screen, wants_json
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.ui_addresses import FIRST_PAGE, asset_page


@click.command()
@click.argument("about", shell_complete=complete_anything, required=False)
@click.argument("day", type=DAY, required=False)
@as_json
def ui(about: str | None, day: date | None) -> None:
    """Open the page about a table or a DAY of it, a plan, a campaign or a timeline in the browser.

    \b
    Examples:
      backfill ui                            the first page: how the lakehouse is, and what needs a person
      backfill ui fact_daily_revenue 2017-03-01
      backfill ui plan-0123456                what the campaign would change, and what it waits for
      backfill ui with-v2 | cat               the address of a timeline's page; a browser opens on a terminal only

    The UI is the one that `backfill dev` of this home has started, or that BACKFILL_UI names. Without a desktop, and on
    a pipe, the address is printed. The exit code is 1 if no UI runs.
    """
    from backfill_assets.cli.running_dev import no_ui, running_ui

    page = page_about(about, str(day or "")) if about else FIRST_PAGE
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


def page_about(word: str, day: str = "") -> str:
    """The path of its page, or empty. A campaign of commands has the first page."""
    if word in current_catalog().table_names:
        return asset_page(word, day)
    with suppress(BackfillError, OSError):
        return _campaign_page(word)
    with suppress(BackfillError, OSError):
        return _timeline_page(word)
    return ""


def _campaign_page(word: str) -> str:
    from backfill_assets.campaign.published import course_of
    from backfill_assets.campaign.standing import PlanFacts, page_of, standing_of
    from backfill_assets.cli.ids import find_plan
    from backfill_assets.lakehouse.campaign_journal import campaign_of
    from backfill_assets.lakehouse.plans import kept_plan
    from backfill_assets.plan.records import Plan
    from backfill_assets.publish.log import PublicationLog

    storage = open_storage()
    plan = find_plan(storage, word)
    with suppress(BackfillError, OSError):
        state = course_of(PublicationLog(storage), campaign_of(plan))
        if state.daemon:
            kept = Plan.from_json(kept_plan(storage, plan), id=plan)
            return asset_page("campaign", page_of(kept, standing_of(PlanFacts(plan, state))))
    return FIRST_PAGE


def _timeline_page(word: str) -> str:
    from backfill_assets.cli.ids import find_timeline, timelines

    storage = open_storage()
    found = find_timeline(storage, word)
    return asset_page("timelines", found) if any(each.name == found for each in timelines(storage)) else ""


def _has_desktop() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
