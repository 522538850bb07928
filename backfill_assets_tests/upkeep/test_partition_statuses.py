"""Which days have to be reported to an orchestrator: those whose newest publication it has not received."""

from __future__ import annotations

from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.upkeep.partition_statuses import Corrections, statuses_to_put_right

DAY = date(2017, 3, 1)
KEY = TableDay("bronze", DAY)
Told = dict[TableDay, str]


def _state(publication: str, sequence: int, *, day: date = DAY, withdrawn: bool = False) -> DayState:
    content = None if withdrawn else DayContent(rows=1, checksum="1")
    return DayState(
        table="bronze", day=day, publication=publication, sequence=sequence, physical="files", content=content
    )


def _decided(state: DayState, reported: Told, *under_way: str, settled: int = -1) -> Corrections:
    return statuses_to_put_right([state], reported, under_way, settled=settled)


def test_a_day_that_was_reported_is_left_alone() -> None:
    """Also when it is shown as failed: its last attempt published nothing, and that is what failed means."""
    assert _decided(_state("p1", 4), {KEY: "p1"}) == Corrections(settled=4)


def test_a_published_day_that_was_not_reported_is_reported() -> None:
    """A run killed between publishing and reporting: the day is there, and shown as missing."""
    state = _state("p1", 4)
    assert _decided(state, {}) == Corrections((state,), (), 4)


def test_a_rebuilt_day_is_reported_again() -> None:
    """Killed while rebuilding, or rolled back: shown as materialized, but the event speaks about other rows."""
    state = _state("p2", 7)
    assert _decided(state, {KEY: "p1"}).published == (state,)
    assert _decided(state, {KEY: ""}).published == (state,)


def test_a_run_that_is_under_way_reports_its_days_itself() -> None:
    """A second report would not be wrong, but confusing; the entry is looked at again later."""
    assert _decided(_state("p1", 4), {}, "p1") == Corrections(settled=3)


def test_a_withdrawn_day_is_reported_once() -> None:
    """After a rollback of its first publication nothing is there; a day that was never shown needs no word."""
    state = _state("undo", 9, withdrawn=True)
    assert _decided(state, {KEY: "p1"}) == Corrections((), (state,), 9)
    assert _decided(state, {KEY: "p1"}, settled=9) == Corrections(settled=9)
    assert _decided(state, {}) == Corrections(settled=9)


def test_a_long_list_is_reported_in_portions() -> None:
    """Each event takes tens of milliseconds and a sensor's turn has an end: what is left is found the next time."""
    states = [_state("p1", 4, day=date(2017, 3, n)) for n in range(1, 6)]
    first = statuses_to_put_right(states, {}, (), at_most=3)
    assert [state.day for state in first.published] == [date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)]
    reported = {TableDay(state.table, state.day): state.publication for state in first.published}
    rest = statuses_to_put_right(states, reported, (), settled=first.settled, at_most=3)
    assert [state.day for state in rest.published] == [date(2017, 3, 4), date(2017, 3, 5)]
    assert rest.settled == 4


def test_withdrawn_days_of_one_publication_are_reported_in_portions_too() -> None:
    """What was published later is reported after them."""
    states = [_state("undo", 9, day=date(2017, 3, n), withdrawn=True) for n in range(1, 6)]
    later = _state("p3", 11, day=date(2017, 3, 9))
    reported = {TableDay("bronze", state.day): "p1" for state in (*states, later)}
    settled, days = -1, []
    for _ in range(3):
        found = statuses_to_put_right([*states, later], reported, (), settled=settled, at_most=2)
        settled = found.settled
        told = (*found.withdrawn, *found.published)
        days += [state.day.day for state in told]
        reported |= {TableDay("bronze", state.day): state.publication for state in told}
    assert days == [1, 2, 3, 4, 5, 9]
    assert settled == 11


def test_a_withdrawn_day_that_its_own_run_reports_is_not_passed_over() -> None:
    """The place stays before it, also while later entries are reported."""
    mine = [_state("undo", 9, day=date(2017, 3, n), withdrawn=True) for n in (2, 4)]
    other = _state("p0", 9, day=date(2017, 3, 1))
    reported = {TableDay("bronze", state.day): "p1" for state in mine}
    found = statuses_to_put_right([*mine, other], reported, ["undo"])
    assert (found.published, found.withdrawn, found.settled) == ((other,), (), 8)
    reported[TableDay("bronze", other.day)] = "p0"
    ended = statuses_to_put_right([*mine, other], reported, (), settled=found.settled)
    assert (ended.published, ended.withdrawn, ended.settled) == ((), tuple(mine), 9)
