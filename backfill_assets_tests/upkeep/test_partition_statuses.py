"""Which days have to be reported to an orchestrator: those whose newest publication it has not received."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.upkeep.partition_statuses import Corrections, statuses_to_put_right

DAY = date(2017, 3, 1)


def _state(publication: str, sequence: int, *, day: date = DAY, withdrawn: bool = False) -> DayState:
    content = None if withdrawn else DayContent(rows=1, checksum="1")
    return DayState(
        table="bronze", day=day, publication=publication, sequence=sequence, physical="files", content=content
    )


P1, P2, UNDO = _state("p1", 4), _state("p2", 7), _state("undo", 9, withdrawn=True)


@pytest.mark.parametrize(
    ("state", "reported", "under_way", "settled", "found"),
    [
        (P1, "p1", (), -1, Corrections(settled=4)),
        (P1, None, (), -1, Corrections((P1,), (), 4)),
        (P2, "p1", (), -1, Corrections((P2,), (), 7)),
        (P2, "", (), -1, Corrections((P2,), (), 7)),
        (P1, None, ("p1",), -1, Corrections(settled=3)),
        (UNDO, "p1", (), -1, Corrections((), (UNDO,), 9)),
        (UNDO, "p1", (), 9, Corrections(settled=9)),
        (UNDO, None, (), -1, Corrections(settled=9)),
    ],
    ids=[
        "reported: left alone, also when it is shown as failed",
        "published and not reported: its run was killed in between",
        "rebuilt since it was reported",
        "reported, and nobody knows by which publication",
        "its run is under way, and reports it itself: looked at again later",
        "withdrawn: reported",
        "withdrawn, and reported before",
        "withdrawn, and never shown",
    ],
)
def test_what_is_reported_of_a_day(
    state: DayState, reported: str | None, under_way: tuple[str, ...], settled: int, found: Corrections
) -> None:
    told = {} if reported is None else {TableDay("bronze", DAY): reported}
    assert statuses_to_put_right([state], told, under_way, settled=settled) == found


def test_long_lists_are_reported_in_portions() -> None:
    """Each event takes tens of milliseconds and a sensor's turn has an end. What was published later comes after."""
    states = [_state("undo", 9, day=date(2017, 3, n), withdrawn=True) for n in range(1, 6)]
    states += [_state("p3", 11, day=date(2017, 3, n)) for n in (8, 9)]
    reported = {TableDay("bronze", state.day): "p1" for state in states}
    settled, days = -1, list[list[int]]()
    for _ in range(4):
        found = statuses_to_put_right(states, reported, (), settled=settled, at_most=2)
        settled = found.settled
        told = (*found.withdrawn, *found.published)
        days.append([state.day.day for state in told])
        reported |= {TableDay("bronze", state.day): state.publication for state in told}
    assert [day for each in days for day in each] == [1, 2, 3, 4, 5, 8, 9] and max(map(len, days)) == 2
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
