"""What takes longer than two seconds says that it is under way, on a terminal alone."""

from __future__ import annotations

import time

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli import output
from backfill_assets.cli.output import awaited
from backfill_assets_tests.cli.terminal import terminal


@click.command()
@click.option("--seconds", type=float)
def slow(seconds: float) -> None:
    with awaited("Reading the logs"):
        time.sleep(seconds)
    click.echo("done")


def test_a_slow_answer_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick one shows nothing, and a log has no line that moves."""
    monkeypatch.setattr(output, "_PATIENCE_SECONDS", 0.05)
    with terminal(80):
        found = CliRunner().invoke(slow, ["--seconds", "0.5"])
        assert "Reading the logs ..." in found.stderr and found.stdout == "done\n"
        assert CliRunner().invoke(slow, ["--seconds", "0"]).output == "done\n"
    assert CliRunner().invoke(slow, ["--seconds", "0.2"]).output == "done\n"
