"""The lease of a stream: one stream a table, named to the second; the lease of a killed process is taken at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import psutil
import pytest

from backfill_assets.errors import AnotherStreamRuns
from backfill_assets.lakehouse.document import Series
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream.delays import Delays
from backfill_assets.stream.lease import (
    LEASE_SECONDS,
    RUN_VARIABLE,
    FollowedBatches,
    HeldEvents,
    StreamBatch,
    StreamHolder,
    StreamLease,
    StreamPosition,
    StreamStatus,
    acquire_stream,
    read_stream,
    read_streams,
)
from backfill_assets_tests.clock import NOON, FakeClock
from backfill_assets_tests.waiting import wait_until

TABLE = "raw_sales"


def acquire(storage: Storage) -> StreamLease:
    return acquire_stream(storage, TABLE, "landing")


def write_holder(storage: Storage, lease: StreamLease, **changes: object) -> StreamStatus:
    """Another process has the lease that this one has."""
    holder = StreamHolder.model_validate({**dict(lease.status.holder), "lease": "other", **changes})
    status = lease.status.model_copy(update={"holder": holder})
    claims = Series(storage, f"_streams/{TABLE}", StreamStatus)
    assert claims.claim(status, claims.newest())
    return status


def test_a_second_stream_names_the_first_and_reads_nothing(
    storage: Storage, time: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster names its run to the process that it starts; one that was started by hand is stopped by hand."""
    monkeypatch.setenv(RUN_VARIABLE, "4f2a")
    acquire(storage)
    with pytest.raises(AnotherStreamRuns) as refused:
        acquire(storage)
    expected = (
        f"A stream of raw_sales runs already: process {os.getpid()} on {socket.gethostname()}, run 4f2a, "
        "from landing, since 2017-03-10 12:00:00Z. This one has read nothing.\n"
        "  -> Stop that one first (terminate its run 4f2a in the UI), or let it run."
    )
    assert str(refused.value) == expected
    monkeypatch.delenv(RUN_VARIABLE)
    acquire_stream(storage, "raw_products", "landing")
    with pytest.raises(AnotherStreamRuns, match=f"kill -INT {os.getpid()} on "):
        acquire_stream(storage, "raw_products", "landing")


def test_streams_of_other_tables_run_beside_it(storage: Storage, time: FakeClock) -> None:
    acquire(storage)
    acquire_stream(storage, "raw_fx_rates", "kafka://localhost:9092/rates")
    assert [status.table for status in read_streams(storage)] == ["raw_fx_rates", "raw_sales"]


def test_each_beat_renews_the_lease_and_writes_the_status(storage: Storage, time: FakeClock) -> None:
    lease = acquire(storage)
    time.pass_seconds(LEASE_SECONDS - 1)
    positions = (
        StreamPosition(partition="sales/0", position=40, end=100),
        StreamPosition(partition="sales/1", position=7, end=5),
    )
    lease.beat(state="live", positions=positions, batches=3)
    time.pass_seconds(LEASE_SECONDS - 1)
    status = read_stream(storage, TABLE)
    assert status and status == lease.status and status.is_running(time.now())
    assert (status.state, status.lag, status.batches) == ("live", 60, 3)
    with pytest.raises(AnotherStreamRuns):
        acquire(storage)


def test_the_lag_is_unknown_while_an_end_is() -> None:
    known = StreamPosition(partition="a", position=1, end=2)
    unknown = StreamPosition(partition="b", position=1)
    holder = StreamHolder(host="h", pid=1, process_started=0, lease="t")
    status = StreamStatus(table="t", source="s", holder=holder, started=NOON, beat=NOON, until=NOON)
    lags = [status.model_copy(update={"positions": each}).lag for each in ((), (known,), (known, unknown))]
    assert lags == [None, 1, None]


def test_an_expired_lease_is_taken_over(storage: Storage, time: FakeClock) -> None:
    """Of a process on another host nothing else is known."""
    write_holder(storage, acquire(storage), host="elsewhere")
    time.pass_seconds(LEASE_SECONDS - 1)
    with pytest.raises(AnotherStreamRuns, match="on elsewhere"):
        acquire(storage)
    time.pass_seconds(1)
    assert acquire(storage).status.holder.host == socket.gethostname()


def test_the_lease_of_a_killed_process_is_taken_over_at_once(storage: Storage, time: FakeClock) -> None:
    """Also before its parent has waited for it, and when another process has its number."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = psutil.Process(child.pid).create_time()
    status = write_holder(storage, acquire(storage), pid=child.pid, process_started=started)
    assert status.is_running(time.now())
    child.send_signal(signal.SIGKILL)
    wait_until(lambda: not status.is_running(time.now()))
    assert not status.ended and not status.is_running(time.now())
    acquire(storage)
    child.wait()
    time.pass_seconds(LEASE_SECONDS)
    reused = write_holder(storage, acquire(storage), process_started=started - 1000)
    assert not reused.ended and not reused.is_running(time.now())


def test_a_stream_that_has_ended_leaves_its_status_and_no_lease(storage: Storage, time: FakeClock) -> None:
    lease = acquire(storage)
    lease.beat(state="live", batches=12)
    lease.release()
    status = read_stream(storage, TABLE)
    assert status and (status.state, status.batches, status.error) == ("stopped", 12, "")
    assert status.ended and not status.is_running(time.now())
    acquire(storage).release("the broker is away")
    failed = read_stream(storage, TABLE)
    assert failed and (failed.state, failed.error) == ("failed", "the broker is away")


def test_one_that_lost_its_lease_finds_out_and_leaves_that_of_the_other_alone(
    storage: Storage, time: FakeClock
) -> None:
    """Its process was stopped for longer than the lease lasts, and wakes up."""
    first = acquire(storage)
    time.pass_seconds(LEASE_SECONDS)
    second = acquire(storage)
    first.note(batches=3, events=1_200)
    with pytest.raises(AnotherStreamRuns) as lost:
        first.beat(batches=7)
    assert str(lost.value) == (
        f"{second.status.holder} has streamed into raw_sales since 2017-03-10 12:00:30Z, while this process was"
        " suspended: this stream ends, and what it published stays (1,200 events in 7 batches).\n"
        "  -> Nothing is lost: the other one reads on from where raw ends."
    )
    assert str(first.lost()) == str(lost.value) and second.lost() is None
    first.release()
    assert read_stream(storage, TABLE) == second.status and second.beat(batches=1).batches == 1
    assert read_stream(storage, TABLE) == second.status
    second.release()
    assert first.beat(state="live").state == "live"
    assert read_stream(storage, TABLE) == first.status


def test_a_damaged_status_is_no_lease(storage: Storage, time: FakeClock) -> None:
    storage.write_bytes(f"_streams/{TABLE}/000003.json", b'{"table":')
    assert (read_stream(storage, TABLE), read_streams(storage)) == (None, [])
    assert acquire(storage).number == 4


def test_a_status_with_fields_of_a_later_version_is_read(storage: Storage, time: FakeClock) -> None:
    text = acquire(storage).status.model_dump_json()
    storage.write_bytes(f"_streams/{TABLE}/000000.json", text.replace('{"table"', '{"of later":1,"table"').encode())
    assert read_stream(storage, TABLE)


def test_a_batch_may_take_longer_than_the_lease(storage: Storage) -> None:
    """A thread renews it meanwhile; the lease is released however the block ends."""
    lease = acquire_stream(storage, TABLE, "landing")
    first = lease.status.until
    with lease.renewed(every_seconds=0.01):
        wait_until(lambda: lease.status.until > first)
    assert lease.status.state == "stopped"
    assert "stream-lease" not in {thread.name for thread in threading.enumerate()}


def test_an_error_in_a_stream_is_kept_in_its_status(storage: Storage, time: FakeClock) -> None:
    with pytest.raises(ValueError, match="boom"), acquire(storage).renewed():
        raise ValueError("boom")
    status = read_stream(storage, TABLE)
    assert status and (status.state, status.error) == ("failed", "boom")


def test_a_table_that_was_lost_meanwhile_ends_the_next_beat(storage: Storage, time: FakeClock) -> None:
    lease = acquire(storage)

    def lose() -> None:
        with lease.renewed(every_seconds=0.01):
            write_holder(storage, lease)
            wait_until(lambda: bool(lease._lost))
            lease.beat()

    with pytest.raises(AnotherStreamRuns):
        lose()
    found = read_stream(storage, TABLE)
    assert found and (found.holder.lease, found.state) == ("other", "starting")


def test_readers_find_the_old_status_or_the_new_one(storage: Storage, time: FakeClock) -> None:
    """Never a part of it, however often it is written."""
    lease, ended = acquire(storage), threading.Event()

    def write() -> None:
        while not ended.is_set():
            lease.beat(note="x" * 20_000)

    writer = threading.Thread(target=write)
    writer.start()
    found = [read_stream(storage, TABLE) for _ in range(200)]
    ended.set()
    writer.join()
    assert None not in found
    assert [file.path for file in storage.files(f"_streams/{TABLE}")] == [f"_streams/{TABLE}/000000.json"]


def test_a_batch_is_described_in_one_line() -> None:
    batch = StreamBatch(at=NOON, batch=7, events=1, seconds=1.26)
    late = batch.model_copy(update={"delays": {"raw_sales": Delays(2.04, 3)}})
    assert str(late) == "batch 7: 1 event in 1.3 s; in raw_sales after p50 2.0 s, p99 3.0 s"
    followed = FollowedBatches(at=NOON, batches=3, events=5, seconds=2, delays={"fact": Delays(8, 9.51)}, held_back="7")
    assert str(followed) == "3 batches followed: 5 events in 2.0 s; in fact after p50 8.0 s, p99 9.5 s; 7"
    slow = batch.model_copy(update={"events": 2_000, "slowed_down": "the source took 4.1 s: reading at 250 records/s"})
    assert str(slow) == "batch 7: 2,000 events in 1.3 s; slowed down: the source took 4.1 s: reading at 250 records/s"


def test_events_a_second_are_those_that_come_and_not_those_that_a_batch_could_read(storage: Storage) -> None:
    """Raw takes half a second for what has come in two."""
    batch = StreamBatch(at=NOON, batch=7, events=200, seconds=0.5)
    status = acquire(storage).status
    rates = [status.model_copy(update={"last": each}).events_per_second for each in (None, batch)]
    apart = batch.model_copy(update={"since_last": 2.0})
    assert [*rates, status.model_copy(update={"last": apart}).events_per_second] == [0.0, 400.0, 100.0]


def test_what_was_held_back_stays_so_until_the_next_stream_has_looked(storage: Storage, time: FakeClock) -> None:
    """A start may take minutes, in which nothing is over."""
    held = HeldEvents(table="bronze_sales", day=NOON.date(), rule="few_rejected", why="", events=9, since=NOON)
    lease = acquire(storage)
    lease.beat(state="live", held_back=(held,))
    lease.release()
    assert acquire(storage).status.held_back == (held,)
    assert [each.held_back for each in read_streams(storage)] == [(held,)]
