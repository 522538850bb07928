"""A process that has been asked to end does not spend seconds on what the operating system does at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from backfill_assets.cli import group

_PROGRAM = """
import atexit
{first}

class Kept:
    def __del__(self):
        print("looked at")

kept = Kept()
kept.itself = kept
atexit.register(print, "handlers run")
"""
_QUICK = "from backfill_assets.cli.group import end_at_once; end_at_once()"


@pytest.mark.parametrize(("first", "said"), [("", ["handlers run", "looked at"]), (_QUICK, ["handlers run"])])
def test_what_is_in_memory_is_left_as_it_is(first: str, said: list[str]) -> None:
    """Python as it is looks at every object once more; handlers of the end run in any case."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(first=first)], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == said


def test_a_command_ends_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(group, "end_at_once", lambda: asked.append("at once"))
    assert CliRunner().invoke(group.main, ["--version"]).exit_code == 0
    assert asked == ["at once"]
