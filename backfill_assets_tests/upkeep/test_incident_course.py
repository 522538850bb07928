"""How an incident goes on when a repair shows another cause: of all of its days, or of some."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.incidents import Acknowledgement, RepairAttempt, stages_to_tell
from backfill_assets_tests.simulator.store import SimulatedStorage
from backfill_assets_tests.upkeep.healing import WEEKS, Life, sound
from backfill_assets_tests.upkeep.incident import incident

pytestmark = pytest.mark.data
BAD, GOOD = date(2017, 1, 4), date(2017, 1, 10)


@pytest.fixture
def life(memory: SimulatedStorage) -> Life:
    found = Life.beginning(memory, sound(WEEKS))
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
    assert any("held back, an incident of its own" in each.words for each in late.history)
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


MONDAY = date(2017, 1, 9)


@pytest.fixture
def sound_life(memory: SimulatedStorage) -> Life:
    return Life.beginning(memory, sound(WEEKS))


def test_reports_that_were_read_beside_a_fault_are_read_again_with_its_proof(sound_life: Life) -> None:
    sound_life.world.write_past_the_protocol("fact", GOOD)
    sound_life.four_o_clock()
    assert {key.table for key in sound_life.watches} == {"revenue", "weekly"}
    sound_life.tick()
    sound_life.run_backfills()
    ((_, asked),) = sound_life.tick().proofs.items()
    assert asked == {"fact": (GOOD,), "revenue": (GOOD,), "weekly": (MONDAY,)}
    assert sound_life.watches == {}


def test_they_are_read_again_too_where_the_fault_went_without_a_repair(sound_life: Life) -> None:
    state = sound_life.world.states[TableDay("fact", GOOD)]
    sound_life.world.write_past_the_protocol("fact", GOOD)
    sound_life.four_o_clock()
    sound_life.tick()
    (foreign,) = sound_life.book.open()
    sound_life.over |= dict.fromkeys(sound_life.launched, "canceled")
    sound_life.tick()
    sound_life.world.newest["fact"][GOOD] = state.physical
    asked = [sound_life.tick().proofs for _ in range(3)]
    reports = {"revenue": (GOOD,), "weekly": (MONDAY,)}
    assert {foreign.id: reports} in asked
    assert sound_life.watches == {} and sound_life.book.open() == []


def test_it_is_not_over_while_a_run_may_be_writing_its_days(sound_life: Life) -> None:
    """A run that builds the day plans its checks anew: until they are evaluated, none of them fails."""
    sound_life.suspicions[TableDay("fact", GOOD)] = {"as_usual": "as_usual: expected 9, observed rows 5"}
    sound_life.tick()
    sound_life.suspicions.clear()
    sound_life.launched["other"] = RepairAttempt(id="other", at=sound_life.now, title="", days={"fact": (GOOD,)})
    sound_life.tick()
    assert [each.state for each in sound_life.book.open()] == ["person"]
    sound_life.over["other"] = "success"
    sound_life.tick()
    assert sound_life.book.open() == []


_AT = datetime(2017, 4, 1, tzinfo=UTC)
_TRIED = (RepairAttempt(id="a", at=_AT, title="Repair", days={}, evidence={}),)
_ANN = Acknowledgement(by="ann", at=_AT)


@pytest.mark.parametrize(
    ("about", "due"),
    [
        ({}, []),
        ({"severity": "warning"}, ["opened"]),
        ({"state": "person"}, ["opened"]),
        ({"state": "person", "told": ("opened",)}, []),
        ({"state": "person", "told": ("opened",), "attempts": _TRIED}, ["given-up"]),
        ({"state": "person", "attempts": _TRIED}, ["given-up"]),
        ({"state": "person", "attempts": _TRIED, "told": ("given-up",)}, []),
        ({"state": "person", "told": ("given-up",)}, []),
        ({"state": "person", "told": ("opened",), "attempts": _TRIED, "acknowledged": _ANN}, []),
        ({"state": "person", "told": ("opened",), "again": 1}, ["again-1"]),
        ({"state": "person", "told": ("opened", "again-1"), "again": 1}, []),
        ({"state": "person", "told": ("opened",), "again": 1, "acknowledged": _ANN}, []),
        ({"state": "closed", "told": ("opened",)}, ["closed"]),
        ({"state": "closed"}, []),
    ],
    ids=[
        "what heals by itself",
        "open",
        "for a person",
        "told",
        "given up after it was told",
        "given up",
        "told as given up",
        "it comes from another fault now",
        "acknowledged, and given up",
        "no longer acknowledged",
        "told again",
        "acknowledged again",
        "over",
        "over, and never told",
    ],
)
def test_what_is_due(about: dict[str, object], due: list[str]) -> None:
    assert list(stages_to_tell(incident(**about))) == due
