"""From the fault to a closed incident: what is found, repaired, proven and told, and what dies in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count

import pytest

from backfill_assets.days import DayRange, TableDay
from backfill_assets.model.deletion import DELETED
from backfill_assets.model.lateness import LATE_ROWS, Lateness
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.bounds import RepairBounds
from backfill_assets.upkeep.failed_checks import NotRun
from backfill_assets.upkeep.incidents import Incident
from backfill_assets_tests.death import Died
from backfill_assets_tests.simulator.delta import lake_in_memory
from backfill_assets_tests.simulator.store import SimulatedStorage, nothing
from backfill_assets_tests.upkeep.healing import WEEKS, YEAR, Lakehouse, Life, sound
from backfill_assets_tests.upkeep.weeks import STEPS

Fault = Callable[[Life, date], object]
_CALLS = 150
"""To Dagster and to the storage, of all looks."""


pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def weeks() -> Lakehouse:
    return sound(WEEKS)


@pytest.fixture(scope="module")
def fortnight() -> Lakehouse:
    """Each kill plays all of it again."""
    return sound(DayRange(WEEKS.first, _day(11)))


@pytest.fixture(scope="module")
def whole_year() -> Lakehouse:
    return sound(YEAR)


@pytest.fixture
def life(weeks: Lakehouse, memory: SimulatedStorage) -> Life:
    return Life.beginning(memory, weeks)


@pytest.fixture
def year(whole_year: Lakehouse, memory: SimulatedStorage) -> Life:
    return Life.beginning(memory, whole_year)


def _day(number: int) -> date:
    return date(2017, 1, 3) + timedelta(days=number)


def _late(life: Life, day: date) -> None:
    life.world.publish("raw", day, checksum="8", rows=2)


def _corrected(life: Life, day: date) -> None:
    life.world.metrics[TableDay("raw", day)] = {DELETED: 1}
    _late(life, day)


def _rate(life: Life, day: date) -> None:
    life.world.publish("rates", day, checksum="9")


def _upstream(life: Life, day: date) -> None:
    life.world.publish("fact", day, checksum="9")


def _foreign(table: str) -> Fault:
    return lambda life, day: life.world.write_past_the_protocol(table, day)


def _damaged(table: str, *, lost: bool = False, broken: str = "content_as_published") -> Fault:
    return lambda life, day: life.damage(TableDay(table, day), lost=lost, broken=broken)


def _never_built(life: Life, day: date) -> None:
    life.world.forget("revenue", day)


def _run_died(life: Life, day: date) -> None:
    life.world.forget("revenue", day)
    life.not_run[TableDay("revenue", day)] = NotRun("a run")
    life.flaky[TableDay("revenue", day)] = 1


def _held_back(life: Life, day: date) -> None:
    life.bad.add(TableDay("bronze", day))
    _late(life, day)


def _too_late(life: Life, day: date) -> None:
    """Of a dataset that leaves such rows to a person."""
    raw = next(step for step in STEPS if step.name == "raw")
    life.steps = tuple(replace(raw, lateness=Lateness(7, "ask")) if step is raw else step for step in STEPS)
    life.world.metrics[TableDay("raw", day)] = {LATE_ROWS: 3}
    _late(life, day)


def _suspicious(table: str, check: str) -> Fault:
    return lambda life, day: life.suspicions.update({TableDay(table, day): {check: f"{check} fails"}})


SALES = ("bronze", "quarantine", "fact", "revenue", "weekly")
REPAIRED: dict[str, tuple[Fault, str, Cause, tuple[str, ...]]] = {
    "late": (_late, "bronze", Cause.LATE, SALES),
    "corrected": (_corrected, "bronze", Cause.CORRECTED, SALES),
    "rate": (_rate, "fact", Cause.REFERENCE, ("fact", "revenue", "weekly")),
    "upstream": (_upstream, "revenue", Cause.INPUT, ("revenue", "weekly")),
    "foreign": (_foreign("fact"), "fact", Cause.FOREIGN_WRITE, ("fact", "revenue", "weekly")),
    "lost": (_damaged("bronze", lost=True), "bronze", Cause.LOST_FILES, SALES),
    "content": (_damaged("fact"), "fact", Cause.CONTENT, ("fact", "revenue", "weekly")),
    "never built": (_never_built, "revenue", Cause.MISSING, ("revenue",)),
    "run died": (_run_died, "revenue", Cause.FAILED_RUN, ("revenue",)),
}
ESCALATED: dict[str, tuple[Fault, str, Cause]] = {
    "foreign raw": (_foreign("raw"), "raw", Cause.FOREIGN_RAW),
    "disagrees": (_damaged("fact", broken="total_agrees"), "fact", Cause.DISAGREES),
    "held back": (_held_back, "bronze", Cause.HELD_BACK),
    "too late": (_too_late, "bronze", Cause.TOO_LATE),
    "unusual": (_suspicious("raw", "as_usual"), "raw", Cause.UNUSUAL),
    "drift": (_suspicious("raw", "as_declared"), "raw", Cause.DRIFT),
}


def _affected(tables: Iterable[str], day: date, looking_back: int = 0) -> set[TableDay]:
    days = {day + timedelta(days=n) for n in range(looking_back + 1)}
    monday = {each - timedelta(days=each.weekday()) for each in days}
    return {TableDay(table, each) for table in tables for each in (monday if table == "weekly" else days)}


def _one(found: list[Incident], table: str, cause: Cause) -> Incident:
    (incident,) = [each for each in found if (each.table, each.cause) == (table, cause)]
    return incident


@pytest.mark.parametrize("name", REPAIRED)
def test_each_fault_is_repaired_proven_and_closed(life: Life, name: str) -> None:
    """By one backfill of exactly the days affected; a run that dies is launched again."""
    fault, table, cause, tables = REPAIRED[name]
    day = _day(8)
    fault(life, day)
    life.go_on(12)
    assert life.book.open() == []
    incident = _one(life.closed(), table, cause)
    assert incident.outcome.startswith("repaired by ") and incident.attempts[-1].proof == "passed"
    assert set(life.built) == _affected(tables, day, looking_back=2 if name == "rate" else 0)
    assert len(life.launched) == (2 if name == "run died" else 1)
    assert incident.before.keys() == incident.after.keys() == set(incident.days)


@pytest.mark.parametrize("name", ESCALATED)
def test_what_no_rebuild_puts_right_is_told_once_and_launches_nothing_in_vain(life: Life, name: str) -> None:
    fault, table, cause = ESCALATED[name]
    fault(life, _day(8))
    life.go_on(30)
    (incident,) = [each for each in life.book.open() if each.cause is cause]
    assert (incident.table, incident.state) == (table, "person") and incident.next_step
    assert len(life.launched) == (1 if name == "held back" else 0)
    told = [key for key in life.told() if key.startswith(incident.id)]
    assert told == [f"{incident.id}-{'given-up' if name == 'held back' else 'opened'}.json"]


@pytest.mark.parametrize("check", ["delivered", "as_sent"])
def test_a_delivery_that_did_not_come_is_told_once_and_waited_for(life: Life, check: str) -> None:
    """No rebuild helps; it is over when it has come."""
    _suspicious("raw", check)(life, _day(3))
    life.go_on(5)
    (incident,) = life.book.open()
    assert (incident.cause, incident.state, incident.severity) == (Cause.INCOMPLETE, "waiting", "critical")
    assert life.told() == [f"{incident.id}-opened.json"] and not life.launched
    life.suspicions.clear()
    life.go_on(1)
    assert life.closed()[0].outcome == "right again, without a repair"


def test_one_suspicion_of_a_day_that_went_on_to_its_readers(life: Life) -> None:
    """Of a day that lacks rows each table is unusual: the earliest one is told, and the others with it."""
    for table in ("raw", "bronze", "fact", "revenue"):
        _suspicious(table, "as_usual")(life, _day(3))
    life.go_on(3)
    (incident,) = life.book.open()
    assert (incident.table, incident.cause) == ("raw", Cause.UNUSUAL)


def test_lost_files_of_raw_are_put_back_and_proven(life: Life) -> None:
    """Once; and where nothing has them any more, a person is told after three tries."""
    key, gone = TableDay("raw", _day(3)), TableDay("raw", _day(12))
    life.damage(key, lost=True)
    life.go_on(6)
    (incident,) = life.closed()
    assert (incident.cause, incident.table, len(incident.attempts)) == (Cause.LOST_RAW, "raw", 1)
    assert [each.restores for each in life.launched.values()] == [True] and life.built == []
    life.damage(gone, lost=True)
    life.bad.add(gone)
    life.go_on(40, minutes=10)
    (incident,) = life.book.open()
    assert (incident.state, len(incident.attempts)) == ("person", 3)
    assert "backfill raw restore --dry-run" in incident.next_step


def test_twenty_faults_at_once_over_a_year(year: Life) -> None:
    """Each is found and ends as it should; no day that is sound is built again."""
    affected: set[TableDay] = set()
    placed = [*REPAIRED.items(), *list(REPAIRED.items())[:6]]
    for number, (name, (fault, _, _, tables)) in enumerate(placed):
        fault(year, _day(14 * number))
        affected |= _affected(tables, _day(14 * number), looking_back=2 if name == "rate" else 0)
    for number, (fault, _, _) in enumerate(ESCALATED.values(), len(placed)):
        fault(year, _day(14 * number))
    year.go_on(40)
    found = {(each.table, each.cause): each for each in (*year.closed(), *year.book.open())}
    for _, table, cause, _ in REPAIRED.values():
        # A run builds all days or none: one that died did not build the days beside it, and they are one incident.
        joined = cause is Cause.MISSING and "it goes on within run-failed-" in found[table, cause].outcome
        assert joined or found[table, cause].outcome.startswith("repaired by"), (table, cause)
    for _, table, cause in ESCALATED.values():
        assert found[table, cause].state == "person", (table, cause)
    assert set(year.built) <= affected
    assert {each for each in affected if each.table != "weekly"} <= set(year.built)


def test_sixty_failing_days_are_few_backfills(year: Life) -> None:
    for number in range(60):
        _late(year, _day(5 * number))
    year.go_on(10)
    assert len(year.launched) == 1
    (incident,) = year.closed()
    assert len(incident.days) == 60


def test_a_day_that_cannot_be_repaired_stops_after_its_attempts_and_is_told_once(life: Life) -> None:
    """With growing pauses; and it is closed when a person has put it right."""
    day = _day(8)
    _never_built(life, day)
    life.flaky[TableDay("revenue", day)] = 99
    life.go_on(60, minutes=1)
    (incident,) = life.book.open()
    assert (len(incident.attempts), incident.state) == (3, "person")
    starts = [each.at for each in incident.attempts]
    ends = [each.ended for each in incident.attempts]
    assert all(ends)
    waits = [(later - end).total_seconds() / 60 for later, end in zip(starts[1:], ends, strict=False) if end]
    assert waits == [1, 5]
    assert [key for key in life.told() if "given-up" in key] == [f"{incident.id}-given-up.json"]
    life.world.build("revenue", day)
    life.go_on(2)
    assert life.book.open() == [] and f"{incident.id}-closed.json" in life.told()


def test_a_repair_whose_check_fails_again_is_no_repair(life: Life) -> None:
    """The watchdog is asked about the new publication: the disk that damages what is written is for a person."""
    key = TableDay("fact", _day(8))
    life.damage(key)
    for _ in range(40):
        life.tick()
        life.run_backfills()
        life.damaged[key] = life.world.states[key].publication
        life.now += timedelta(minutes=10)
    (incident,) = life.book.open()
    assert [each.proof for each in incident.attempts] == ["failed"] * 3
    assert incident.state == "person"


def test_late_rows_settle_first(life: Life) -> None:
    """One repair when nothing comes any more, and at the latest after ten minutes."""
    days = [_day(10), _day(11), _day(12)]
    for day in days:
        _late(life, day)
        life.published_at[life.world.states[TableDay("raw", day)].publication] = life.now
        life.tick()
        assert not life.launched
        life.now += timedelta(seconds=40)
    life.now += timedelta(seconds=40)
    life.tick()
    (attempt,) = life.launched.values()
    assert set(attempt.days["bronze"]) == set(days)


def test_rows_that_never_settle_are_repaired_after_a_while(life: Life) -> None:
    for _ in range(30):
        _late(life, _day(10))
        life.published_at[life.world.states[TableDay("raw", _day(10))].publication] = life.now
        life.tick()
        life.now += timedelta(seconds=30)
    assert len(life.launched) == 1


def test_beyond_its_bounds_it_is_a_plan_that_waits(life: Life) -> None:
    life.bounds = RepairBounds(days=20)
    for number in range(10):
        _late(life, _day(number))
    life.go_on(5)
    (incident,) = life.book.open()
    assert not life.launched and life.planned == [("bronze", incident.days)]
    assert (incident.plan, incident.next_step) == ("plan-1", "backfill run plan-1, then backfill approve plan-1")
    for day in incident.days:
        life.world.build("bronze", day)  # it is approved
        life.world.build("quarantine", day)
    life.go_on(3)
    outcomes = [each.outcome for each in life.closed() if each.id == incident.id]
    assert outcomes == ["right again, after plan-1 was made for it"]


def test_a_plan_that_cannot_be_made_stops_no_other_repair(life: Life) -> None:
    """The incident says so once; what is within the bounds goes on."""
    life.bounds = RepairBounds(days=20)
    life.no_plan = "the disk is full"
    for number in range(10):
        _late(life, _day(number))
    life.go_on(3)
    _foreign("revenue")(life, _day(12))
    life.go_on(8)
    (incident,) = life.book.open()
    assert [each.words for each in incident.history].count("no plan could be made: the disk is full") == 1
    assert [each.cause for each in life.closed()] == [Cause.FOREIGN_WRITE]


def test_a_budget_is_of_24_hours(life: Life) -> None:
    """What was launched counts, of closed incidents too; what is beyond it is a plan, and is repaired the next day."""
    life.bounds = RepairBounds.parse("core_seconds=1")
    for day in (_day(1), _day(2)):
        _late(life, day)
    life.go_on(3)
    (attempt,) = life.launched.values()
    assert attempt.core_seconds == Decimal("0.7"), "a tenth of a second for each day of each step"
    _late(life, _day(15))
    life.go_on(3)
    (incident,) = life.book.open()
    assert len(life.launched) == 1 and incident.plan and "1 were spent in 24 hours" in incident.words
    life.now += timedelta(days=1)
    life.go_on(3)
    assert len(life.launched) == 2 and life.book.open() == []


def test_days_of_an_open_campaign_are_left_to_it(life: Life) -> None:
    life.plans_of_campaigns = {TableDay("bronze", _day(1)): "plan-7"}
    _late(life, _day(1))
    assert "plan-7 is rebuilding these days" in next(iter(life.tick().decision.waiting))
    (incident,) = life.book.open()
    assert not life.launched and (incident.state, incident.left_to) == ("waiting", "plan-7")
    life.plans_of_campaigns = {}
    life.go_on(5)
    assert len(life.launched) == 1 and life.book.open() == []


def test_days_that_are_closed_meanwhile_are_nobodys_work_until_they_are_reopened(life: Life) -> None:
    """An incident of them ends, and says why."""
    life.plans_of_campaigns = {TableDay("bronze", _day(1)): "plan-7"}
    _late(life, _day(1))
    life.go_on(1)
    assert life.book.open()
    life.plans_of_campaigns = {}
    life.world.close(_day(1), _day(1))
    life.go_on(5)
    (ended,) = life.closed()
    assert ended.outcome == "its days are closed: backfill status shows by whom and why"
    assert not life.launched and life.book.open() == []
    life.world.closings = ()
    life.go_on(5)
    assert len(life.launched) == 1 and life.book.open() == []


def test_what_a_person_has_closed_is_over(life: Life) -> None:
    _suspicious("raw", "as_usual")(life, _day(3))
    life.go_on(1)
    (incident,) = life.book.open()
    assert life.book.ask_to_close(incident, "ann", "Easter", life.now)
    life.suspicions.clear()
    life.go_on(1)
    (closed,) = life.closed()
    assert closed.outcome == "closed by ann: Easter"


@pytest.mark.protocol
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["late", "content", "held back", "unusual"])
def test_killed_at_every_call_there_is_one_repair_one_incident_and_one_word(
    fortnight: Lakehouse, name: str, every: int
) -> None:
    """A tick dies at each call to Dagster and to the storage: the next one ends as if none had died."""
    fault = REPAIRED[name][0] if name in REPAIRED else ESCALATED[name][0]
    ends = {_how_it_ends(fortnight, fault, die_at) for die_at in range(0, _CALLS, every)}
    assert len(ends) == 1


def _how_it_ends(fortnight: Lakehouse, fault: Fault, die_at: int) -> tuple[object, ...]:
    """What was launched, what became of each incident, and what was told."""
    with lake_in_memory() as memory:
        life = Life.beginning(memory, fortnight)
        fault(life, _day(8))
        calls = count()

        def at(_: str) -> None:
            if next(calls) == die_at:
                raise Died

        for _ in range(14):
            memory.held.at = at
            try:
                life.tick()
            except Died:
                life.now += timedelta(minutes=2)
                life.tick()
            memory.held.at = nothing
            life.run_backfills()
            life.now += timedelta(minutes=2)
        how = tuple((each.id, each.state, each.outcome) for each in (*life.book.open(), *life.closed()))
        return len(life.launched), how, tuple(life.told())


def test_what_a_person_has_accepted_stays_so_when_its_incident_is_forgotten(life: Life) -> None:
    """While the day holds what it held; other rows are another incident, with a number of its own."""
    _suspicious("raw", "as_usual")(life, _day(3))
    life.go_on(1)
    (incident,) = life.book.open()
    life.book.ask_to_close(incident, "ann", "Easter", life.now)
    life.suspicions.clear()
    life.go_on(1)
    assert life.book.forget_closed(datetime(2100, 1, 1, tzinfo=UTC)) == 1
    assert [each.reason for each in life.book.closings().values()] == ["Easter"]
    _suspicious("raw", "as_usual")(life, _day(3))
    life.go_on(1)
    assert life.book.open() == []
    life.world.publish("raw", _day(3), checksum="9", rows=3)
    life.go_on(1)
    assert f"{incident.id[:-1]}2" in [each.id for each in life.book.open()]


def test_the_newest_closed_are_those_since(life: Life) -> None:
    _late(life, _day(1))
    life.go_on(5)
    assert life.book.closed_since(datetime(2100, 1, 1, tzinfo=UTC)) == []
    assert life.book.forget_closed(datetime(2100, 1, 1, tzinfo=UTC)) == 1
    assert life.closed() == []


def test_a_day_that_is_built_with_what_it_is_made_of_says_by_which_repair(life: Life) -> None:
    """Its file is lost while a write past the protocol above it is repaired: one backfill, said once."""
    week, day = TableDay("weekly", date(2017, 1, 9)), date(2017, 1, 11)
    life.damage(week, lost=True)
    life.world.write_past_the_protocol("bronze", day)
    for _ in range(3):
        life.tick()
        (attempt,) = life.launched
        (lost,) = (each for each in life.book.open() if each.cause is Cause.LOST_FILES)
        assert lost.left_to == attempt
        assert f"{attempt} is rebuilding its days" in [each.words for each in lost.facts]
    life.go_on()
    (lost,) = (each for each in life.closed() if each.cause is Cause.LOST_FILES)
    assert lost.outcome == f"right again: {attempt} has built its days"
    assert [each.words for each in lost.history if "left to" in each.words] == [f"left to {attempt}"]


def test_what_restores_raw_is_asked_for_once_while_it_goes_on(life: Life) -> None:
    """Its run may wait in the queue for longer than the pause between two attempts."""
    life.damage(TableDay("raw", _day(3)), lost=True)
    for _ in range(5):
        life.tick()
        life.now += timedelta(minutes=10)
    (incident,) = life.book.open()
    assert [each.id for each in incident.attempts] == list(life.launched) and len(life.launched) == 1
    life.go_on(3)
    assert [each.proof for each in life.closed()[0].attempts] == ["passed"]
