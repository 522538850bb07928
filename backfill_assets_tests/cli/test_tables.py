"""Tables on terminals of any width: aligned, never wrapped, and without what a terminal would carry out."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from backfill_assets.cli.output import table
from backfill_assets.cli.tables import ShownTable, visible

PUBLICATION = "20170601t101500-fact-sales-transactions-1a2b3c4d"


def _drawn(rows: ShownTable, width: int) -> list[str]:
    fitted = rows.fit(width)
    to = Console(width=max(width, fitted.width), color_system=None)
    with to.capture() as captured:
        to.print(fitted.boxed(), crop=False)
    return captured.get().splitlines()


def test_wide_characters_take_the_cells_that_they_are_shown_in() -> None:
    """East Asian characters and emoji are two cells wide; a combining accent takes none."""
    names = ["東京", "🛒 cart", "e\u0301te\u0301", "plain", "👩‍👩‍👧", "\uff46\uff55ll"]
    lines = _drawn(table("store", "rows", rows=[(name, "1") for name in names], numbers=["rows"]), 60)
    assert len(lines) == 4 + len(names) and {cell_len(line) for line in lines} == {cell_len(lines[0])}


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("bell\x07 \x00 \x9b2J", r"bell\x07 \x00 \x9b2J"),
        ("user\u202egnp.exe", r"user\u202egnp.exe"),
    ],
)
def test_control_characters_are_shown_as_text(data: str, shown: str) -> None:
    """In a box, in a coloured cell and on a pipe."""
    rows = table("value", "other", rows=[(data, "x")])
    assert shown in "\n".join(_drawn(rows, 80))
    assert list(rows.lines())[1] == f"{shown}\tx"
    assert visible(data).plain == shown


def test_a_colour_stays_where_it_was_when_characters_grow() -> None:
    found = visible(Text.assemble("a\x1b", ("red\n", "red"), "z"))
    assert found.plain == "a\\x1bred\\nz"
    (span,) = found.spans
    assert found.plain[span.start : span.end] == "red\\n"


def test_columns_go_in_the_stated_order_and_are_named() -> None:
    """The first one and those that are typed again stay, however narrow it is."""
    rows = table("day", "publication", "rows", "why", rows=[("2017-03-01", PUBLICATION, "12", "w")], drop=("why",))
    assert rows.fit(200).left_out == () and rows.fit(200).note(json=True) == ""
    assert rows.fit(rows.fit(200).width - 1).left_out == ("why",)
    narrow = rows.fit(20)
    assert narrow.left_out == ("why", "rows") and narrow.columns == ("day", "publication")
    assert "left out: why, rows" in narrow.note(json=True) and "--json" in narrow.note(json=True)
    assert narrow.note(json=False) == "(left out: why, rows. A wider terminal and | less -S have all of it.)"
    assert all(PUBLICATION in line for line in _drawn(rows, 20) if "2017" in line)


def test_a_long_cell_is_cut_before_a_column_goes_and_no_id_is_cut() -> None:
    rows = table("publication", "why", rows=[(PUBLICATION, "because " * 20)])
    fitted = rows.fit(90)
    assert fitted.left_out == () and fitted.cut == ("why",) and fitted.width <= 90
    (line,) = [line for line in _drawn(rows, 90) if "because" in line]
    assert PUBLICATION in line and line.rstrip(" │").endswith("…")


def test_empty_columns_go_first_and_are_not_missed() -> None:
    rows = table("table", "empty", "days", rows=[("bronze_sales", "", "2017-03-01")])
    fitted = rows.fit(30)
    assert fitted.columns == ("table", "days") and fitted.note(json=True) == ""


def test_columns_of_zeros_go_before_those_that_say_something() -> None:
    """They are named: a zero was counted."""
    columns = ("table", "held back", "changed", "which")
    rows = table(*columns, rows=[("bronze_sales", "0", "5", "2017-03-01")], numbers=("held back", "changed"))
    fitted = rows.fit(rows.fit(200).width - 1)
    assert fitted.columns == ("table", "changed", "which") and fitted.left_out == ("held back",)


def test_empty_columns_go_before_a_cell_is_cut_and_do_not_come_back_for_a_longer_one() -> None:
    """A reason is of more use than a column in which nothing is."""
    columns = ("table", "by", "staged", "why")
    rows = table(*columns, rows=[("bronze_sales", "", "0", "an input has changed since")], numbers=("staged",))
    assert rows.fit(rows.fit(200).width - 1).columns == ("table", "staged", "why")
    narrow = rows.fit(46)
    assert narrow.columns == ("table", "why") and narrow.left_out == ("staged",) and narrow.cut == ()


def test_the_stated_order_holds_among_columns_of_zeros_too() -> None:
    columns = ("table", "changed", "unchanged")
    rows = table(*columns, rows=[("bronze_sales", "0", "0")], numbers=columns[1:], drop=("unchanged",))
    assert rows.fit(rows.fit(200).width - 1).left_out == ("unchanged",)


def test_times_are_to_the_minute_before_a_column_goes() -> None:
    """In the note they are cut short; a time in a sentence is left alone."""
    rows = table("table", "when", "why", rows=[("bronze_sales", "2017-06-01 12:05:07Z", "at 2017-06-01 12:05:07Z")])
    assert rows.fit(200).cut == () and "12:05:07Z │ at" in _drawn(rows, 200)[3]
    fitted = rows.fit(rows.fit(200).width - 3)
    assert fitted.columns == ("table", "when", "why") and fitted.cut == ("when",)
    assert "2017-06-01 12:05Z │ at 2017-06-01 12:05:07Z │" in _drawn(rows, fitted.width)[3]


def test_a_narrow_column_comes_back_once_a_wide_one_is_gone() -> None:
    rows = table("table", "outcome", "days", rows=[("t", "done", "2017-03-01..2017")], drop=("outcome", "days"))
    assert rows.fit(22).columns == ("table", "outcome")


def test_a_group_is_shown_once_and_on_a_pipe_in_every_row() -> None:
    rows = table("table", "status", rows=[("a", "fresh"), ("a", "stale"), ("b", "fresh")], groups=["table"])
    assert sum(line.startswith("│ a") for line in _drawn(rows, 80)) == 1
    assert list(rows.lines()) == ["table\tstatus", "a\tfresh", "a\tstale", "b\tfresh"]


def test_several_lines_of_a_cell_are_one_on_a_pipe() -> None:
    rows = table("table", "from", rows=[("a", ["one", "two\n"])])
    assert list(rows.lines())[1] == "a\tone; two\\n"
    assert len([line for line in _drawn(rows, 80) if line.startswith("│")]) == 2


def test_numbers_are_aligned_to_the_right() -> None:
    lines = _drawn(table("table", "rows", rows=[("a", "1"), ("b", "1,000")], numbers=["rows"]), 80)
    assert "│ a     │     1 │" in lines and "│ b     │ 1,000 │" in lines
