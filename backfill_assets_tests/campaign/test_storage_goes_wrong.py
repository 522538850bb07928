"""The storage goes wrong once, at each call that an operation makes: nothing is lost, doubled, torn or in the way.

For each call there is a lakehouse of its own. The operation ends as if nothing had been, or with an error that says
what failed; the next process finishes what it finds, the same is typed again, and main is what it is without a fault.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import get_args

import pytest
from deltalake.exceptions import DeltaError

from backfill_assets.errors import BackfillError
from backfill_assets.rebuild.lake import Lake
from backfill_assets_tests.campaign.undo_lakehouse import (
    BRONZE,
    DAYS,
    DONE,
    FRIDAY,
    STEPS,
    Life,
    UndoLakehouse,
    Work,
    begun_lakehouse,
    days_of,
)
from backfill_assets_tests.campaign.undo_oracle import Names
from backfill_assets_tests.protocol.failing_storage import FailingStorage, Fault, goes_wrong

pytestmark = pytest.mark.protocol
Shown = Mapping[tuple[str, date], Names]
Operation = Callable[[UndoLakehouse], tuple[list[Work], Callable[[], Work]]]
"""What is done before, and then what the storage goes wrong in."""
MOST_CALLS = int(os.environ.get("FAULTS", "1"))
"""So many calls of each operation go wrong in each way; ``make faults`` has all of them go wrong."""


def publish(played: UndoLakehouse) -> tuple[list[Work], Callable[[], Work]]:
    return played.arrive("late row", FRIDAY, "raw"), lambda: played.build(BRONZE)


def approve(played: UndoLakehouse) -> tuple[list[Work], Callable[[], Work]]:
    *staged, brought = played.campaign("v2", DAYS[:-1])
    return staged, lambda: brought


def rollback(played: UndoLakehouse) -> tuple[list[Work], Callable[[], Work]]:
    return played.campaign("v2", DAYS[:-1]), lambda: played.roll_back(played.undoable(whole=True)[-1])


def forward(played: UndoLakehouse) -> tuple[list[Work], Callable[[], Work]]:
    def rewound(lake: Lake) -> object:
        return played.rewind("line", "fact", played.undoable(whole=True)[-1], None)(lake)

    return [*played.campaign("v2", DAYS[:-1]), rewound], lambda: played.forward("line", "v2")


@dataclass(frozen=True)
class Prepared:
    """A lakehouse in which ``work`` comes next; what it does without a fault, and the calls that it makes."""

    played: UndoLakehouse
    work: Work
    wanted: Shown
    calls: tuple[str, ...]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UndoLakehouse]:
    with begun_lakehouse(tmp_path_factory.mktemp("begun")) as found:
        yield found


@pytest.fixture(scope="module", params=[publish, approve, rollback, forward], ids=lambda each: each.__name__)
def prepared(request: pytest.FixtureRequest, built: UndoLakehouse) -> Iterator[Prepared]:
    operation: Operation = request.param
    begun = built.copy()
    before, work = operation(begun)
    assert begun.do(*before) == DONE
    chosen, sound = work(), FailingStorage("fails")
    wanted = play(begun, chosen, sound)
    yield Prepared(begun, chosen, wanted, tuple(sound.calls))
    begun.remove()


def play(begun: UndoLakehouse, work: Work, faults: FailingStorage) -> Shown:
    """``work`` with a fault, what comes after it, and what main shows in the end."""
    played = begun.copy()
    try:
        faults.late = played.lake(Life()).publisher.recover
        lake = played.lake(Life())
        with faults.armed():
            try:
                work(lake)
            except (BackfillError, OSError, DeltaError):
                if not faults.struck:
                    raise
        played.do(lambda lake: lake.publisher.recover(), work)
        played.end()
        return {(step.name, day): played.names(step.name, day) for step in STEPS for day in days_of(step)}
    finally:
        played.remove()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", get_args(Fault))
def test_main_ends_as_without_the_fault_at_each_call(prepared: Prepared, fault: Fault) -> None:
    able = [number for number, name in enumerate(prepared.calls, 1) if goes_wrong(name, fault)]
    every = max(1, len(able) // MOST_CALLS)
    chosen = able[every // 2 :: every]
    for number in chosen:
        faults = FailingStorage(fault, number)
        where = f"{fault} at call {number} of {len(prepared.calls)}: {prepared.calls[number - 1]}"
        try:
            found = play(prepared.played, prepared.work, faults)
        except BaseException as error:
            error.add_note(where)
            raise
        assert faults.struck == prepared.calls[number - 1], where
        assert found == prepared.wanted, where
    print(f"{fault}: {len(chosen)} of {len(able)} calls went wrong, of {len(prepared.calls)}")
    assert chosen
