"""What commands print beside tables, and what they do where no one can answer."""

from __future__ import annotations

from contextlib import redirect_stdout
from datetime import date
from io import StringIO

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli import output
from backfill_assets.cli.output import ranges, say, say_facts, table
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.terminal import terminal

DAY = date(2017, 3, 1)


def _printed(*lines: str) -> str:
    with redirect_stdout(StringIO()) as printed:
        say(*lines)
    return printed.getvalue()


def test_a_sentence_is_one_line_and_shows_control_characters() -> None:
    """A landed value cannot clear the screen, nor look like a line of its own."""
    assert _printed("quantity: \x1b[2Jmany\nis no number") == "quantity: \\x1b[2Jmany\\nis no number\n"


def test_a_screen_has_the_first_ranges_of_many_and_a_pipe_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    days = [date(2017, 3, number) for number in (1, 2, 5, 7, 9)]
    assert ranges(days, most=2) == "2017-03-01..2017-03-02, 2017-03-05, 2017-03-07, 2017-03-09"
    monkeypatch.setattr(output, "screen", lambda: True)
    assert ranges(days, most=2) == "2017-03-01..2017-03-02, 2017-03-05, and 2 more ranges"
    assert ranges(days, most=3).endswith("2017-03-07, and 1 more range")


def test_facts_are_tab_separated_on_a_pipe() -> None:
    with redirect_stdout(StringIO()) as printed:
        say_facts("a day", [("rows", "1"), ("note", "tab\there")])
    assert printed.getvalue() == "a day\nrows\t1\nnote\ttab\\there\n"


def test_a_table_that_is_cut_names_ways_that_the_command_has() -> None:
    rows = table("day", "why", rows=[("2017-03-01", "w" * 90)], drop=("why",))

    @click.command()
    @click.option("--json", is_flag=True)
    def with_json(json: bool) -> None:
        say(rows)

    @click.command()
    def without() -> None:
        say(rows)

    with terminal(20):
        assert "--json have" in CliRunner().invoke(with_json).output
        printed = CliRunner().invoke(without).output
    assert "left out: why" in printed and "--json" not in printed


def test_without_a_terminal_a_command_that_asks_says_what_to_type(backfill: Backfill) -> None:
    """The command as it was typed, with the answer."""
    backfill.lakehouse.publish("first", {"bronze_sales": {DAY: [1]}})
    backfill.lakehouse.publish("second", {"bronze_sales": {DAY: [2]}})
    backfill.lakehouse.minutes += 60 * 24 * 365 * 30
    refused = backfill("--lakehouse", backfill.home / "lakehouse", "timeline", "delete", "x", exit_code=1).stderr
    assert "no timeline" in refused
    backfill("timeline", "create", "trial")
    refused = backfill("--lakehouse", backfill.home / "lakehouse", "timeline", "delete", "trial", exit_code=2).stderr
    assert f"Type: backfill --lakehouse {backfill.home / 'lakehouse'} timeline delete trial --yes" in refused
    with terminal(80):
        assert "Aborted" in backfill("timeline", "delete", "trial", exit_code=1).output
    assert [each["timeline"] for each in backfill.json("timeline", "list")["timelines"]] == ["trial"]
