"""Which page of the UI is about a word."""

from __future__ import annotations

from backfill_assets.cli.verbs.ui import page_about
from backfill_assets.lakehouse.campaign_journal import JournalEntry, campaign_of, write
from backfill_assets.lakehouse.named_timelines import create_timeline
from backfill_assets.timeline.rewind import new_timeline
from backfill_assets.ui_addresses import asset_page
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import MADE

PLAN = "plan-0123456789abcdef"


def test_a_table_and_a_timeline_have_pages(backfill: Backfill) -> None:
    storage = backfill.lakehouse.storage
    create_timeline(storage, new_timeline(storage, "before", "ana", MADE))
    assert page_about("before", "") == asset_page("timelines", "before")
    assert page_about("bronze_sales", "") == asset_page("bronze_sales")
    assert page_about("bronze_sales", "2017-03-01") == asset_page("bronze_sales", "2017-03-01")
    assert page_about("nothing", "") == ""


def test_a_campaign_that_commands_carry_has_no_page_of_its_own(backfill: Backfill) -> None:
    """The first page names the commands that it waits for; once Dagster carried it, it has one."""
    first, own = asset_page("start_here"), asset_page("campaign", campaign_of(PLAN))
    assert page_about(PLAN) == first
    for daemon, page in ((False, first), (True, own), (False, own)):
        entry = JournalEntry(kind="resumed" if page == own else "started", report={"daemon": daemon}, at=MADE)
        write(backfill.lakehouse.storage, campaign_of(PLAN), entry)
        assert page_about(PLAN) == page
