"""Holds: a process waits for others' unexpired holds on just its days, and never longer than its limit."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cached_property
from pathlib import Path

import pytest

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.holds import (
    HOLD_SECONDS,
    LONGEST_WAIT_SECONDS,
    Hold,
    all_holds,
    blocking_hold,
    drop_expired,
    expired_holds,
    holding,
    put_hold,
    wait_for_holds,
)
from backfill_assets_tests.clock import NOON, FakeClock
from backfill_assets_tests.protocol.lake import D1, D2, D3


def a_hold(campaign: str, until: float, **days: tuple[date, ...]) -> Hold:
    return Hold(campaign=campaign, holder="1", days=days, until=NOON + timedelta(seconds=until))


def test_only_the_unexpired_holds_of_others_on_the_same_days_block() -> None:
    """Of several, the one that lasts longest."""
    holds = [
        a_hold("mine", 50, t=(D1,)),
        a_hold("over", 0, t=(D1,)),
        a_hold("elsewhere", 50, t=(D2,), u=(D1,)),
        a_hold("short", 10, t=(D1, D3)),
        a_hold("long", 20, t=(D1,)),
    ]
    found = blocking_hold(holds, "mine", {"t": [D1]}, NOON)
    assert found and found.campaign == "long"
    assert blocking_hold(holds, "mine", {"t": [D1]}, NOON + timedelta(seconds=20)) is None
    assert blocking_hold(holds, "mine", {"u": [D2], "v": [D1]}, NOON) is None
    assert [hold.campaign for hold in expired_holds(holds, NOON)] == ["over"]


def wait(storage: Storage, time: FakeClock, **days: list[date]) -> tuple[float, list[str]]:
    told: list[str] = []
    seconds = wait_for_holds(storage, "", days, progress=told.append)
    assert all(nap > 0 for nap in time.slept)
    return seconds, told


def test_a_writer_goes_on_as_soon_as_the_hold_is_released(storage: Storage, time: FakeClock) -> None:
    """It is reported once for whom it waits, and how long at most; other days go on at once."""
    held = put_hold(storage, "campaign-x", {"t": [D1, D2]})
    time.at_sleep = lambda: held.release() if len(time.slept) == 4 else None
    assert wait(storage, time, t=[D3], u=[D1]) == (0, [])
    seconds, told = wait(storage, time, t=[D2, D3])
    assert (seconds, len(time.slept)) == (2.0, 4)
    assert told == [f"waiting for plan-x, which is cutting over these days, for {HOLD_SECONDS} s at most"]


def test_the_hold_of_a_dead_process_expires(storage: Storage, time: FakeClock) -> None:
    """It is not released: the writer waits until then, to the moment, and goes on."""
    put_hold(storage, "campaign-x", {"t": [D1]}, seconds=7.3)
    assert wait(storage, time, t=[D1])[0] == pytest.approx(7.3)
    assert [hold.campaign for hold in drop_expired(storage, time.now())] == ["campaign-x"]
    assert all_holds(storage) == []


def test_even_a_hold_that_is_extended_for_ever_is_not_waited_for_for_ever(storage: Storage, time: FakeClock) -> None:
    """It is advice: after five minutes compare-and-swap has to do."""
    time.at_sleep = put_hold(storage, "campaign-x", {"t": [D1]}).extend
    assert wait(storage, time, t=[D1])[0] == LONGEST_WAIT_SECONDS
    assert len(all_holds(storage)) == 1


def test_it_is_released_however_the_block_ends(storage: Storage) -> None:
    """Also by an error; what is half written is no hold."""

    def failing() -> None:
        with holding(storage, "campaign-x", {"t": [D1]}):
            storage.write_bytes("_holds/half.json", b'{"campaign":')
            assert len(all_holds(storage)) == 1
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        failing()
    assert all_holds(storage) == []


class Slow(Storage):
    """Every writer is looked at when half of the file is written; ``seen`` is how many holds there are then."""

    @cached_property
    def seen(self) -> list[int]:
        return []

    def write_bytes(self, path: str, data: bytes) -> None:
        super().write_bytes(path, data[: len(data) // 2])
        self.seen.append(len(all_holds(self)))
        super().write_bytes(path, data)
        self.seen.append(len(all_holds(self)))


def test_a_hold_that_is_extended_is_there_all_the_time(tmp_path: Path) -> None:
    """Else a writer that looks in that moment publishes, and the cut-over starts over."""
    storage = Slow(str(tmp_path))
    held = put_hold(storage, "campaign-x", {"t": [D1]})
    storage.seen.clear()
    held.extend()
    assert storage.seen == [1, 1]


def test_two_processes_of_one_campaign_do_not_release_each_others(storage: Storage) -> None:
    """One cut-over that failed must not end the patience that another one asked for."""
    first = put_hold(storage, "campaign-x", {"t": [D1]})
    put_hold(storage, "campaign-x", {"t": [D1]})
    first.release()
    assert len(all_holds(storage)) == 1
