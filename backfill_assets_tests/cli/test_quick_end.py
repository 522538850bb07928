"""A process that has been asked to end does not spend seconds on what the operating system does at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from backfill_assets.cli import group

_PROGRAM = """
import atexit
from backfill_assets.cli.group import end_at_once
end_at_once()

class Kept:
    def __del__(self):
        print("looked at")

kept = Kept()
kept.itself = kept
atexit.register(print, "handlers run")
"""


def test_what_is_in_memory_is_left_as_it_is_and_handlers_run() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout == "handlers run\n"


def test_a_command_ends_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(group, "end_at_once", lambda: asked.append("at once"))
    assert CliRunner().invoke(group.main, ["--version"]).exit_code == 0
    assert asked == ["at once"]
