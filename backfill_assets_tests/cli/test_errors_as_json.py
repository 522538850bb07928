"""Every command, asked for JSON and typed wrong in each way: one answer on stdout, or one error on stderr, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date

import click
import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.cli.group import command_names, load_command
from backfill_assets_tests.cli.command import Backfill

DAY = date(2017, 3, 1)
WAYS: Mapping[str, Mapping[str, str]] = {
    "nothing that is named is there": {"TABLE": "nosuch", "DAY": str(DAY)},
    "a day is none": {"TABLE": "raw_sales", "DAY": "2017-02-30"},
    "an id is none": {"TABLE": "plan-nosuch", "DAY": str(DAY)},
    "all is well, in an empty lakehouse": {"TABLE": "raw_sales", "DAY": str(DAY)},
}
_STARTS_SOMETHING = ("spark start", "lab", "sample live", "sample real", "sample synthetic")
"""Whatever is typed, unless an option is wrong."""
_WORKS = {"run": ("a day is none",), "dataset check": ("a day is none",), "stream": ("nothing that is named is there",)}
"""The ways that keep these from starting Spark, or from reading for ever."""


def _leaves(command: click.Command, typed: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _leaves(each, f"{typed} {name}")
    else:
        yield typed, command


def _with_json() -> Mapping[str, click.Command]:
    found = [leaf for name in command_names() for leaf in _leaves(load_command(name), name)]
    return {typed: each for typed, each in found if any("--json" in option.opts for option in each.params)}


def _words(command: click.Command, way: Mapping[str, str]) -> list[str]:
    """A word for each argument, by what it is about; and the days, where they are an option."""
    words = []
    for each in command.params:
        if isinstance(each, click.Argument):
            about = each.make_metavar(click.Context(command))
            days = any(part in about for part in ("DAY", "A..B")) and "TABLE" not in about
            words.append(way["DAY"] if days else way["TABLE"])
        elif "--days" in each.opts:
            words += ["--days", way["DAY"]]
    return words


WRONG = [
    (typed, way)
    for typed in _with_json()
    for way in WAYS
    if typed not in _STARTS_SOMETHING and way in _WORKS.get(typed, WAYS)
]


@pytest.mark.parametrize(("typed", "way"), WRONG)
def test_what_is_typed_wrong_is_one_line_of_json(backfill: Backfill, typed: str, way: str) -> None:
    """No stack trace, nothing beside it, and the exit code is in it."""
    words = [*typed.split(), *_words(_with_json()[typed], WAYS[way]), "--json"]
    _require_json(words)


@pytest.mark.parametrize("typed", _with_json())
def test_an_option_that_is_not_there_is_one_line_of_json(typed: str) -> None:
    assert _require_json([*typed.split(), "--nonsense", "--json"]) == 2


def _require_json(words: list[str]) -> int:
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
    if done.stdout:
        json.loads(done.stdout)
    else:
        found = json.loads(done.stderr.splitlines()[-1])
        assert found["error"] and found["exit_code"] == done.exit_code, words
        assert "Traceback" not in done.stderr and "\n" not in found["error"].strip(), words
    return done.exit_code
