"""Which page of the UI a command is about, by what was given to it."""

from __future__ import annotations

import pytest

from backfill_assets.cli import pages
from backfill_assets.cli.pages import page_of
from backfill_assets.ui_addresses import asset_page


@pytest.fixture(autouse=True)
def timelines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two timelines, and no campaign."""
    monkeypatch.setattr(pages, "_timeline", lambda word: word if word in ("before", "after") else "")
    monkeypatch.setattr(pages, "_campaign", lambda word: "")


@pytest.mark.parametrize(
    ("command", "given", "page"),
    [
        ("forward", {"name": "before", "other": "after"}, asset_page("timelines", "after")),
        ("forward", {"name": "before", "other": None}, asset_page("timelines", "before")),
        ("show", {"table": "bronze_sales", "day_text": "2017-03-01"}, asset_page("bronze_sales", "2017-03-01")),
        ("history", {"table": None}, "/assets"),
        ("doctor", {}, "/deployment"),
        ("ui", {"about": "bronze_sales"}, ""),
    ],
)
def test_a_command_leads_to_the_page_of_what_it_made_or_names(
    command: str, given: dict[str, object], page: str
) -> None:
    """A timeline that went forward under another name stays as it is: the days are on the other."""
    assert page_of(command, given) == page
