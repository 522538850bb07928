"""The sensor ``streams`` on a real instance: after a crash a stream is back with the same options, and never twice."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from backfill_assets.defs.location import code_location
from backfill_assets.defs.streams import sensor as streams_sensor
from backfill_assets.defs.streams.assets import STREAM_TAG
from backfill_assets.stream.lease import acquire_stream
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import SMALL, STREAMED
from backfill_assets_tests.defs.streams.test_assets import SMALL_STREAM, World

pytestmark = pytest.mark.story

OPTIONS = {"source": "kafka://broker:9092/sales"}
_REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("small"), "__repository__")


@pytest.fixture
def world(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> World:
    return World(tmp_path, dagster_instance)


def tick(world: World) -> tuple[list[dg.RunRequest], str]:
    resources = fake_resources(FakeBuilder(), world.home)
    repository = code_location([STREAMED], resources).get_repository_def()
    sensor = streams_sensor.stream_sensor([SMALL_STREAM])
    with dg.build_sensor_context(instance=world.instance, repository_def=repository, resources=resources) as context:
        data = sensor.evaluate_tick(context)
    return list(data.run_requests or []), str(data.skip_message)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The daemon's next look is so much later."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + timedelta(seconds=seconds)

    monkeypatch.setattr(streams_sensor, "datetime", Clock)


def test_nothing_is_started_by_itself(world: World) -> None:
    """It is off from the start, and a stream that no person has started stays off."""
    location = code_location([STREAMED], fake_resources(FakeBuilder()))
    assert location.resolve_sensor_def("streams").default_status is dg.DefaultSensorStatus.RUNNING
    assert tick(world) == ([], "stream_small was never started: materialize it once.")


def test_a_location_without_streams_has_no_such_sensor() -> None:
    names = {sensor.name for sensor in code_location([SMALL], fake_resources(FakeBuilder())).sensors or ()}
    assert "streams" not in names


def test_a_stream_that_failed_is_started_again_with_the_same_options(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a wait, and two ticks ask for the same run."""
    failed = world.run("fails", **OPTIONS)
    requests, words = tick(world)
    assert requests == [] and "1 time: next at" in words
    later(monkeypatch, 16)
    (request,), _ = tick(world)
    assert request.run_config["ops"]["stream_small"]["config"]["source"] == OPTIONS["source"]
    assert request.asset_selection == [dg.AssetKey("stream_small")]
    assert request.tags[STREAM_TAG] == "stream_small"
    (again,), _ = tick(world)
    assert request.run_key == again.run_key == f"after-{failed.run_id}"


def test_a_stream_that_runs_is_never_started_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its lease, also if it was started by hand; the tick says how it does."""
    world.run("fails", **OPTIONS)
    later(monkeypatch, 16)
    lease = acquire_stream(world.storage, "raw_sales", "landing", lambda: datetime.now(UTC) + timedelta(seconds=16))
    lease.beat(state="live", events_per_second=412.0, delay_p50_ms=1800)
    requests, words = tick(world)
    assert requests == []
    assert words.startswith("stream_small is on: live: 412 events/s, in raw_sales after p50 1.8 s")
    lease.release()
    assert len(tick(world)[0]) == 1


def test_a_run_that_is_queued_is_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no lease yet. A run of other assets is no stream."""
    world.run("fails", **OPTIONS)
    later(monkeypatch, 16)
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


def _started(world: World) -> dg.DagsterRun:
    """A run of the stream that has begun."""
    tags = {STREAM_TAG: "stream_small"}
    return world.instance.add_run(dg.DagsterRun(job_name="__ASSET_JOB", status=dg.DagsterRunStatus.STARTED, tags=tags))


def test_a_stream_that_a_person_has_stopped_stays_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("fails", **OPTIONS)
    stream = _started(world)
    world.instance.report_run_canceled(stream)
    later(monkeypatch, 16)
    requests, words = tick(world)
    assert requests == [] and "stream_small is off: it was stopped at" in words


def test_a_second_start_that_failed_beside_it_does_not_bring_a_stopped_stream_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run was made later, and had ended before: what counts is what ended last."""
    stream = _started(world)
    world.run("fails", **OPTIONS)
    world.instance.report_run_canceled(stream)
    later(monkeypatch, 16)
    requests, words = tick(world)
    assert requests == [] and "stream_small is off: it was stopped at" in words


def test_a_second_start_that_was_cancelled_beside_it_does_not_keep_a_failed_stream_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, second = _started(world), _started(world)
    world.instance.report_run_canceled(second)
    world.instance.report_run_failed(stream)
    later(monkeypatch, 3600)
    (request,), _ = tick(world)
    assert request.run_key == f"after-{stream.run_id}"


def test_a_stream_that_has_read_what_there_is_stays_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run(available_now=True)
    later(monkeypatch, 3600)
    requests, words = tick(world)
    assert requests == [] and "it was finished at" in words
