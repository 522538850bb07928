"""How an incident goes on when a repair shows another cause: of all of its days, or of some."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.upkeep.diagnosis import Cause
from backfill_assets_tests.upkeep.healing import WEEKS, Life, sound

pytestmark = pytest.mark.data
BAD, GOOD = date(2017, 1, 4), date(2017, 1, 10)


@pytest.fixture
def life(tmp_path: Path) -> Life:
    found = Life.beginning(Storage(str(tmp_path)), sound(WEEKS))
    for day in (BAD, GOOD):
        found.world.publish("raw", day, checksum="8", rows=2)
    found.bad.add(TableDay("bronze", BAD))
    return found


def test_a_day_that_its_gates_hold_back_becomes_an_incident_of_its_own(life: Life) -> None:
    """The others are repaired without it, and their incident says where it went."""
    life.go_on(12)
    (held,), (late,) = life.book.open(), life.closed()
    assert (held.cause, held.days, held.state, len(held.attempts)) == (Cause.HELD_BACK, (BAD,), "person", 1)
    assert (late.cause, late.days) == (Cause.LATE, (GOOD,)) and late.outcome.startswith("repaired by late_rows_")
    assert any("held back by gates, an incident of its own" in each.words for each in late.history)
    assert len(life.launched) == 2


def test_an_incident_whose_every_day_shows_another_cause_is_diagnosed_anew(life: Life) -> None:
    life.bad.add(TableDay("bronze", GOOD))
    life.go_on(12)
    (incident,) = life.book.open()
    assert (incident.cause, incident.days, incident.state) == (Cause.HELD_BACK, (BAD, GOOD), "person")
    assert incident.id.startswith("late-rows-") and life.closed() == []


def test_it_is_closed_when_the_source_has_put_it_right(life: Life) -> None:
    """More rows are another attempt, within the same incident."""
    life.go_on(8)
    life.bad.clear()
    life.world.publish("raw", BAD, checksum="9", rows=3)
    life.go_on(8)
    assert life.book.open() == []
    assert {each.days for each in life.closed()} == {(GOOD,), (BAD,)}


def test_another_fault_after_a_repair_that_worked_is_another_incident(life: Life) -> None:
    """Also where the first one was not closed yet."""
    life.bad.clear()
    life.tick()
    life.run_backfills()
    life.world.write_past_the_protocol("bronze", BAD)
    life.tick()
    (late,), (foreign,) = life.closed(), life.book.open()
    assert (late.cause, late.days) == (Cause.LATE, (BAD, GOOD)) and late.outcome.startswith("repaired by")
    assert (foreign.cause, foreign.days, len(foreign.attempts)) == (Cause.FOREIGN_WRITE, (BAD,), 1)


def test_a_new_fault_of_the_same_kind_joins_the_open_incident(life: Life) -> None:
    life.bad.clear()
    life.tick()
    life.world.publish("raw", BAD + timedelta(days=14), checksum="8", rows=2)
    life.tick()
    (incident,) = life.book.open()
    assert set(incident.days) == {BAD, BAD + timedelta(days=14), GOOD}
    life.go_on(8)
    assert life.book.open() == [] and len(life.closed()) == 1
