"""The end of the demo: lines that can be copied."""

from __future__ import annotations

import shlex

import click

from backfill_assets.cli import main
from backfill_assets.days import DayRange
from backfill_assets.examples.demo.what_next import what_next

DAYS = DayRange.parse("2017-03-01..2017-03-07")


def _links(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if "http" in line]


def test_it_names_the_command_and_the_pages_that_it_opens() -> None:
    """The first page is where to begin; the filter of the first lesson is in the address."""
    lines = what_next(DAYS, "abcdefgh")
    assert lines[0] == "Next: make dev"
    assert _links(lines) == [
        "http://127.0.0.1:3000/assets/start_here",
        "http://127.0.0.1:3000/runs/b/abcdefgh",
        "http://127.0.0.1:3000/asset-groups~key%3A%22fact_sales_transactions%22%2B/",
    ]


def test_where_a_ui_runs_its_pages_are_what_is_next() -> None:
    """No second `make dev`."""
    lines = what_next(DAYS, "abcdefgh", "http://127.0.0.1:3105")
    assert lines[0] == "Next, in the UI that runs:"
    assert not [line for line in lines if "make dev" in line]
    assert {link.split("/")[2] for link in _links(lines)} == {"127.0.0.1:3105"}


def test_a_demo_that_launched_nothing_has_no_backfill_to_show() -> None:
    """A second one computes nothing."""
    assert not [link for link in _links(what_next(DAYS, "")) if "/runs/b/" in link]


def test_with_the_bug_it_leads_to_the_plan_that_repairs_it() -> None:
    """What it prints are commands, of the days that were built."""
    lines = what_next(DAYS, "abcdefgh", with_the_bug=True)
    typed = [shlex.split(line) for line in lines if line.strip().startswith("backfill ")]
    assert [words[1] for words in typed] == ["status", "plan"]
    assert all(str(DAYS) in words for words in typed)
    for words in typed:
        command = main.get_command(click.Context(main), words[1])
        assert command is not None
        command.make_context(words[1], words[2:])
