"""The asset of a stream: its run is the stream, seen with its delay, rate and position, and stopped with it."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import os
import re
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.defs.streams.assets import STREAM_TAG, StreamedDataset, StreamOptions, stream_asset
from backfill_assets.errors import AnotherStreamRuns
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream.lease import acquire_stream, read_stream
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_dataset import STREAMED
from backfill_assets_tests.defs.streams.test_child import wait_until

pytestmark = pytest.mark.story

SMALL_STREAM = StreamedDataset(STREAMED)
OFTEN = {"log_every_seconds": 0.1, "report_every_seconds": 0.1}


class World:
    """A lakehouse, an instance, and the asset over a stream that writes a status and has no Spark."""

    def __init__(self, home: Path, instance: dg.DagsterInstance) -> None:
        self.home, self.instance = home, instance
        self.storage = Storage(str(home / "lakehouse"))

    def asset(self, how: str = "live") -> dg.AssetsDefinition:
        fake = (sys.executable, "-m", "backfill_assets_tests.defs.streams.fake_stream", self.storage.root, how)
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

    def points(self) -> list[dg.AssetMaterialization]:
        """The materializations of the asset, oldest first."""
        filters = dg.AssetRecordsFilter(dg.AssetKey("stream_small"))
        records = self.instance.fetch_materializations(filters, limit=100, ascending=True).records
        return [each.asset_materialization for each in records if each.asset_materialization]


@pytest.fixture
def world(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> World:
    return World(tmp_path, dagster_instance)


def test_its_run_shows_delay_rate_and_positions_while_it_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers for the plots of its page, at intervals; Spark's address is no concern of the stream."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:1")
    result = world.run(available_now=True)
    assert result.success
    points = world.points()
    assert len(points) >= 3
    first, last = points[0].metadata, points[-1].metadata
    names = ("raw_sales_p50_seconds", "raw_sales_p99_seconds", "fact_daily_revenue_p50_seconds")
    assert tuple(last[name].value for name in names) == (1.2, 4.2, 7.1)
    assert last["fact_daily_revenue_p99_seconds"].value == 9.3
    assert (last["events_per_second"].value, last["events"].value, last["behind"].value) == (500.0, 800, 7)
    positions = last["positions"]
    assert isinstance(positions, dg.TableMetadataValue)
    (row,) = positions.records
    assert row.data == {"partition": "sales/0", "position": "800", "end": "807", "lag": "7"}
    assert (first["state"].value, last["state"].value) == ("live", "stopped")
    assert last["boundary"].value == "sales/0 at 100"
    lines = world.logged(result.run_id)
    late = "in raw_sales after p50 1.2 s, p99 4.2 s, in fact_daily_revenue after p50 7.1 s, p99 9.3 s"
    live = rf"live: 500 events/s, {late}, 7 behind, batch (\d) in 0.2 s; at sales/0 (\d)00"
    assert any(re.fullmatch(live, line) for line in lines)
    assert any(line.endswith("raw_sales --from landing --available-now") for line in lines)


def test_it_is_known_by_its_tag_and_names_itself_to_the_stream(world: World) -> None:
    result = world.run(available_now=True)
    run = world.instance.get_run_by_id(result.run_id)
    status = read_stream(world.storage, "raw_sales")
    assert run and run.tags[STREAM_TAG] == "stream_small"
    assert status and (status.holder.run, status.state) == (result.run_id, "stopped")


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
    lease = acquire_stream(world.storage, "raw_sales", "kafka://broker:9092/sales", lambda: datetime.now(UTC))
    result = world.run()
    failure = result.failure_data_for_node("stream_small")
    assert failure and failure.user_failure_data
    described = str(failure.user_failure_data.description)
    assert f"runs already: process {os.getpid()} on" in described and "from kafka://broker:9092/sales" in described
    assert not any(line.startswith("Starting -m") for line in world.logged(result.run_id))
    lease.beat()
    with pytest.raises(AnotherStreamRuns):
        acquire_stream(world.storage, "raw_sales", "landing", lambda: datetime.now(UTC))


def test_terminating_the_run_stops_the_stream_in_order(world: World) -> None:
    """It is interrupted, publishes what it has, and leaves no lease."""

    def terminate() -> None:
        wait_until(lambda: bool((status := read_stream(world.storage, "raw_sales")) and status.batch), 60)
        os.kill(os.getpid(), signal.SIGINT)

    person = threading.Thread(target=terminate)
    person.start()
    result = world.run()
    person.join()
    assert not result.success
    status = read_stream(world.storage, "raw_sales")
    assert status and status.state == "stopped" and status.batch


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
        "raw_sales --from kafka://b:9092/sales --from-beginning --since 2017-03-01 --rate 2000 "
        "--rate 06:00-22:00=500 --rate 22:00-23:00=1"
    )
