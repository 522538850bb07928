"""What ``status`` says beside the status of each day: files that wait, days that were put back, and short ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.answers.day import look_at_day
from backfill_assets.answers.status import UNDO_IS, look_at_main, status_answer
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.landing.zone import LandingZone
from backfill_assets.report.answer import Grid
from backfill_assets.state.rolled_back import UndoIs
from backfill_assets_tests.defs.small_chain import publish_chain, publish_step
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_CATALOG
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAY = date(2017, 3, 4)
STEPS = SMALL_CATALOG.steps


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = SmallLakehouse(tmp_path / "lakehouse", STEPS)
    with clock.use(found.time):
        publish_chain(found, "p", [DAY])
        yield found


def grids(found: object) -> dict[str, list[list[str]]]:
    answer = status_answer(found)  # type: ignore[arg-type]
    return {
        each.name: [[str(cell) for cell in row] for row in each.rows] for each in answer.parts if isinstance(each, Grid)
    }


def test_files_that_raw_has_not_taken_in_are_counted_beside_its_fresh_days(
    lakehouse: SmallLakehouse, tmp_path: Path
) -> None:
    """Raw is fresh as far as it goes: a person who reads that alone takes the day for complete."""
    for name in ("a", "b"):
        file = tmp_path / "landing" / "sales" / str(DAY) / f"{name}.jsonl.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    rows = grids(look_at_main(lakehouse.storage, STEPS, (), None, LandingZone(tmp_path / "landing")))["tables"]
    assert [row[0] for row in rows if "landed and not taken in: 2 files" in row[1]] == ["raw_sales"]
    rows = grids(look_at_main(lakehouse.storage, STEPS, ("bronze_sales",), None, LandingZone(tmp_path / "none")))[
        "tables"
    ]
    assert not [row for row in rows if "landed" in row[1]]


def test_a_day_that_was_put_back_says_whether_that_still_holds(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("late", {"raw_sales": {DAY: [9]}}, mode="append")
    publish_step(lakehouse, "new", SMALL.step_of("bronze_sales"), {DAY: 3})
    roll_back(lakehouse.publisher, "new-bronze-sales", id="undo", steps=STEPS)
    key = TableDay("bronze_sales", DAY)
    assert look_at_main(lakehouse.storage, STEPS, (), None).undone[key].state is UndoIs.HELD
    assert look_at_day(lakehouse.storage, STEPS, *key).notes == (f"Rolled back by undo: {UNDO_IS[UndoIs.HELD]}.",)
    lakehouse.publish("later", {"raw_sales": {DAY: [10]}}, mode="append")
    found = look_at_main(lakehouse.storage, STEPS, (), None)
    assert found.undone[key].state is UndoIs.OVER
    assert [row[0] for row in grids(found)["rolled_back"]] == ["bronze_sales", "quarantine_sales"]


def test_a_day_with_fewer_rows_than_usual_has_a_note(lakehouse: SmallLakehouse) -> None:
    past = {DAY - timedelta(7 * n): range(100) for n in range(1, 6)}
    lakehouse.publish("past", {"raw_sales": {**past, DAY: range(82)}})
    found = look_at_main(lakehouse.storage, STEPS, (), None)
    words = "18 % fewer rows than usual on a Saturday (median 100)"
    assert grids(found)["short"] == [["raw_sales", str(DAY), words]]
    assert look_at_day(lakehouse.storage, STEPS, "raw_sales", DAY).notes == (words,)
