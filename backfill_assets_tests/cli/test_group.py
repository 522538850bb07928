"""The group itself: help at once, errors in one message, exit codes that scripts can rely on, and a quick end."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from datetime import date
from io import StringIO

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli import group
from backfill_assets.cli.group import COMMANDS, command_names, load_command, main
from backfill_assets.cli.output import say
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.terminal import terminal


def test_help_comes_at_once_and_imports_nothing_heavy() -> None:
    """``backfill --help`` in under half a second: a reader does not wait for PySpark to read a sentence."""
    check = (
        "import sys\nfrom backfill_assets.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'pyspark', 'pandera', 'pandas', 'pyarrow', 'deltalake', 'dagster', 'ibis', 'duckdb'}\n"
        "assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()"
    )
    assert any(_seconds_of(check) < 0.5 for _ in range(3)), "CPU seconds"


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
    found = ["--lakehouse", "--log-format", *(name for verb in COMMANDS for name in _options(load_command(verb)))]
    assert "--from-beginning" in found and "--without-arrivals" in found
    assert len(found) <= 80


TURNED = "status --days 2017-03-02..2017-03-01"
ERRORS: Mapping[str, tuple[str, int, str]] = {
    "no command": ("statsu", 2, "Did you mean 'status'?"),
    "no option": ("status --nonsense", 2, "No such option"),
    "no limit": ("history --limit 0", 2, "--limit"),
    "an error": (TURNED, 1, "Error: The day range 2017-03-02..2017-03-01 ends before it starts."),
    "with what was meant": (TURNED, 1, "Did you mean 2017-03-01..2017-03-02?"),
    "thresholds of what is not there": ("dataset thresholds sales", 1, "Nothing of sales is published"),
    "days without a version": ("timeline create trial 2017-03-01", 2, "Days are of a timeline with a --version"),
    "of a command that is added": ("sample real --days soon", 1, "Error: 'soon' is not a day"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_errors_are_one_message_on_stderr_with_an_exit_code(backfill: Backfill, error: str) -> None:
    """2 is for what was typed wrong. No stack trace, nothing a script could take for an answer, no colour in a pipe."""
    typed, exit_code, said = ERRORS[error]
    refused = backfill(*typed.split(), exit_code=exit_code)
    assert said in refused.stderr and refused.stdout == "" and "\x1b" not in refused.stderr


@pytest.mark.parametrize("error", ERRORS)
def test_errors_are_json_where_json_is_asked_for(backfill: Backfill, error: str) -> None:
    """One line on stderr; also of what was typed wrong, with how it is typed."""
    typed, exit_code, said = ERRORS[error]
    refused = backfill(*typed.split(), "--json", exit_code=exit_code)
    found = json.loads(refused.stderr)
    assert refused.stdout == "" and found["exit_code"] == exit_code and ("usage" in found) == (exit_code == 2)
    assert said.removeprefix("Error: ") in f"{found['error']} {found.get('hint')}"


def test_a_no_is_an_error_as_json(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    backfill.lakehouse.publish("first", {"bronze_sales": {date(2017, 3, 1): [1]}})
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    with terminal(80):
        refused = backfill("rollback", "first", "--json", exit_code=1)
    assert json.loads(refused.stderr.splitlines()[-1]) == {
        "error": "The answer was no: nothing was done.",
        "exit_code": 1,
    }


def test_ctrl_c_at_a_question_is_130_and_says_that_nothing_was_done(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    backfill.lakehouse.publish("first", {"bronze_sales": {date(2017, 3, 1): [1]}})

    def interrupted(*_: object, **__: object) -> None:
        raise click.Abort

    monkeypatch.setattr(click, "confirm", interrupted)
    with terminal(80):
        stopped = backfill("rollback", "first", exit_code=130).stderr
    assert stopped.endswith("Interrupted at the question: nothing was done.\n  -> Run the same command again.\n")


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


EMPTY: Mapping[str, tuple[int, str]] = {
    "status": (0, "Nothing was published"),
    "history": (0, "Nothing was published"),
    "history raw_sales": (0, "No such publication"),
    "raw positions raw_sales": (1, "Nothing was published to raw_sales"),
}


@pytest.mark.parametrize("typed", EMPTY)
def test_an_empty_lakehouse_says_so_and_stays_empty(backfill: Backfill, typed: str) -> None:
    """The first things that a newcomer types."""
    exit_code, said = EMPTY[typed]
    assert said in backfill(*typed.split(), exit_code=exit_code).output
    assert not (backfill.home / "lakehouse").exists()


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
        said = backfill("timeline", "delete", "trial", exit_code=130).output
        assert "Interrupted at the question: nothing was done." in said
    assert [each["timeline"] for each in backfill.json("timeline", "list")["timelines"]] == ["trial"]


# ---------------------------------------------------------------------------------------------------------- its end


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
