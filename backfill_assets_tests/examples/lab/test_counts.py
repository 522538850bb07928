"""Counting what went wrong, and saying it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.examples.lab.counts import (
    Hazard,
    TableCount,
    as_json,
    columns,
    count_rows,
    count_table,
    outcome,
    sentences,
)
from backfill_assets_tests.examples.lab.played import CAREFUL, PLAIN, PLAYED, SAFE, TEXT, WORKED, way


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef")))
def test_an_event_is_missing_once_or_doubled_by_each_row_more(sent: list[str], rows: list[str]) -> None:
    """Against a count event by event."""
    keys = [Counter((date(2017, 3, 4), name) for name in names) for names in (sent, rows)]
    found = count_table("sales", *keys)
    assert found.rows == len(rows)
    assert found.missing == len(set(sent) - set(rows))
    assert found.doubled == len(rows) - len(set(rows) & set(sent))
    assert found.rows == len(sent) - found.missing + found.doubled


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (way("a"), "every event once"),
        (way("a", missing=1), "1 row missing"),
        (way("a", missing=1200, doubled=2, events=5000), "1,200 rows missing, 2 rows doubled"),
        (way("a", days=95, lost=45), "45 days of work lost"),
    ],
)
def test_an_outcome_has_what_went_wrong_alone(counts: object, said: str) -> None:
    assert outcome(counts) == said  # type: ignore[arg-type]


def test_sentences_have_each_way_and_both_reasons() -> None:
    """A careful way is named between them: what it solves, and what it does not."""
    hazard = Hazard(replace(TEXT, careful="It merges."), (PLAIN, CAREFUL, SAFE))
    assert sentences(hazard) == (
        "plain job: 30 rows missing, 10 rows doubled. It deletes them.",
        "merging job: every event once. It merges.",
        "With this project: every event once. It is refused.",
    )
    assert as_json(hazard)["ways"][1]["careful"] is True


def test_the_table_has_a_column_for_each_way_and_counts_all_its_tables() -> None:
    """Doubled in raw and missing in bronze: both are wrong. Work and load are there where they were counted."""
    assert columns(PLAYED.ways) == ("", "plain job", "this project")
    rows = count_rows(PLAYED.ways)
    assert [row[0] for row in rows] == ["events sent", "rows in the table", "rows missing", "rows doubled", "time"]
    assert rows[1:3] == [("rows in the table", "80", "100"), ("rows missing", "30", "0")]
    both = replace(SAFE, tables=(TableCount("raw_sales", 110, 0, 10), TableCount("bronze_sales", 95, 5, 0)))
    assert (both.missing, both.doubled, both.goes_wrong) == (5, 10, 15)
    assert count_rows([both])[1] == ("rows in the table", "raw_sales 110; bronze_sales 95")
    worked = {row[0]: row[1:] for row in count_rows(WORKED.ways)}
    assert worked["days worked on"] == ("95", "50") and worked["of these for nothing"] == ("45", "0")
    assert worked["bytes read of the source"] == ("4.0 KiB", "4.0 KiB")


@pytest.mark.parametrize(
    ("ways", "shown"),
    [
        ((PLAIN, SAFE), True),
        ((way("plain job"), SAFE), False),
        ((PLAIN, way("this project", safe=True, doubled=1)), False),
        ((PLAIN, way("this project", safe=True, events=99)), False),
        ((PLAIN, CAREFUL, SAFE), True),
        ((CAREFUL, SAFE), True),
        ((PLAIN, replace(CAREFUL, tables=PLAIN.tables), SAFE), False),
        (WORKED.ways, True),
    ],
)
def test_a_hazard_is_shown_by_equal_events_that_only_the_plain_ways_get_wrong(ways: object, shown: bool) -> None:
    assert Hazard(TEXT, ways).shown is shown  # type: ignore[arg-type]


def test_json_has_every_count() -> None:
    found = json.loads(json.dumps(as_json(WORKED)))
    assert (found["hazard"], found["shown"]) == ("collision", True)
    first = found["ways"][0]
    assert (first["days_computed"], first["days_thrown_away"], first["source"]["bytes"]) == (95, 45, 4096)
    assert first["tables"] == [{"table": "sales", "rows": 100, "missing": 0, "doubled": 0}]
    assert (first["missing"], first["doubled"]) == (0, 0)
