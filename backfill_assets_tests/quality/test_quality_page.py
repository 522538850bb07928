"""``docs/reference/rules.md`` says what the declarations say: wrong rules on a page are worse than none."""

from __future__ import annotations

import re

import pytest

from backfill_assets.quality.gates import DIMENSIONS
from backfill_assets_tests.quality import quality_page
from backfill_assets_tests.quality.quality_page import rule_classes, without_rules, write_tables

PAGE = quality_page.PAGE.read_text()


def _lines(heading: str) -> list[str]:
    """The first table below a heading."""
    below = f"\n{PAGE}".split(f"\n{heading}\n", 1)[1]
    return re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)[0].splitlines()  # type: ignore[index]


def _cells(lines: list[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.data
def test_the_tables_of_the_page_are_what_is_declared() -> None:
    """The rules of each table, their thresholds and which of them only warn, and the judge's own expressions."""
    assert write_tables(PAGE) == PAGE, "`make pins` writes what belongs there."


def test_where_there_is_no_rule_the_page_says_why() -> None:
    """No more and no less: a dimension that gets its first rule leaves the list."""
    said = {(layer, dimension) for layer, dimension, _ in _cells(_lines("Where there is none:"))}
    assert said == without_rules()


def test_every_rule_has_a_line_that_says_what_to_do() -> None:
    """By class, and the two that no table declares."""
    rows = _cells(_lines("## What each rule measures, and what to do when it is broken"))
    assert {name.strip("`") for name, *_ in rows} == rule_classes() | {"contract_holds", "keys_unique"}
    assert all(measures.endswith(".") and step.endswith(".") for _, measures, step in rows)


def test_the_dimensions_are_the_five() -> None:
    """In the order in which the UI lists them."""
    assert tuple(name for name, _ in _cells(_lines("# Rules"))) == DIMENSIONS
