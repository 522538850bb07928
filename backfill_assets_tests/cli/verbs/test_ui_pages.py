"""Which page of the UI is about a word."""

from __future__ import annotations

import pytest

from backfill_assets.cli import ids
from backfill_assets.cli.verbs import ui as pages
from backfill_assets.cli.verbs.ui import page_about
from backfill_assets.lakehouse.campaign_journal import JournalEntry, write
from backfill_assets.ui_addresses import asset_page
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.golden import MADE


@pytest.fixture(autouse=True)
def timelines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two timelines, and no campaign."""
    monkeypatch.setattr(pages, "_timeline", lambda word: word if word in ("before", "after") else "")
    monkeypatch.setattr(pages, "_campaign", lambda word: "")


@pytest.mark.parametrize(
    ("word", "day", "page"),
    [
        ("before", "", asset_page("timelines", "before")),
        ("bronze_sales", "", asset_page("bronze_sales")),
        ("bronze_sales", "2017-03-01", asset_page("bronze_sales", "2017-03-01")),
        ("nothing", "", ""),
    ],
)
def test_a_table_and_a_timeline_have_pages(word: str, day: str, page: str) -> None:
    assert page_about(word, day) == page


@pytest.mark.parametrize(
    ("carried", "page"),
    [
        ([], asset_page("start_here")),
        ([False], asset_page("start_here")),
        ([True], asset_page("campaign", "campaign-x")),
        ([True, False], asset_page("campaign", "campaign-x")),
    ],
)
def test_a_campaign_that_commands_carry_has_no_page_of_its_own(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch, carried: list[bool], page: str
) -> None:
    """The first page names the commands that it waits for."""
    monkeypatch.setattr(pages, "_campaign", lambda word: "campaign-x")
    monkeypatch.setattr(ids, "typed_storage", lambda: backfill.lakehouse.storage)
    for number, daemon in enumerate(carried):
        entry = JournalEntry(kind="resumed" if number else "started", report={"daemon": daemon}, at=MADE)
        write(backfill.lakehouse.storage, "campaign-x", entry)
    assert page_about("plan-x") == page
