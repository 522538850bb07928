"""What commands print beside tables, and what they do where no one can answer."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

from backfill_assets.cli.output import say
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.terminal import terminal


def _printed(*lines: str) -> str:
    with redirect_stdout(StringIO()) as printed:
        say(*lines)
    return printed.getvalue()


def test_a_sentence_is_one_line_and_shows_control_characters() -> None:
    """A landed value cannot clear the screen, nor look like a line of its own."""
    assert _printed("quantity: \x1b[2Jmany\nis no number") == "quantity: \\x1b[2Jmany\\nis no number\n"


def test_without_a_terminal_a_command_that_asks_says_what_to_type(backfill: Backfill) -> None:
    """The command as it was typed, with the answer."""
    backfill("timeline", "create", "trial")
    refused = backfill("--lakehouse", backfill.home / "lakehouse", "timeline", "delete", "trial", exit_code=2).stderr
    assert f"Type: backfill --lakehouse {backfill.home / 'lakehouse'} timeline delete trial --yes" in refused
    with terminal(80):
        assert "Aborted" in backfill("timeline", "delete", "trial", exit_code=1).output
    assert [each["timeline"] for each in backfill.json("timeline", "list")["timelines"]] == ["trial"]
