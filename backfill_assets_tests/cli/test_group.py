"""The group itself: help at once, errors in one message, exit codes that scripts can rely on."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from datetime import date

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli.group import COMMANDS, command_names, load_command, main
from backfill_assets_tests.cli.command import Backfill

MOST_OPTIONS = 80


def test_help_comes_at_once_and_imports_nothing_heavy() -> None:
    """``backfill --help`` in under half a second: a reader does not wait for PySpark to read a sentence."""
    check = (
        "import sys\nfrom backfill_assets.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'pyspark', 'pandera', 'pandas', 'pyarrow', 'deltalake', 'dagster', 'ibis', 'duckdb'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()"
    )
    fastest = min(_seconds_of(check) for _ in range(3))
    assert fastest < 0.5, f"{fastest:.2f} CPU seconds"


def _seconds_of(program: str) -> float:
    """CPU seconds: those of the clock are also other programs'."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("name", command_names())
def test_every_command_has_examples_and_its_line_in_the_overview(name: str) -> None:
    """The overview is written down so that it needs no imports; each command must exist and show how it is used."""
    command = main.get_command(click.Context(main), name)
    assert command is not None and command.name == name
    told = CliRunner().invoke(main, [name, "--help"])
    assert told.exit_code == 0
    assert "Examples:" in told.output and f"backfill {name}" in told.output
    line = COMMANDS[name] if name in COMMANDS else command.get_short_help_str(80)
    assert line in CliRunner().invoke(main, ["--help"]).output


def _options(command: click.Command) -> Iterator[str]:
    """Of a verb and the verbs below it. Help and --json mean one thing everywhere, and give a verb no value."""
    yield from (each.opts[0] for each in command.params if isinstance(each, click.Option) and each.expose_value)
    for each in command.commands.values() if isinstance(command, click.Group) and command is not main else ():
        yield from _options(each)


def test_options_are_few() -> None:
    """Each is one more thing to know. Before one is added, another can go, or be said by a file or a setting."""
    found = ["--lakehouse", *(name for verb in COMMANDS for name in _options(load_command(verb)))]
    assert "--from-beginning" in found and "--without-arrivals" in found
    assert len(found) <= MOST_OPTIONS


def test_a_command_that_is_not_there_gets_the_nearest(backfill: Backfill) -> None:
    """What was typed wrong exits with 2."""
    assert "Did you mean 'status'?" in backfill("statsu", exit_code=2).stderr
    backfill("status", "--nonsense", exit_code=2)
    backfill("history", "--limit", "0", exit_code=2)


def test_errors_are_one_message_on_stderr_and_exit_with_1(backfill: Backfill) -> None:
    """No stack trace, nothing on stdout that a script could take for an answer, no colour codes in a pipe."""
    result = backfill("status", "--days", "2017-03-02..2017-03-01", exit_code=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: The day range 2017-03-02..2017-03-01 ends before it starts.")
    assert "Did you mean 2017-03-01..2017-03-02?" in result.stderr and "\x1b" not in result.stderr


def test_errors_are_red_on_a_terminal_unless_no_color(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """FORCE_COLOR stands for a terminal here."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[31m" in backfill("status", "--days", "tomorrow", exit_code=1).stderr
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in backfill("status", "--days", "tomorrow", exit_code=1).stderr


def test_invalid_settings_are_an_error_of_the_command(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variable is reported by name, and help works all the same."""
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "soon")
    assert "BACKFILL_ROLLBACK_WINDOW_DAYS is 'soon'" in backfill("history", exit_code=1).stderr
    backfill("history", "--help")


def test_the_lakehouse_option_is_stronger_than_the_environment(backfill: Backfill) -> None:
    """To look at a copy, or at another person's."""
    backfill.lakehouse.publish("first", {"bronze_sales": {date(2017, 3, 1): [1]}})
    assert backfill.json("--lakehouse", backfill.home / "lakehouse", "history")["publications"]
    assert backfill.json("--lakehouse", backfill.home / "elsewhere", "history")["publications"] == []
    assert not (backfill.home / "elsewhere").exists()


def test_errors_of_an_added_command_look_the_same(backfill: Backfill) -> None:
    """``sample`` is added by an entry point."""
    result = backfill("sample", "real", "--days", "soon", exit_code=1)
    assert result.stderr.startswith("Error: ") and "'soon' is not a day" in result.stderr
