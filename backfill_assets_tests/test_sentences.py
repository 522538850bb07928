"""Sentences that had to be read twice are said nowhere any more, and those that took their place are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import backfill_assets

_PACKAGE = Path(backfill_assets.__file__).parent
_JOINED = re.compile(r"\"\s*\n\s*f?\"")
GONE = {
    "is what main has: there is nothing to keep": "is the current version of ",
    "of tables hold again what they held": "are as before.",
    "it can be rolled back until": "You can undo it until ",
    "and is decommissioned then": "then its staging files are deleted",
    "a day that breaks an error of it": "A day that breaks one of its rules is not published",
    "launch it when it is to be built again": "to build it now, launch its days",
    "launch it if it is to be made of": "to build it from what raw has now, launch its days",
    "read again from what still has them": "Restores raw days whose files are gone or damaged",
    "Puts rows of raw days back": "reads their rows again from landed files",
    "raw cannot be built again, since each landed file": "backfill raw restore ",
    "Aborted: the answer was no": "The answer was no: nothing was done.",
}
"""What was said, and words of what is said in its place."""


@cache
def _said() -> str:
    """All of the package's texts; a text over several lines is one."""
    return "\n".join(_JOINED.sub("", file.read_text()) for file in sorted(_PACKAGE.rglob("*.py")))


@pytest.mark.parametrize("old", GONE)
def test_an_odd_sentence_has_not_come_back(old: str) -> None:
    assert old not in _said() and GONE[old] in _said()


def test_counts_of_days_weeks_and_months_are_said_by_one_function() -> None:
    """``36 days and 3 periods of 5 steps`` told nobody what would be rebuilt."""
    assert not re.search(r"periods? of \{|period\"\)\} of", _said())
