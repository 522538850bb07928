"""When a stream is started again: after a crash, not after a stop, never twice, and later with each early end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.stream.restart import STEADY, EarlierStart, Ending, decide_restart, early_ends, wait_after

NOON = datetime(2017, 3, 10, 12, tzinfo=UTC)


def start(ending: Ending, *, ended_ago: float = 0, lasted: float = 1) -> EarlierStart:
    """A run that lasted so many seconds, and ended so many seconds before noon."""
    ended = NOON - timedelta(seconds=ended_ago)
    return EarlierStart(f"{ending}-{ended_ago}", ended - timedelta(seconds=lasted), ended, ending)


def decide(*earlier: EarlierStart, running: str = "", under_way: str = "", holder: str = "") -> tuple[bool, str]:
    decision = decide_restart("stream_sales", running, under_way, earlier, NOON, holder)
    return decision.repeat is not None, decision.reason


def test_what_runs_or_is_about_to_is_not_started_twice() -> None:
    crashed = start("failed", ended_ago=1000)
    assert decide(crashed, running="live: 400 events/s") == (False, "stream_sales is on: live: 400 events/s.")
    assert decide(crashed, under_way="the run 4f2a is queued")[0] is False


def test_what_was_never_started_waits_for_a_person() -> None:
    assert decide() == (False, "stream_sales was never started: materialize it once.")


@pytest.mark.parametrize("ending", ["stopped", "finished"])
def test_what_a_person_has_stopped_stays_off(ending: Ending) -> None:
    """Also when it had failed before."""
    again, reason = decide(start(ending, ended_ago=60), start("failed", ended_ago=900))
    assert not again
    assert reason == f"stream_sales is off: it was {ending} at 2017-03-10 11:59:00Z. Materialize it."


@pytest.mark.parametrize("ending", ["stopped", "finished"])
def test_a_start_that_failed_beside_the_stream_does_not_count(ending: Ending) -> None:
    """As a second one that was refused. Neither does it make the stream wait that fails after it."""
    refused = start("failed", ended_ago=100)
    assert decide(refused, start(ending, ended_ago=60, lasted=3600))[0] is False
    assert decide(refused, refused, start("failed", ended_ago=0, lasted=3600))[0] is True


def test_a_start_that_was_stopped_beside_the_stream_does_not_stop_it() -> None:
    """As one that was cancelled in the queue. The stream failed later, and is to be back."""
    cancelled, stream = start("stopped", ended_ago=100), start("failed", ended_ago=0, lasted=3600)
    assert decide(cancelled, stream, holder=stream.run)[0] is True
    assert decide(cancelled, stream)[0] is True


def test_a_stream_that_a_person_stopped_stays_off_when_an_older_crash_is_noticed_later() -> None:
    """The run that had the lease last was the stream."""
    stopped, crashed = start("stopped", ended_ago=100), start("failed", ended_ago=60, lasted=3600)
    assert decide(stopped, crashed, holder=stopped.run) == (
        False,
        "stream_sales is off: it was stopped at 2017-03-10 11:58:20Z. Materialize it.",
    )


def test_a_stream_that_lasted_is_back_at_once() -> None:
    """A crash after hours says nothing about the next start."""
    crashed = start("failed", lasted=STEADY.total_seconds())
    assert decide(crashed, start("failed", ended_ago=700)) == (
        True,
        "stream_sales failed at 2017-03-10 12:00:00Z: it is started again.",
    )


def test_a_stream_that_fails_early_waits_longer_each_time() -> None:
    failed = [start("failed", ended_ago=29 + 100 * number) for number in range(2)]
    assert decide(*failed) == (
        False,
        "stream_sales failed at 2017-03-10 11:59:31Z, 2 times: next at 2017-03-10 12:00:01Z.",
    )
    assert decide(start("failed", ended_ago=30), *failed[1:])[0] is True


def test_the_count_begins_anew_after_a_start_that_lasted() -> None:
    early, steady = start("failed"), start("failed", lasted=STEADY.total_seconds())
    assert [early_ends(each) for each in ([], [steady], [early, early, steady, early], [early] * 12)] == [0, 0, 2, 12]
    waits = [wait_after(number).total_seconds() for number in (0, 1, 2, 3, 6, 7, 500)]
    assert waits == [0, 15, 30, 60, 480, 600, 600]
