"""A topic into raw: each event once, positions with the rows, and a clear error for each bad input."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.errors import AnotherStreamRuns, InvalidRequest, SourceUnreadable
from backfill_assets.publication.crash_points import CrashPoint
from backfill_assets.published.history import history
from backfill_assets.rebuild.append import AppendBuild
from backfill_assets.stream import live
from backfill_assets.stream.batches import TopicBatches
from backfill_assets.stream.checkpoint import Checkpoint
from backfill_assets.stream.lease import read_stream
from backfill_assets.stream.query import Trigger
from backfill_assets.stream.run import run_stream
from backfill_assets_tests.stream.small_stream import DAY, RUN, Crashed, SmallStream, Topic, sale, sales

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backfill_assets_tests.stream.broker import Broker

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(kafka_broker: Broker) -> Topic:
    return Topic.new(kafka_broker)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, topic: Topic) -> SmallStream:
    return SmallStream(spark, tmp_path, topic.source)


def test_each_event_is_in_raw_once_with_its_position(stream: SmallStream, topic: Topic) -> None:
    topic.send(sales(range(10)))
    stream.run()
    assert stream.read() == topic.sent
    assert stream.positions().next_offsets == {0: 5, 1: 5}
    stream.run()
    topic.send(sales(range(10, 15)), partition=0)
    stream.run()
    assert stream.read() == topic.sent
    assert stream.positions().next_offsets == {0: 10, 1: 5}


def test_the_checkpoint_is_a_cache(stream: SmallStream, topic: Topic) -> None:
    topic.send(sales(range(6)))
    stream.run()
    shutil.rmtree(stream.home / "checkpoint")
    topic.send(sales(range(6, 8)))
    stream.run()
    assert stream.read() == topic.sent


def test_what_cannot_be_read_is_kept_with_topic_partition_and_offset(stream: SmallStream, topic: Topic) -> None:
    """No event stops the stream: one that is no JSON, nothing at all, no UTF-8, 10 MB, or a field more."""
    large = sale(1, product_id="x" * 10_000_000)
    topic.send(["{", None, b"\xff\xfe", "", large, sale(2, loyalty="gold")], partition=1)
    stream.run()
    rows = {row["source_line"]: row for row in stream.raw()}
    assert sorted(rows) == [0, 1, 2, 3, 4, 5] and {row["source_file"] for row in rows.values()} == {
        f"kafka:{topic.name}/1"
    }
    assert all("withheld" in rows[offset]["unparsed_line"] for offset in range(4))
    assert len(rows[4]["product_id"]) == 10_000_000 and rows[4]["unparsed_line"] is None
    assert rows[5]["rescued"] == '{"loyalty":"gold"}'


def test_a_time_in_microseconds_does_not_stop_the_stream(stream: SmallStream, kafka_broker: Broker) -> None:
    """Kafka takes any number for milliseconds. This one is an event of the year 58136 then."""
    name = kafka_broker.new_topic(1, message_timestamp_after_max_ms=str(2**63 - 1))
    topic = Topic(kafka_broker, name, 1)
    topic.send([sale(1), "{"], time=int(DAY.timestamp() * 1_000_000))
    topic.send([sale(2)], time=int(DAY.timestamp() * 1_000))
    stream.source = topic.source
    stream.run()
    assert stream.read() == topic.sent
    assert {row["arrival_day"] for row in stream.raw()} == {row["day"] for row in stream.raw()} == {DAY.date()}


def test_a_time_in_nanoseconds_is_named(stream: SmallStream, kafka_broker: Broker) -> None:
    """Spark fails on it before the event can be looked at."""
    name = kafka_broker.new_topic(1, message_timestamp_after_max_ms=str(2**63 - 1))
    topic = Topic(kafka_broker, name, 1)
    topic.send([sale(1)], time=int(DAY.timestamp() * 1_000_000_000))
    stream.source = topic.source
    with pytest.raises(SourceUnreadable, match="has a time that Spark cannot read"):
        stream.run()


def test_a_stream_begins_with_what_comes_unless_history_is_asked_for(stream: SmallStream, topic: Topic) -> None:
    """The moment is written down: what comes between two runs is not lost."""
    topic.send(sales(range(4)))
    stream.run(start={"from_beginning": False})
    topic.send(sales(range(4, 6)))
    stream.run(start={"from_beginning": False})
    assert {offset for _, offset in stream.read()} == {2} and len(stream.raw()) == 2
    assert stream.positions().boundary == {0: 2, 1: 2}


def test_history_ends_at_a_boundary_that_is_written_down(stream: SmallStream, topic: Topic) -> None:
    topic.send(sales(range(4)))
    stream.run()
    topic.send(sales(range(4, 6)))
    stream.run()
    assert stream.positions().boundary == {0: 2, 1: 2}
    (begun,) = [each for each in history(stream.storage) if "begins with its history" in each.reason]
    assert begun.rows == 0 and topic.name in begun.reason


def test_a_topic_that_is_not_there_is_named(stream: SmallStream, topic: Topic, kafka_broker: Broker) -> None:
    stream.source = topic.source.__class__(kafka_broker.address, f"{topic.name}x")
    with pytest.raises(
        SourceUnreadable, match=rf"(?s)has no topic '{topic.name}x'\. It has: .*Did you mean {topic.name}\?"
    ):
        stream.run()
    status = read_stream(stream.storage, "raw_sales")
    assert status is not None and status.state == "failed" and "has no topic" in status.error


def test_a_broker_that_is_away_is_named(stream: SmallStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr("backfill_assets.stream.broker.ANSWER_SECONDS", 1)
    stream.source = stream.source.__class__("127.0.0.1:1", "sales")  # type: ignore[call-arg]
    with pytest.raises(SourceUnreadable, match=r"No Kafka broker answers at 127\.0\.0\.1:1"):
        stream.run()


def test_a_broker_that_comes_back_is_read_on(
    stream: SmallStream, topic: Topic, kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backfill_assets.stream.broker.ANSWER_SECONDS", 1)
    topic.send(sales(range(4)))
    kafka_broker.kill()
    rest = live.LiveStream._rest

    def restart(self: live.LiveStream, seconds: float) -> None:
        kafka_broker.start()
        rest(self, 0)

    monkeypatch.setattr(live.LiveStream, "_rest", restart)
    stream.run()
    assert stream.read() == topic.sent
    assert [each.kind for each in stream.reports][:1] == ["waiting"]


def test_events_that_the_broker_has_deleted_are_named_and_left_out_when_accepted(
    stream: SmallStream, topic: Topic, kafka_broker: Broker
) -> None:
    topic.send(sales(range(4)))
    stream.run()
    topic.send(sales(range(4, 12)))
    kafka_broker.delete_records(topic.name, {0: 5})
    with pytest.raises(SourceUnreadable, match=r"deleted 3 events.*partition 0, offsets 2 to 4") as failure:
        stream.run()
    assert "--accept-gap" in str(failure.value)
    stream.run(start={"accept_gap": True})
    lost = {(f"kafka:{topic.name}/0", offset) for offset in (2, 3, 4)}
    assert set(stream.read()) == set(topic.sent) - lost
    assert any("gap accepted" in each.reason and "offsets 2 to 4" in each.reason for each in history(stream.storage))


@pytest.mark.parametrize("how", ["events", "topic"])
def test_what_is_deleted_while_the_stream_runs_is_named(
    stream: SmallStream, topic: Topic, kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """As at a start, and not by Spark's words about an option of its own."""
    topic.send(sales(range(4)))
    publish = live.LiveStream._publish

    def publish_and_delete(self: live.LiveStream, rows: DataFrame, number: int) -> None:
        publish(self, rows, number)
        if number == 0 and how == "events":
            topic.send(sales(range(4, 12)))
            kafka_broker.delete_records(topic.name, {0: 5})
        elif number == 0:
            kafka_broker.delete_topic(topic.name)
            kafka_broker.create_topic(topic.name, 2)

    monkeypatch.setattr(live.LiveStream, "_publish", publish_and_delete)
    request = replace(stream.request(), trigger=Trigger(0.5))
    words = {"events": r"deleted 3 events.*partition 0, offsets 2 to 4", "topic": "deleted and created again"}
    with pytest.raises(SourceUnreadable, match=words[how]):
        run_stream(stream.lake, request, RUN, stream.messages.append, stream.reports.append)


def test_a_topic_that_was_created_again_is_refused(stream: SmallStream, topic: Topic, kafka_broker: Broker) -> None:
    topic.send(sales(range(8)))
    stream.run()
    kafka_broker.delete_topic(topic.name)
    kafka_broker.create_topic(topic.name, 2)
    with pytest.raises(SourceUnreadable, match="deleted and created again"):
        stream.run()


def test_a_topic_that_was_created_again_with_fewer_partitions_is_refused(
    stream: SmallStream, topic: Topic, kafka_broker: Broker
) -> None:
    topic.send(sales(range(8)))
    stream.run()
    kafka_broker.delete_topic(topic.name)
    kafka_broker.create_topic(topic.name, 1)
    Topic(kafka_broker, topic.name, 1).send(sales(range(8, 18)))
    with pytest.raises(SourceUnreadable, match="deleted and created again"):
        stream.run()
    assert stream.read() == topic.sent


def test_a_checkpoint_of_another_topic_is_refused(stream: SmallStream, topic: Topic, kafka_broker: Broker) -> None:
    topic.send(sales(range(2)))
    stream.run()
    other = Topic.new(kafka_broker)
    other.send(sales(range(2)))
    stream.source = other.source
    with pytest.raises(InvalidRequest, match=f"checkpoint folder .* is of kafka://.*/{topic.name} into raw_sales"):
        stream.run()
    assert stream.read() == topic.sent


def test_a_second_stream_names_the_first_and_reads_nothing(
    stream: SmallStream, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.send(sales(range(4)))
    second = SmallStream(stream.spark, stream.home, topic.source)
    refused: list[AnotherStreamRuns] = []

    def start_another(self: live.LiveStream) -> None:
        with pytest.raises(AnotherStreamRuns) as failure:
            second.run()
        refused.append(failure.value)

    monkeypatch.setattr(live.LiveStream, "run", start_another)
    stream.run()
    assert "A stream of raw_sales runs already: process" in str(refused[0])
    assert stream.raw() == []


STEPS: dict[str, str | CrashPoint] = {
    "the batch is planned": "topic_offsets",
    "rows are staged": "measured",
    "tables are read": CrashPoint.TABLES_READ,
    "prepared": CrashPoint.PREPARED,
    "committed": CrashPoint.TABLE_COMMITTED,
    "closing": CrashPoint.CLOSING,
    "closed": CrashPoint.CLOSED,
    "published, and not in the checkpoint": "appended",
}
"""What has happened when the stream dies: a point of the protocol, or a method that is not reached any more."""
OWNERS = {"topic_offsets": Checkpoint, "measured": AppendBuild, "appended": TopicBatches}


@pytest.mark.parametrize("keep_checkpoint", [True, False])
def test_a_stream_that_dies_at_any_step_loses_and_repeats_nothing(
    stream: SmallStream, topic: Topic, *, keep_checkpoint: bool
) -> None:
    topic.send(sales(range(4)))
    stream.run()
    for number, step in enumerate(STEPS.values(), 1):
        topic.send(sales(range(10 * number, 10 * number + 4)))
        with pytest.MonkeyPatch.context() as patch:
            if isinstance(step, CrashPoint):
                stream.crash_at = step
            else:
                patch.setattr(OWNERS[step], step, die)
            with pytest.raises(Crashed):
                stream.run()
        if not keep_checkpoint:
            shutil.rmtree(stream.home / "checkpoint", ignore_errors=True)
    stream.run()
    assert stream.read() == topic.sent
    assert sum(stream.positions().next_offsets.values()) == sum(topic.sent.values())


def die(*about: object) -> None:
    raise Crashed
