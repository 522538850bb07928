"""The fate of every received line: one table of cases, no lakehouse."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from backfill_assets.landing.trace_outcomes import Outcome, fates

DAY, OTHER = date(2017, 3, 1), date(2017, 3, 2)


def landed(line: int, day: date = DAY, **more: Any) -> dict[str, Any]:
    return {"day": day, "source_file": "a", "source_line": line, "record_kind": "received", **more}


def winner(line: int, day: date = DAY, moved_to: date | None = None) -> dict[str, Any]:
    return landed(line, day, superseded_by_day=moved_to)


@pytest.mark.parametrize(
    ("typed", "quarantined", "outcome", "why"),
    [
        ([winner(1)], [], "published", "newest version of its day"),
        ([winner(1, moved_to=OTHER)], [], "superseded", "belongs to 2017-03-02"),
        ([winner(2)], [], "deduplicated", "a:2 stands for it"),
        ([winner(2, moved_to=OTHER)], [], "deduplicated", "a:2 stands for it"),
        ([], [landed(1, reasons=["x: is missing", "y: is missing"])], "quarantined", "x: is missing; y: is missing"),
        ([winner(2)], [landed(1, reasons=["x: is missing"])], "quarantined", "x: is missing"),
        ([], [], "not built yet", "2017-03-01 was not built"),
        ([winner(1, OTHER)], [], "not built yet", "2017-03-01 was not built"),
    ],
)
def test_the_fate_of_a_line(
    typed: list[dict[str, Any]], quarantined: list[dict[str, Any]], outcome: Outcome, why: str
) -> None:
    """Each kind of end, and what takes precedence: a rejected line never stood against the winner of its day."""
    (found,) = fates([landed(1)], typed, quarantined, lambda raw, winner: False)
    assert (found.day, found.file, found.line, found.outcome) == (DAY, "a", 1, outcome)
    assert why in found.why


def test_a_line_that_would_win_arrived_after_its_day_was_built() -> None:
    """A correction is not said to have lost before it was compared; the winner stays one until then."""
    rows = [landed(1, version="2"), landed(2, version="1"), landed(3, version="0")]
    found = fates(rows, [winner(2) | {"version": "1"}], [], lambda raw, winner: raw["version"] > winner["version"])
    assert [each.outcome for each in found] == ["not built yet", "published", "deduplicated"]


def test_markers_are_no_lines() -> None:
    """They were not landed; they only say where a newer version is."""
    marker = {**landed(1), "record_kind": "supersession", "source_file": None, "source_line": None}
    assert fates([marker], [winner(1)], [], lambda raw, winner: False) == []


def test_an_event_is_named_by_its_offset() -> None:
    """A topic has no lines."""
    first, second = ({**landed(line), "source_file": "kafka:orders/0"} for line in (0, 1))
    (found,) = fates([first], [{**second, "superseded_by_day": None}], [], lambda raw, winner: False)
    assert found.why == "topic orders, partition 0, offset 1 stands for it"


def test_a_row_that_the_source_took_back_is_deleted() -> None:
    """Also before its day is built again; a row that came back at the same place stands."""
    row = landed(1, content_hash=7, rescued=None, arrival_day=OTHER)
    deletion = {**row, "record_kind": "deletion", "arrival_day": None}

    def found(raw: list[dict[str, Any]], typed: list[dict[str, Any]], of: str = "a-refresh") -> list[tuple[str, str]]:
        by = {(DAY, "a", 1): of}
        return [(each.outcome, each.why) for each in fates(raw, typed, [], lambda raw, winner: False, by)]

    why = "the source no longer had it when the files of 2017-03-02 were read again by a-refresh"
    assert found([row, deletion], []) == [("deleted", why)]
    stream = "20260302t100000-stream-raw-sales-1a2b3c4d on 2026-03-02"
    assert found([row, deletion], [], stream) == [("deleted", f"a null value deleted its key: {stream}")]
    assert found([row, deletion], [winner(1)]) == [("deleted", f"{why}; 2017-03-01 was not built since")]
    assert [outcome for outcome, _ in found([row, row, deletion], [winner(1)])] == ["deleted", "published"]
    other = {**row, "source_line": 2}
    assert [outcome for outcome, _ in found([row, other, deletion], [winner(2)])] == ["deleted", "published"]
