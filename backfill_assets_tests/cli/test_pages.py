"""Which page of the UI a command is about, by what was given to it."""

from __future__ import annotations

import pytest

from backfill_assets.cli import ids, pages
from backfill_assets.cli.pages import page_of
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
    ("command", "given", "page"),
    [
        ("run", {"name": "before", "tables": ("bronze_sales",)}, asset_page("timelines", "before")),
        ("timeline", {}, asset_page("timelines")),
        ("show", {"table": "bronze_sales", "day": "2017-03-01"}, asset_page("bronze_sales", "2017-03-01")),
        ("history", {"table": None}, "/assets"),
        ("doctor", {}, "/deployment"),
        ("ui", {"about": "bronze_sales"}, ""),
    ],
)
def test_a_command_leads_to_the_page_of_what_it_made_or_names(
    command: str, given: dict[str, object], page: str
) -> None:
    assert page_of(command, given) == page


@pytest.mark.parametrize(
    ("carried", "command", "page"),
    [
        ([], "plan", asset_page("start_here")),
        ([False], "approve", asset_page("start_here")),
        ([True], "approve", asset_page("campaign", "campaign-x")),
        ([True, False], "status", asset_page("campaign", "campaign-x")),
        ([True], "plan", asset_page("campaign", "campaign-x")),
    ],
)
def test_a_campaign_that_commands_carry_has_no_page_of_its_own(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch, carried: list[bool], command: str, page: str
) -> None:
    """The first page names the commands that it waits for."""
    monkeypatch.setattr(pages, "_campaign", lambda word: "campaign-x")
    monkeypatch.setattr(ids, "typed_storage", lambda: backfill.lakehouse.storage)
    for number, daemon in enumerate(carried):
        entry = JournalEntry(kind="resumed" if number else "started", report={"daemon": daemon}, at=MADE)
        write(backfill.lakehouse.storage, "campaign-x", entry)
    assert page_of(command, {"plan": "plan-x"}) == page
