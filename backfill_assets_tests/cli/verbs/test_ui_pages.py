"""Which page of the UI is about a word."""

from __future__ import annotations

import pytest

from backfill_assets.cli.verbs.ui import page_about
from backfill_assets.lakehouse.campaign_journal import JournalEntry, campaign_of, write
from backfill_assets.lakehouse.named_timelines import create_timeline
from backfill_assets.timeline.rewind import new_timeline
from backfill_assets.ui_addresses import asset_page
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import MADE

PLAN = "plan-0123456789abcdef"


@pytest.mark.parametrize(
    ("word", "day", "page"),
    [
        ("before", "", asset_page("timelines", "before")),
        ("bronze_sales", "", asset_page("bronze_sales")),
        ("bronze_sales", "2017-03-01", asset_page("bronze_sales", "2017-03-01")),
        ("nothing", "", ""),
    ],
)
def test_a_table_and_a_timeline_have_pages(backfill: Backfill, word: str, day: str, page: str) -> None:
    lakehouse = backfill.lakehouse
    create_timeline(lakehouse.storage, new_timeline(lakehouse.storage, "before", "ana", MADE))
    assert page_about(word, day) == page


@pytest.mark.parametrize(
    ("carried", "page"),
    [
        ([], asset_page("start_here")),
        ([False], asset_page("start_here")),
        ([True], asset_page("campaign", campaign_of(PLAN))),
        ([True, False], asset_page("campaign", campaign_of(PLAN))),
    ],
)
def test_a_campaign_that_commands_carry_has_no_page_of_its_own(
    backfill: Backfill, carried: list[bool], page: str
) -> None:
    """The first page names the commands that it waits for."""
    for number, daemon in enumerate(carried):
        entry = JournalEntry(kind="resumed" if number else "started", report={"daemon": daemon}, at=MADE)
        write(backfill.lakehouse.storage, campaign_of(PLAN), entry)
    assert page_about(PLAN) == page
