"""What is written is what was meant, and what ``ruff format`` leaves as it is."""

from __future__ import annotations

import ast
import subprocess
import sys
import tokenize
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.proposal.source_text import QUESTION, argument, call, comment, literal, question

VALUES = st.recursive(st.text() | st.integers() | st.booleans(), lambda each: st.lists(each, max_size=3).map(tuple))


def unformatted(text: str, columns: int) -> str:
    """What ``ruff format`` would change."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    typed = [ruff, "format", "--isolated", "--diff", f"--line-length={columns}", "-"]
    return str(subprocess.run(typed, input=text, capture_output=True, text=True, check=False).stdout)


@given(VALUES)
def test_a_literal_is_its_value(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value


def test_literals_and_calls_stay_as_they_are_written() -> None:
    """Quotes, controls, and lines of any length, in both widths that people have."""
    texts = ["a", "it's", 'a "b"', "'\"", "\\", "\t\x1b", "ä\u200b", "", "'" * 3 + '"' * 2]
    lines = [f"a = {literal(each)}" for each in texts]
    for size in (1, 30, 50, 60, 70, 80, 90, 200):
        lines += call("b = Field", {"description": "x" * size, "key": True})
        lines += ["c = Csv(", *argument("columns", tuple("y" * size for _ in range(3)), 1), ")"]
        lines += [comment("z " * size), question("why? " * size)]
    for columns in (88, 120):
        assert unformatted("\n".join([*lines, ""]), columns) == ""


@settings(deadline=None)
@given(st.text())
def test_a_comment_is_one_line_whatever_is_in_it(text: str) -> None:
    """What a source has in its names and values ends no comment."""
    for line in (comment(text), question(text)):
        tokens = list(tokenize.generate_tokens(StringIO(f"{line}\n").readline))
        assert [each.type for each in tokens][:2] == [tokenize.COMMENT, tokenize.NL] and len(tokens) == 3
    assert question(text).startswith(QUESTION.rstrip())


@pytest.mark.parametrize("value", [(), (1,), {"a": (True, "b")}])
def test_literals_of_parts(value: Any) -> None:
    assert ast.literal_eval(literal(value)) == value
