"""What `status` and `show` know of a day beside its logs, and the one word that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

import pytest

from backfill_assets.answers.signs import beside_the_logs
from backfill_assets.days import TableDay
from backfill_assets.state.diagnosis import Cause, in_a_word
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.state.rolled_back import Undo, UndoIs
from backfill_assets.state.status import diagnosed
from backfill_assets.stream.lease import HeldEvents
from backfill_assets_tests.plan.world import PIPELINE, D

NEXT = date(2017, 3, 9)
FACT = TableDay("fact", D)
HELD = HeldEvents(
    table="quarantine", day=D, rule="rejects", why="30 %", events=3, since=datetime(2017, 3, 9, tzinfo=UTC)
)
EDITED = EditedLogic("fact", ("fact",), "v2", (D,), ("f",), ())


@pytest.mark.parametrize(
    ("in_log", "beside", "word"),
    [
        (None, {}, "fresh"),
        (Cause.LATE, {}, "stale: late rows"),
        (None, {"damaged": [FACT]}, "files lost"),
        (Cause.LATE, {"damaged": [FACT]}, "files lost"),
        (None, {"held": [HELD]}, "held back"),
        (Cause.MISSING, {"held": [HELD]}, "held back"),
        (None, {"edited": [EDITED]}, "logic edited"),
        (Cause.FOREIGN_WRITE, {"edited": [EDITED]}, "foreign write"),
        (Cause.CODE_CHANGED, {"edited": [EDITED]}, "logic edited"),
        (Cause.INPUT, {"undone": {FACT: Undo("undo", UndoIs.HELD)}}, "rolled back"),
        (Cause.INPUT, {"undone": {FACT: Undo("undo", UndoIs.ASKED)}}, "undone with rows of raw"),
        (Cause.INPUT, {"undone": {FACT: Undo("undo", UndoIs.OVER)}}, "stale: input changed"),
        (Cause.INPUT, {"undone": {FACT: Undo("undo", UndoIs.HELD)}, "damaged": [FACT]}, "files lost"),
    ],
)
def test_the_cause_that_counts_is_the_word(in_log: Cause | None, beside: Mapping[str, object], word: str) -> None:
    """By the table of the diagnosis, whoever knows of it; the next day is none of that."""
    found = diagnosed({"fact": {D: in_log, NEXT: None}}, beside_the_logs(PIPELINE, **beside))  # type: ignore[arg-type]
    assert {day: in_a_word(cause) for day, cause in found["fact"].items()} == {D: word, NEXT: "fresh"}


def _causes(found: Mapping[TableDay, set[Cause]], cause: Cause) -> Sequence[str]:
    return sorted(key.table for key, causes in found.items() if cause in causes)


def test_what_a_gate_holds_back_is_held_back_in_all_that_is_made_of_it_by_the_day() -> None:
    """Also in what is built together with it. A week has other days."""
    assert _causes(beside_the_logs(PIPELINE, held=[HELD]), Cause.HELD_BACK) == ["bronze", "daily", "fact", "quarantine"]


def test_files_of_raw_are_lost_to_raw() -> None:
    found = beside_the_logs(PIPELINE, damaged=[TableDay("raw_sales", D), FACT])
    assert found == {TableDay("raw_sales", D): {Cause.LOST_RAW}, FACT: {Cause.LOST_FILES}}
