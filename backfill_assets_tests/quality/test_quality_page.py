"""``docs/reference/rules.md`` says what the declarations say: wrong rules on a page are worse than none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.quality.gates import DIMENSIONS
from backfill_assets_tests.quality.quality_page import (
    CHECKS,
    LAYERS,
    MEASURES,
    coverage,
    expressions_of_checks,
    expressions_of_rules,
    rule_classes,
    thresholds,
    without_rules,
)

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "rules.md").read_text()
REPRINT = "`make pins` writes what belongs there."
UNDECLARED = {"contract_holds", "keys_unique"}


def _lines(heading: str) -> list[str]:
    """The first table below a heading."""
    below = f"\n{PAGE}".split(f"\n{heading}\n", 1)[1]
    return re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)[0].splitlines()  # type: ignore[index]


def _cells(lines: list[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_rules_of_each_table_are_those_it_declares() -> None:
    """By table and dimension."""
    assert _lines("## Which rules each table has") == coverage(), REPRINT


@pytest.mark.parametrize(
    ("heading", "layer"), list(zip(["Raw", "Bronze", "Quarantine", "Facts", "Reports"], LAYERS, strict=True))
)
def test_the_thresholds_are_those_that_are_declared(heading: str, layer: Any) -> None:
    """Also which of them only warn."""
    assert _lines(f"### {heading}") == thresholds(layer), REPRINT


@pytest.mark.data
def test_each_check_and_each_rule_has_the_expression_that_carries_it_out() -> None:
    """The judge's own, in DuckDB's SQL."""
    assert _lines(CHECKS) == expressions_of_checks(), REPRINT
    assert _lines(MEASURES) == expressions_of_rules(), REPRINT


def test_where_there_is_no_rule_the_page_says_why() -> None:
    """No more and no less: a dimension that gets its first rule leaves the list."""
    said = {(layer, dimension) for layer, dimension, _ in _cells(_lines("Where there is none:"))}
    assert said == without_rules()


def test_every_rule_has_a_line_that_says_what_to_do() -> None:
    """By class, and the two that no table declares."""
    rows = _cells(_lines("## What each rule measures, and what to do when it is broken"))
    assert {name.strip("`") for name, *_ in rows} == rule_classes() | UNDECLARED
    assert all(measures.endswith(".") and step.endswith(".") for _, measures, step in rows)


def test_the_dimensions_are_the_five() -> None:
    """In the order in which the UI lists them."""
    assert tuple(name for name, _ in _cells(_lines("# Rules"))) == DIMENSIONS
