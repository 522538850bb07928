"""The asset of a stream: its run is the stream, seen with its delay, rate and position, and stopped with it."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from backfill_assets import clock
from backfill_assets.defs import streams
from backfill_assets.defs.location import code_location
from backfill_assets.defs.own_lakehouse import IS_OFF
from backfill_assets.defs.streams import (
    STREAM_TAG,
    StreamChild,
    StreamedDataset,
    StreamOptions,
    stream_asset,
    stream_line,
    stream_metadata,
)
from backfill_assets.errors import AnotherStreamRuns, InvalidRequest, StreamFailed
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog, anything_published
from backfill_assets.stream.delays import Delays
from backfill_assets.stream.lease import (
    HeldEvents,
    StreamBatch,
    StreamHolder,
    StreamPosition,
    StreamStatus,
    acquire_stream,
    read_stream,
)
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.defs.conftest import evaluate_tick, shown_on
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.fake_stream import ENDS_ONCE
from backfill_assets_tests.defs.small_chain import publish_chain
from backfill_assets_tests.defs.small_dataset import SMALL_CATALOG, STREAMED, STREAMED_CATALOG
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.waiting import wait_until

SMALL_STREAM = StreamedDataset(STREAMED)
OFTEN = {"report_every_seconds": 0.1}


class World:
    """A lakehouse, an instance, and the asset over a stream that writes a status and has no Spark."""

    def __init__(self, home: Path, instance: dg.DagsterInstance) -> None:
        self.home, self.instance = home, instance
        self.storage = Storage(str(home / "lakehouse"))

    def asset(self, how: str = "live") -> dg.AssetsDefinition:
        fake = (sys.executable, "-m", "backfill_assets_tests.defs.fake_stream", self.storage.root, how)
        return stream_asset(SMALL_STREAM, fake)

    def run(self, how: str = "live", **options: Any) -> dg.ExecuteInProcessResult:
        return dg.materialize(
            [self.asset(how)],
            instance=self.instance,
            resources=fake_resources(FakeBuilder(), self.home),
            run_config={"ops": {"stream_small": {"config": {**OFTEN, **options}}}},
            raise_on_error=False,
        )

    def logged(self, run_id: str) -> list[str]:
        records = self.instance.get_records_for_run(run_id).records
        return [each.event_log_entry.user_message for each in records]

    def points(self) -> list[dict[str, Any]]:
        """What was shown of the asset, oldest first."""
        return shown_on(self.instance, "stream_small")[::-1]


@pytest.fixture
def world(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> World:
    return World(tmp_path, dagster_instance)


def _counting(made: Callable[[StreamStatus], dict[str, Any]], seen: Path) -> Callable[[StreamStatus], dict[str, Any]]:
    """Lets the process end after its second point, however slow the machine is."""
    points: list[StreamStatus] = []

    def counting(status: StreamStatus) -> dict[str, Any]:
        points.append(status)
        if len(points) == 2:
            seen.touch()
        return made(status)

    return counting


def test_its_run_shows_delay_rate_and_positions_while_it_goes_on(
    world: World,
    later: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Numbers for the plots of its page, at intervals; Spark's address is no concern of the stream."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:1")
    seen = world.home / "shown-twice"
    monkeypatch.setenv(ENDS_ONCE, str(seen))
    monkeypatch.setattr(streams, "stream_metadata", _counting(streams.stream_metadata, seen))
    result = world.run(available_now=True)
    assert result.success
    points = world.points()
    assert len(points) >= 3
    first, last = points[0], points[-1]
    names = ("raw_sales_p50_seconds", "raw_sales_p99_seconds", "fact_daily_revenue_p50_seconds")
    assert tuple(last[name] for name in names) == (1.2, 4.2, 7.1)
    assert last["fact_daily_revenue_p99_seconds"] == 9.3
    assert (last["events_per_second"], last["events"], last["behind"]) == (500.0, 800, 7)
    (row,) = last["positions"].records
    assert row.data == {"partition": "sales/0", "position": "800", "end": "807", "lag": "7"}
    assert (first["state"], last["state"]) == ("live", "stopped")
    assert last["boundary"] == "sales/0 at 100"
    lines = world.logged(result.run_id)
    late = "in raw_sales after p50 1.2 s, p99 4.2 s, in fact_daily_revenue after p50 7.1 s, p99 9.3 s"
    live = rf"live: 500 events/s, {late}, 7 behind, batch (\d) in 0.2 s; at sales/0 (\d)00"
    assert any(re.fullmatch(live, line) for line in lines)
    assert "raw_sales --from landing --available-now; SPARK_REMOTE=\n" in capfd.readouterr().err
    run = world.instance.get_run_by_id(result.run_id)
    status = read_stream(world.storage, "raw_sales")
    assert run and run.tags[STREAM_TAG] == "stream_small"
    assert status and (status.holder.run, status.state) == (result.run_id, "stopped")
    later(3600)
    requests, words = tick(world)
    assert requests == [] and "it was finished at" in words, "it has read what there is"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("refuses", "The topic sales does not exist.\n  -> Create it, or name another one."),
        ("fails", "The broker localhost:9092 is away.\n  -> Start it, then start the stream again."),
    ],
)
def test_a_stream_that_fails_fails_its_run_with_its_last_words(world: World, how: str, words: str) -> None:
    result = world.run(how)
    assert not result.success
    failure = result.failure_data_for_node("stream_small")
    assert failure and failure.user_failure_data
    assert f"The stream of raw_sales ended with exit code 1.\n{words}" in str(failure.user_failure_data.description)


def test_a_second_stream_is_refused_before_it_starts(world: World) -> None:
    """By name, and the first one goes on."""
    lease = acquire_stream(world.storage, "raw_sales", "kafka://broker:9092/sales")
    result = world.run()
    failure = result.failure_data_for_node("stream_small")
    assert failure and failure.user_failure_data
    described = str(failure.user_failure_data.description)
    assert f"runs already: process {os.getpid()} on" in described and "from kafka://broker:9092/sales" in described
    assert not any(line.startswith("Starting -m") for line in world.logged(result.run_id))
    lease.beat()
    with pytest.raises(AnotherStreamRuns):
        acquire_stream(world.storage, "raw_sales", "landing")


def test_terminating_the_run_stops_the_stream_in_order(world: World) -> None:
    """It is interrupted, publishes what it has, and leaves no lease."""

    def terminate() -> None:
        wait_until(lambda: bool((status := read_stream(world.storage, "raw_sales")) and status.batches), 60)
        os.kill(os.getpid(), signal.SIGINT)

    person = threading.Thread(target=terminate)
    person.start()
    result = world.run()
    person.join()
    assert not result.success
    status = read_stream(world.storage, "raw_sales")
    assert status and status.state == "stopped" and status.batches


def test_options_become_those_of_the_command() -> None:
    """What is empty is left to the command."""
    assert StreamOptions().arguments("raw_sales", "landing") == ["raw_sales", "--from", "landing"]
    options = StreamOptions(
        source="kafka://b:9092/sales",
        from_beginning=True,
        since="2017-03-01",
        rate="2000",
        rate_in=["06:00-22:00=500", "22:00-23:00=1"],
    )
    assert " ".join(options.arguments("raw_sales", "landing")) == (
        "raw_sales --from kafka://b:9092/sales --from-beginning=2017-03-01 --rate 2000 "
        "--rate 06:00-22:00=500 --rate 22:00-23:00=1"
    )
    with pytest.raises(InvalidRequest, match="since is where history begins"):
        StreamOptions(since="2017-03-01").arguments("raw_sales", "landing")


NOON = datetime(2017, 3, 10, 12, tzinfo=UTC)
HOLDER = StreamHolder(host="h", pid=1, process_started=0, lease="1")


def status(**changes: Any) -> StreamStatus:
    known = {"table": "raw_sales", "source": "landing", "holder": HOLDER, "started": NOON, "beat": NOON, "until": NOON}
    return StreamStatus.model_validate({**known, **changes})


def test_what_is_not_known_yet_has_no_point_in_a_plot() -> None:
    shown = stream_metadata(status())
    assert not [name for name in shown if name.endswith("_seconds") and name != "batch_seconds"]
    assert not {"behind", "last error"} & set(shown)
    assert str(shown["boundary"]).startswith("not reached")
    assert stream_line(status(state="history")) == (
        "history: 0 events/s, in raw_sales after p50 unknown, p99 unknown, how far behind is unknown, "
        "batch 0 in 0.0 s; at the beginning"
    )


def test_a_start_says_what_it_does_and_for_how_long() -> None:
    later = NOON + timedelta(seconds=95)
    assert stream_line(status(beat=later)) == "starting for 95 s: Spark starts"
    note = "12 days that an earlier stream left: bronze_sales: 7/12 days staged, ETA 40 s"
    assert stream_line(status(beat=later, note=note)) == f"starting for 95 s: {note}"


def test_what_a_gate_holds_back_is_in_the_line_and_on_the_page() -> None:
    """The delay of what is published is a good one; it is not that of these events."""
    held = HeldEvents(
        table="bronze_sales",
        day=NOON.date(),
        rule="few_rejected",
        why="few_rejected: 2152 of 2400 rows quarantined, expected at most 120",
        events=2_376,
        since=NOON,
        do='backfill raw release bronze_sales 2017-03-10 "REASON"',
    )
    words = "2,376 events of 2017-03-10 held back by few_rejected of bronze_sales since 2017-03-10 12:00:00Z"
    assert f"; {words}" in stream_line(status(state="live", held_back=(held,)))
    shown = stream_metadata(status(state="live", held_back=(held,)))
    (record,) = shown["held back by"].records
    assert (
        shown["held_back"] == 2_376 and record.data["what helps"] == held.do and "2152 of 2400" in record.data["gate"]
    )
    assert stream_metadata(status())["held_back"] == 0 and "held back by" not in stream_metadata(status())


def test_an_end_that_is_unknown_is_an_empty_cell() -> None:
    positions = (StreamPosition(partition="sales/0", position=4711), StreamPosition(partition="b", position=1, end=3))
    table = stream_metadata(status(positions=positions))["positions"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data for record in table.records] == [
        {"partition": "sales/0", "position": "4,711", "end": "", "lag": ""},
        {"partition": "b", "position": "1", "end": "3", "lag": "2"},
    ]


def test_the_answer_of_the_source_and_the_share_of_the_rate_are_plotted() -> None:
    slow = StreamBatch(at=NOON, batch=7, events=8, seconds=1, answer_seconds=4.1, pace=0.5)
    shown = stream_metadata(status(last=slow, note="reading at 250 records/s"))
    assert (shown["source_answer_seconds"], shown["pace"]) == (4.1, 0.5)
    assert shown["slowed down"] == "reading at 250 records/s"
    assert "source_answer_seconds" not in stream_metadata(status())
    assert ", source answered in 4.1 s; at the beginning" in stream_line(status(last=slow, state="live"))


def test_what_slows_it_down_and_what_failed_are_in_the_line() -> None:
    line = stream_line(status(state="history", note="reading at 250 records/s", error="the broker was away"))
    assert line.startswith("history: ")
    assert line.endswith("; reading at 250 records/s; last error: the broker was away")


OPTIONS = {"source": "kafka://broker:9092/sales"}
_REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("small"), "__repository__")


def tick(
    world: World, streamed: StreamedDataset = SMALL_STREAM, *, automation: bool = True
) -> tuple[list[dg.RunRequest], str]:
    log = PublicationLog(world.storage) if anything_published(world.storage) else None
    resources = fake_resources(FakeBuilder(log=log), world.home, automation=automation)
    data = evaluate_tick(
        streams.stream_sensor([streamed]), world.instance, code_location(STREAMED_CATALOG, resources), resources
    )
    return list(data.run_requests or []), str(data.skip_message)


@pytest.fixture
def later() -> Iterator[Callable[[float], None]]:
    """The daemon's next look is so many seconds later."""
    with ExitStack() as until_the_end:

        def look(seconds: float) -> None:
            until_the_end.enter_context(clock.use(FakeClock(clock.now() + timedelta(seconds=seconds))))

        yield look


def _started(world: World) -> dg.DagsterRun:
    """A run of the stream that has begun."""
    tags, status = {STREAM_TAG: "stream_small"}, dg.DagsterRunStatus.STARTED
    config = {"ops": {"stream_small": {"config": {**OFTEN, **OPTIONS}}}}
    return world.instance.add_run(dg.DagsterRun(job_name="__ASSET_JOB", status=status, tags=tags, run_config=config))


def _failed(world: World) -> dg.DagsterRun:
    """A run of the stream that has ended by itself."""
    run = _started(world)
    world.instance.report_run_failed(run)
    return run


def test_nothing_is_started_by_itself(world: World) -> None:
    """It is on from the start, and a stream that no person has started stays off."""
    catalogs = (STREAMED_CATALOG, SMALL_CATALOG)
    location, without = (code_location(each, fake_resources(FakeBuilder())) for each in catalogs)
    assert location.resolve_sensor_def("streams").default_status is dg.DefaultSensorStatus.RUNNING
    assert "streams" not in {sensor.name for sensor in without.sensors or ()}
    assert tick(world) == ([], "stream_small was never started: materialize it once.")


def test_one_that_is_declared_to_run_always_begins_once_something_is_published(world: World) -> None:
    """Once: the second tick asks for the same run. One that a person has stopped stays off."""
    always = StreamedDataset(replace(STREAMED, streamed="always"))
    assert tick(world, always) == ([], "stream_small was never started: materialize it once.")
    publish_chain(SmallLakehouse(world.home / "lakehouse"), "p", [date(2017, 3, 1)])
    ((first,), _), ((again,), _) = tick(world, always), tick(world, always)
    assert first.run_key == again.run_key == "first-stream_small"
    assert (first.asset_selection, first.tags[STREAM_TAG]) == ([dg.AssetKey("stream_small")], "stream_small")
    assert tick(world, always, automation=False) == ([], IS_OFF)
    world.instance.report_run_canceled(_started(world))
    assert tick(world, always)[0] == []


def test_a_stream_that_failed_is_started_again_with_the_same_options(
    world: World, later: Callable[[float], None]
) -> None:
    """After a wait, and two ticks ask for the same run."""
    failed = _failed(world)
    requests, words = tick(world)
    assert requests == [] and "1 time: next at" in words
    later(16)
    (request,), _ = tick(world)
    assert request.run_config["ops"]["stream_small"]["config"]["source"] == OPTIONS["source"]
    assert request.asset_selection == [dg.AssetKey("stream_small")]
    assert request.tags[STREAM_TAG] == "stream_small"
    (again,), _ = tick(world)
    assert request.run_key == again.run_key == f"after-{failed.run_id}"


def test_a_stream_that_runs_is_never_started_twice(world: World, later: Callable[[float], None]) -> None:
    """By its lease, also if it was started by hand; the tick says how it does."""
    _failed(world)
    later(16)
    lease = acquire_stream(world.storage, "raw_sales", "landing")
    last = StreamBatch(at=NOON, batch=1, events=412, seconds=1)
    lease.beat(state="live", last=last, delays={"raw_sales": Delays(1.8, 2)})
    requests, words = tick(world)
    assert requests == []
    assert words.startswith("stream_small is on: live: 412 events/s, in raw_sales after p50 1.8 s")
    lease.release()
    assert len(tick(world)[0]) == 1


def test_a_run_that_is_queued_is_waited_for(world: World, later: Callable[[float], None]) -> None:
    """It has no lease yet. A run of other assets is no stream."""
    _failed(world)
    later(16)
    world.instance.add_run(_queued("raw_sales"))
    assert len(tick(world)[0]) == 1
    of_stream = world.instance.add_run(_queued("stream_small"))
    requests, words = tick(world)
    assert requests == [] and words == f"stream_small is on: the run {of_stream.run_id[:8]} is queued."


def _queued(asset: str) -> dg.DagsterRun:
    return dg.DagsterRun(
        job_name="__ASSET_JOB",
        status=dg.DagsterRunStatus.QUEUED,
        asset_selection={dg.AssetKey(asset)},
        remote_job_origin=RemoteJobOrigin(_REPOSITORY, "job"),
    )


@pytest.mark.parametrize("second_start", [False, True])
def test_a_stream_that_a_person_has_stopped_stays_off(
    world: World, later: Callable[[float], None], second_start: bool
) -> None:
    """Also beside a run that was made later, and had failed before: what counts is what ended last."""
    stream = _started(world)
    if second_start:
        _failed(world)
    world.instance.report_run_canceled(stream)
    later(16)
    requests, words = tick(world)
    assert requests == [] and "stream_small is off: it was stopped at" in words


# ------------------------------------------------------------------ its process

_INTERRUPTIBLE = """
import pathlib, sys, time
out = pathlib.Path(sys.argv[1])
try:
    out.write_text("started")
    time.sleep(60)
except KeyboardInterrupt:
    out.write_text("interrupted")
"""


def python(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def _says(file: Path, begin: str) -> bool:
    return file.exists() and file.read_text().startswith(begin)


def test_one_that_fails_has_last_words() -> None:
    """The last lines of its errors; all that it writes is passed on."""
    lines: list[str] = []
    script = "import sys; print('hello'); sys.exit('\\n'.join(str(n) for n in range(100)))"
    child = StreamChild.start(python(script), {}, lines.append)
    assert child.wait(20) == 1
    child.stop()
    assert "hello\n" in lines and len(lines) == 101
    with pytest.raises(StreamFailed) as failed:
        child.require_success("raw_sales")
    assert str(failed.value).startswith("The stream of raw_sales ended with exit code 1.\n80\n81\n")
    assert "materialize this asset again" in str(failed.value)


def test_one_that_was_killed_says_so() -> None:
    child = StreamChild.start(python("import time; time.sleep(60)"), {}, lambda line: None)
    child.process.send_signal(signal.SIGKILL)
    assert child.wait(20) == -signal.SIGKILL
    child.stop()
    with pytest.raises(StreamFailed, match=r"was killed by signal 9.\nIt wrote no error."):
        child.require_success("raw_sales")


def test_it_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    """Otherwise a stream would go on that Dagster knows nothing of, and hold the table."""
    out = tmp_path / "out"
    run = f"""
import time
from backfill_assets.defs.streams import StreamChild
StreamChild.start({python(_INTERRUPTIBLE, out)!r}, {{}}, print)
time.sleep(60)
"""
    starter = subprocess.Popen(python(run))
    wait_until(lambda: _says(out, "started"), 60)
    starter.kill()
    starter.wait()
    wait_until(lambda: _says(out, "interrupted"))
