"""A history is kept as lines, and read again as it was."""

from __future__ import annotations

import json

import pytest

from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.judges.played import played, publication, read
from backfill_assets_tests.simulator.judges.verdict import settled

DAY = ("fact", "2017-03-01")


def test_a_history_is_one_line_an_operation() -> None:
    history = played(7, 20)
    lines = history.to_json()
    assert len(lines.splitlines()) == len(history) > 20
    assert History.from_json(lines) == History.from_json(lines.splitlines()) == history


def test_values_are_told_by_table_and_day() -> None:
    told = json.loads(History((read("r", 1, 2, {DAY: None}, pinned=False),)).to_json())
    assert told["reads"] == {"fact": {"2017-03-01": None}} and told["pinned"] is False


def test_tries_of_a_publication_are_one() -> None:
    """It died, and whoever tried it again was told that it is done."""
    died = publication("p", 1, None, {DAY: (None, "a")}, "unknown")
    again = publication("p", 7, 9, {DAY: (None, "a")}, position=4)
    (one,) = settled(History((died, again)))
    assert (one.begin, one.end, one.outcome, one.position) == (1, 9, "ok", 4)


def test_a_day_whose_value_stays_is_not_written() -> None:
    compacted = publication("c", 1, 2, {DAY: ("a", "a"), ("fact", "2017-03-02"): ("b", "c")})
    (one,) = settled(History((compacted,)))
    assert list(one.writes) == list(one.replaced) == [("fact", "2017-03-02")]


def test_two_writes_of_one_value_are_no_history() -> None:
    twice = History(tuple(publication(name, 1, 2, {DAY: (None, "a")}) for name in "pq"))
    with pytest.raises(ValueError, match=r"fact of 2017-03-01 is a by publication p and by publication q"):
        settled(twice)
