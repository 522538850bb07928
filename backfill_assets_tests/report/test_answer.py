"""One answer: the same facts for people, programs, pages and letters."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from rich.cells import cell_len
from rich.console import Console

from backfill_assets.report.answer import (
    Answer,
    Datum,
    Days,
    Fact,
    Grid,
    Id,
    Line,
    Quantity,
    Tone,
    Toned,
    Worded,
    shown,
)
from backfill_assets.report.terminal import Terminal
from backfill_assets_tests.report.example import ANSWER, DAYS, FIRST, PUBLICATION

DAYS_OF_TWO_RANGES = [FIRST + timedelta(days=n) for n in (0, 1, 2, 5)]


def _printed(answer: Answer, width: int, *, for_people: bool = True, colour: bool = False) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        force_terminal=for_people,
        color_system="standard" if colour else None,
    )
    Terminal(console, for_people, lambda id: id[-8:] if id == PUBLICATION else id, has_json=True).say(answer)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _box(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and line[0] in "┏┃┡│├└"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (12_345, "12,345"),
        (Decimal("1234.50"), "1,234.50"),
        (1.5, "1.5"),
        (FIRST, "2017-03-01"),
        (datetime(2017, 3, 1, 12, tzinfo=UTC), "2017-03-01 12:00:00Z"),
        (["a", 2_000], "a; 2,000"),
        ({"left": 1, "right": None}, "left 1; right"),
        (Quantity(None, "seconds"), "unknown"),
        (Quantity(125, "seconds"), "0:02:05"),
        (Quantity(Decimal("-0.0041"), "share"), "-0.41 %"),
        (Toned(Id("plan-1"), Tone.BAD), "plan-1"),
    ],
)
def test_a_value_is_written_one_way(value: object, text: str) -> None:
    assert shown(value) == text


def test_programs_get_types_and_whole_values() -> None:
    """Nothing is rounded, shortened or cut; days are ranges."""
    found = json.loads(json.dumps(ANSWER.as_json()))
    assert (found["rows"], found["read"], found["next"]) == (12_345, 3_145_728, ["backfill plan fact", "backfill diff"])
    assert found["notes"] == [{"text": "It is stale.", "tone": "warn", "do": "backfill run fact"}]
    assert len(found["tables"][0]["which_days"]) == 9
    assert found["tables"][1] == {
        "table": "fact",
        "status": "fresh",
        "rows": None,
        "publication": PUBLICATION,
        "which_days": [],
    }
    assert found["why"] == {"title": "Why <it> is so"} and found["links"] == {"its page": "/assets/fact"}


def test_a_pipe_gets_every_cell_of_every_row() -> None:
    text = _printed(ANSWER, 40, for_people=False)
    assert f"fact\tstale\t12,345\t{PUBLICATION}\t2017-03-01, 2017-03-03, 2017-03-05" in text
    assert text.count("\nfact\t") == 2 and "┃" not in text and "\x1b" not in text


@pytest.mark.parametrize("width", range(34, 180, 6))
def test_nothing_is_cut_and_no_line_is_wider_than_the_terminal(width: int) -> None:
    """At any width: long text goes on below, in its column; a narrow terminal lists row by row. An id stays whole."""
    text = _printed(ANSWER, width)
    lines = _box(text)
    assert "…" not in text and text.count(PUBLICATION[-8:]) == 3
    assert {cell_len(line) for line in lines} <= {cell_len(lines[0]) if lines else 0}
    assert all(cell_len(line) <= width for line in lines) and bool(lines) == (width > 54)
    assert all(str(day) in text for day in DAYS.days[:6]) and text.count("more") == 1


def test_what_decorates_goes_and_what_identifies_stays() -> None:
    """What goes is named. A range is folded within itself, a name between its words."""
    rows = [("fact_daily_revenue_of_shops", "stale", 12_345, "v2", Id(PUBLICATION), Days.of(DAYS_OF_TWO_RANGES))]
    columns = ("table", "status", "rows", "code", "publication", "which days")
    table = Grid("t", columns, rows, drop=("code", "status"))
    assert "left out" not in _printed(Answer(parts=(table,)), 130)
    assert "(left out: code. A wider terminal or --json shows it.)" in _printed(Answer(parts=(table,)), 92)
    narrow = _printed(Answer(parts=(table,)), 66)
    assert "(left out: status, code. A wider terminal or --json shows them.)" in narrow
    names, days = ([line.split("│")[at].strip() for line in _box(narrow)[3:-1]] for at in (1, 4))
    assert (names, days) == (["fact_daily_", "revenue_of_shops", ""], ["2017-03-01..", "2017-03-03,", "2017-03-06"])


def test_a_table_that_is_too_wide_however_it_is_folded_is_shown_row_by_row() -> None:
    """Each row under what it is called."""
    rows = [("late-rows-of-some-table-20170304-1", "open", "0123456789" * 2), ("other-20170304-1", "closed", "")]
    table = Grid("t", ("incident", "state", "what"), [(Id(each), *rest) for each, *rest in rows])
    terminal = _printed(Answer(parts=(table,)), 40)
    assert terminal == (
        "late-rows-of-some-table-20170304-1\n  state  open\n  what   01234567890123456789\n"
        "other-20170304-1\n  state  closed\n"
    )


def test_a_group_is_said_once_to_people() -> None:
    lines = _box(_printed(ANSWER, 190))
    assert [line.count("fact") for line in lines] == [0, 0, 0, 1, 0, 0, 0, 0]


def test_wide_characters_take_the_cells_that_they_are_shown_in() -> None:
    """East Asian characters and emoji are two cells wide; a combining accent takes none."""
    names = ["東京", "🛒 cart", "e\u0301te\u0301", "plain", "\uff46\uff55ll"]
    lines = _box(_printed(Answer(parts=(Grid("stores", ("store", "rows"), [(each, 1) for each in names]),)), 60))
    assert len(lines) == 4 + len(names) and {cell_len(line) for line in lines} == {cell_len(lines[0])}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("user\u202egnp.exe", r"user\u202egnp.exe"),
    ],
)
def test_no_data_moves_a_cursor(data: str, text: str) -> None:
    """In a title, a fact, a line, a cell, on a terminal and on a pipe."""
    parts = (Fact("fact", data), Line(data), Grid("table", ("column",), [(data,)]))
    for for_people in (True, False):
        printed = _printed(Answer(data, parts), 100, for_people=for_people)
        assert printed.count(text) == 4 and data not in printed


def test_colours_say_nothing_that_words_do_not() -> None:
    """The tone is beside the text, never instead of it."""
    import re

    coloured = _printed(ANSWER, 100, colour=True)
    assert "\x1b[33m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == _printed(ANSWER, 100)


ROW = {"store_id": 31782, "amount": Decimal("1.50"), "note": "x" * 90, "seen": None, "tags": ["a", "b"]}


def test_values_of_rows_are_shown_as_they_are() -> None:
    """An id of a store is no count: it has no commas. Programs get its type."""
    table = Grid("sample", tuple(ROW), [[*map(Datum, ROW.values())]])
    assert "31782\t1.50" in _printed(Answer(parts=(table,)), 80, for_people=False)
    assert json.loads(json.dumps(Answer(parts=(table,)).as_json()))["sample"] == [{**ROW, "amount": "1.50"}]
    assert table.numbers() == {"store_id", "amount", "seen"}


def test_rows_that_are_too_wide_are_shown_one_by_one_where_the_table_says_so() -> None:
    """Twenty columns squeezed into eighty characters cannot be read."""
    answer = Answer(parts=(Grid("sample", tuple(ROW), [[*map(Datum, ROW.values())]] * 2, one_by_one=True),))
    assert "row 2\n  store_id  31782\n  amount    1.50" in _printed(answer, 80)
    assert "row 2" not in _printed(answer, 200) and "row 2" not in _printed(answer, 80, for_people=False)


def test_a_mapping_has_a_line_for_each_of_its_names() -> None:
    answer = Answer(parts=(Fact("metrics", {"rows": 1_200, "late": 3}),))
    assert _printed(answer, 80) == "  metrics  rows 1,200\n  metrics  late 3\n"
    assert json.loads(json.dumps(answer.as_json())) == {"metrics": {"rows": 1200, "late": 3}}


def test_a_number_that_json_has_not_is_text() -> None:
    """Python would write ``NaN``, which no other reader takes for JSON."""
    values = [0.5, math.nan, math.inf, -math.inf]
    answer = Answer(parts=(Fact("metrics", dict(zip("abcd", values, strict=True))),))
    assert json.dumps(answer.as_json(), allow_nan=False)
    assert answer.as_json() == {"metrics": {"a": 0.5, "b": "nan", "c": "inf", "d": "-inf"}}


def test_a_cell_of_many_lines_says_how_many_more_there_are() -> None:
    """People alone: a pipe and programs get all of them."""
    answer = Answer(parts=(Grid("each", ("which",), [([f"p{n}" for n in range(9)],)]),))
    assert "│ p4         │\n│ and 4 more │" in _printed(answer, 80)
    assert "p4; p5; p6" in _printed(answer, 80, for_people=False) and len(answer.as_json()["each"][0]["which"]) == 9


def test_programs_and_people_may_get_other_words() -> None:
    answer = Answer(parts=(Fact("read", Worded({"table": "raw", "version": 3}, "raw v3")),))
    assert _printed(answer, 80) == "  read  raw v3\n" and answer.as_json() == {"read": {"table": "raw", "version": 3}}
