"""How a table fits: nothing is cut."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from backfill_assets.report.answer import Grid
from backfill_assets.report.fitting import fit, folded, folded_cell


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 5, ["short"]),
        ("one two three", 8, ["one two", "three"]),
        ("2017-03-01..2017-03-03, 2017-03-06", 22, ["2017-03-01..", "2017-03-03, 2017-03-06"]),
        ("fact_daily_revenue", 12, ["fact_daily_", "revenue"]),
        ("\u6771\u4eac\u6771\u4eac", 5, ["\u6771\u4eac", "\u6771\u4eac"]),
        ("0123456789", 4, ["0123", "4567", "89"]),
    ],
)
def test_a_line_is_folded_between_words_and_else_within_one(text: str, width: int, lines: list[str]) -> None:
    found = folded(text, width)
    assert found == lines and all(cell_len(line) <= width for line in found)


def test_of_several_lines_what_goes_on_is_further_in() -> None:
    assert folded_cell("one two\nthree", 5) == "one\n two\nthree" and folded_cell("one two", 5) == "one\ntwo"


def test_columns_that_decorate_go_in_their_order_and_only_as_many_as_are_needed() -> None:
    table = Grid("t", ("name", "a", "b"), [("x" * 10, "y" * 10, "z" * 10)], drop=("b", "a"))
    cells = [["x" * 10, "y" * 10, "z" * 10]]
    whole, less, least = (fit(table, cells, width) for width in (40, 30, 14))
    assert whole and less and least
    assert (whole.left_out, less.left_out, least.left_out) == ((), ("b",), ("a", "b"))
    assert fit(table, cells, 9) is None
