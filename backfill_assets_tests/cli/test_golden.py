"""What commands print is what is kept in golden_files/; ``make golden`` writes it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets_tests.cli.golden import AGAIN, BRONZE, FACTS, FOLDER, RAW, WIDTH, golden_home, kept_pages, page

pytestmark = pytest.mark.protocol
_SECTION = re.compile(r"^=== (?P<title>.*?)  \[\d+\]\n(?P<text>.*?)(?=^=== |\Z)", re.DOTALL | re.MULTILINE)
_BOX = set("┏┳┓┃┡╇┩│├┼┤└┴┘─━")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with golden_home() as found:
        yield found


@pytest.mark.parametrize("command", kept_pages())
def test_a_command_prints_what_is_kept(command: str, home: Path) -> None:
    """At 80 columns, on a pipe and as JSON."""
    kept = FOLDER / f"{command}.txt"
    assert kept.exists(), "make golden writes it"
    assert page(command, home) == kept.read_text(), f"if it is meant: make golden, and look at {kept.name}"


def _sections() -> list[tuple[str, str]]:
    pages = [file.read_text() for file in sorted(FOLDER.glob("*.txt"))]
    return [(found["title"], found["text"]) for text in pages for found in _SECTION.finditer(text)]


def test_twelve_screens_are_kept_and_no_other() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(kept_pages())


def test_a_pipe_gets_no_box_and_no_colour() -> None:
    piped = [(title, text) for title, text in _sections() if title.endswith("| cat")]
    assert len(piped) > 15
    assert [title for title, text in piped if _BOX & set(text) or "\\e" in text] == []


def test_boxes_are_no_wider_than_the_terminal_and_break_no_row() -> None:
    """Every line of a box is as long as its first: nothing was wrapped by the terminal or into a second line."""
    for title, text in _sections():
        lines = [line for line in text.splitlines() if line and line[0] in _BOX]
        assert [line for line in lines if len(line) > WIDTH] == [], title


def test_ids_that_are_pasted_are_on_one_line() -> None:
    """Short ones, each complete in the first column of the history."""
    text = dict(_sections())["backfill history"]
    cells = {line.split("│")[1].strip() for line in text.splitlines() if line.startswith("│")}
    assert {each.rpartition("-")[2][:7] for each in (RAW, BRONZE, FACTS, AGAIN)} <= cells


def test_json_is_json() -> None:
    """And nothing is printed around it."""
    for title, text in _sections():
        if title.endswith("--json") and text.startswith(("{", "[")):
            json.loads(text)
