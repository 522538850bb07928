"""A topic into raw: each event once, positions with the rows, and a clear error for each bad input."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import functions as F

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable, SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.landing import rows_of_lines
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.rebuild.raw_change import RawWriter
from backfill_assets.state.history import history
from backfill_assets.state.view import View
from backfill_assets.stream import events as stream_events
from backfill_assets.stream import live
from backfill_assets.stream import topic as topic_module
from backfill_assets.stream.batches import Checkpoint
from backfill_assets.stream.events import event_lines
from backfill_assets.stream.lease import StreamLease, acquire_stream, read_stream
from backfill_assets.stream.live import Trigger
from backfill_assets.stream.run import run_stream
from backfill_assets.stream.sources import KafkaTopic
from backfill_assets.stream.throttle import ReadLimit
from backfill_assets.stream.topic import StartRequest, TopicReading
from backfill_assets_tests.stream.small_stream import DAY, RUN, DiedInABatch, SmallStream, Topic, sale, sales

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from backfill_assets.lakehouse.records import InputRead
    from backfill_assets.lakehouse.timelines import Timeline
    from backfill_assets.model.declaration import Source
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


def test_tools_that_show_lag_see_how_far_raw_has_read(stream: SmallStream, topic: Topic, kafka_broker: Broker) -> None:
    """By the offsets of a consumer group, which is a mirror: if others own the group, that is told once."""
    topic.send(sales(range(10)))
    stream.run()
    assert kafka_broker.read_by("backfill-raw_sales", topic.name) == {0: 5, 1: 5}
    group = f"theirs-{topic.name}"
    with kafka_broker.member_of(group, topic.name):
        topic.send(sales(range(10, 12)), partition=0)
        stream.run(properties={"group.id": group})
    (told,) = [each for each in stream.messages if each.startswith("Warning: ")]
    assert f"the consumer group '{group}'" in told and "raw has its own positions" in told
    assert stream.read() == topic.sent
    stream.run(properties={"group.id": group})
    assert kafka_broker.read_by(group, topic.name) == {0: 7, 1: 5}


def test_a_batch_leaves_one_file_on_each_of_its_days(stream: SmallStream, topic: Topic) -> None:
    """Whichever of the partitions its events came by; a large batch is several tasks, with files of their own."""
    topic.send([sale(number, DAY - timedelta(days=number % 3)) for number in range(12)])
    stream.run()
    main = MainTable.open(stream.storage, "raw_sales")
    assert main is not None
    assert {day: len(files) for day, files in main.state().by_day().items()} == {
        (DAY - timedelta(days=back)).date(): 1 for back in range(3)
    }


def test_rows_that_are_lost_on_their_way_are_not_published(
    stream: SmallStream, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark counts the events before rows are made of them."""
    topic.send([sale(1), sale(2, DAY - timedelta(days=1)), sale(3, DAY - timedelta(days=1))])
    topic.send([None], key=key_of(1))
    written = rows_of_lines.write_rows_of_lines
    monkeypatch.setattr(topic_module, "write_rows_of_lines", lambda *asked: written(*asked)[1:])
    with pytest.raises(LakehouseUnusable, match="4 events read, 1 without a value, and 1 row written"):
        stream.run()
    assert stream.raw() == []


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


def test_a_time_in_another_unit_does_not_stop_the_stream(
    stream: SmallStream, kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka takes any number for milliseconds. Of microseconds it makes the year 58136. On nanoseconds Spark fails
    before the event can be looked at: the part that it is in is read by the client, and is not looked for by halves."""
    monkeypatch.setattr(stream_events.EachEvent, "_fails", die)
    name = kafka_broker.new_topic(1, message_timestamp_after_max_ms=str(2**63 - 1))
    topic = Topic(kafka_broker, name, 1)
    stream.source = topic.source
    for first, units in ((0, 1_000_000), (6, 1_000_000_000)):
        topic.send(sales(range(first, first + 2)), time=int(DAY.timestamp() * 1_000))
        topic.send([sale(first + 2), "{"], time=int(DAY.timestamp() * units))
        topic.send(sales(range(first + 4, first + 6)), time=int(DAY.timestamp() * 1_000))
        stream.run()
        assert stream.read() == topic.sent
        assert {row["arrival_day"] for row in stream.raw()} == {row["day"] for row in stream.raw()} == {DAY.date()}
        assert stream.reports[-1].figures["events"] == 6


def test_a_record_of_no_possible_time_decides_nothing_over_its_event(stream: SmallStream, kafka_broker: Broker) -> None:
    """1970 of a producer without a clock, or a year ahead: the event says its day; one without a day is of today."""
    topic = Topic(kafka_broker, kafka_broker.new_topic(1, message_timestamp_after_max_ms=str(2**63 - 1)), 1)
    stream.source = topic.source
    for time in (1, int((datetime.now(UTC) + timedelta(days=365)).timestamp() * 1_000)):
        topic.send([sale(1), sale(2, transaction_timestamp="soon")], time=time)
    stream.run()
    today, found = (
        clock.today(),
        Counter((row["day"], row["day_is_arrival"]) for row in stream.raw()),
    )
    assert found == {(DAY.date(), False): 2, (today, True): 2}
    assert all(row["arrival_day"] == row["day"] for row in stream.raw())
    assert "after p50" not in stream.reports[-1].text, "it is not known how late they are"


def test_events_whose_stored_bytes_are_damaged_are_named_and_do_not_stop_the_stream(
    stream: SmallStream, kafka_broker: Broker
) -> None:
    """The broker sends what its disk has, and the reader finds that the checksum is another one."""
    topic = Topic(kafka_broker, kafka_broker.new_topic(1), 1)
    topic.send(sales(range(3)))
    topic.send([sale(3), sale(4)])
    topic.send(sales(range(5, 8)))
    damaged = kafka_broker.damage(topic.name, 3)
    stream.source = topic.source
    stream.run()
    assert stream.read() == topic.sent
    without_key = [row for row in stream.raw() if not row["basket_id"]]
    unread = {row["source_line"]: row["rescued"] or row["unparsed_line"] for row in without_key}
    assert 3 in unread and len(unread) == damaged
    assert all("unreadable" in reason and "Exception" in reason for reason in unread.values())
    topic.send(sales(range(8, 10)))
    stream.run()
    assert stream.read() == topic.sent and stream.positions().next_offsets == {0: 10}


@pytest.mark.parametrize("place", ["Spark", "a worker"])
def test_an_event_of_which_no_row_can_be_made_stands_alone_with_its_reason(
    stream: SmallStream, topic: Topic, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The batch is halved until it is found; all others are in raw as they are."""
    topic.send(sales(range(6)))
    topic.send([sale(6, basket_id="666")], partition=1)
    topic.send(sales(range(7, 11)))
    monkeypatch.setattr(stream_events, "_READ_HERE", 4)
    if place == "Spark":
        for module in (stream_events, topic_module):
            monkeypatch.setattr(module, "event_lines", stumbling_lines)
    else:
        monkeypatch.setattr(rows_of_lines, "_sql", stumbling_query)
    stream.run()
    assert stream.read() == topic.sent
    set_apart = [row for row in stream.raw() if row["rescued"]]
    assert [(row["source_file"], row["source_line"]) for row in set_apart] == [(f"kafka:{topic.name}/1", 3)]
    reason = {"Spark": "CAST_INVALID_INPUT", "a worker": "Invalid Input Error"}[place]
    assert json.loads(set_apart[0]["rescued"]) == {"unreadable": reason}


def stumbling_lines(source: Source, topic: str, events: DataFrame, today: date) -> DataFrame:
    """No line can be made of an event with the number of the beast."""
    is_the_one = F.contains(F.col("value").cast("string"), F.lit("666"))
    checked = F.when(is_the_one, F.lit("beast").cast("int").cast("string").cast("binary")).otherwise(F.col("value"))
    return event_lines(source, topic, events.withColumn("value", checked), today)


def stumbling_query(*asked: Any, of: Callable[..., str] = rows_of_lines._sql) -> str:
    """No row can be made of it: a worker finds that out."""
    return f"SELECT * FROM ({of(*asked)}) WHERE CASE basket_id WHEN '666' THEN error('beast') ELSE true END"  # noqa: S608


def test_events_of_a_transaction_that_was_aborted_are_not_read(
    stream: SmallStream, topic: Topic, kafka_broker: Broker
) -> None:
    """Counts are of events: an aborted transaction and the markers of both leave offsets without any."""
    for number, commits in enumerate((False, True)):
        options = {**kafka_broker.client_options(), "transactional.id": f"cash-desk-{number}"}
        producer = Producer(options)
        producer.init_transactions()
        producer.begin_transaction()
        for sold in range(5):
            producer.produce(topic.name, sale(10 * number + sold), partition=0)
        assert producer.flush(30) == 0
        producer.commit_transaction() if commits else producer.abort_transaction()
    stream.run()
    assert sorted(row["basket_id"] for row in stream.raw()) == [str(10 + sold) for sold in range(5)]
    assert stream.positions().next_offsets == {0: 12}
    assert [each.figures["events"] for each in stream.reports if each.kind == "batch"] == [5]
    producer.begin_transaction()
    producer.produce(topic.name, sale(20), partition=0)
    assert producer.flush(30) == 0
    producer.abort_transaction()
    stream.run()
    assert len(stream.raw()) == 5
    assert stream.positions().next_offsets == {0: 14}, "a batch of markers alone moves the position"


def test_a_person_may_read_what_is_not_committed(stream: SmallStream, topic: Topic, kafka_broker: Broker) -> None:
    producer = Producer({**kafka_broker.client_options(), "transactional.id": "cash-desk-open"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic.name, sale(1), partition=0)
    assert producer.flush(30) == 0
    stream.run(properties={"isolation.level": "read_uncommitted"})
    assert len(stream.raw()) == 1
    producer.abort_transaction()


def key_of(number: int) -> str:
    return json.dumps({"product_id": "1", "basket_id": str(number)})


def test_a_null_value_deletes_what_came_before_of_its_key_again_after_a_rollback(
    stream: SmallStream, topic: Topic
) -> None:
    """In raw it is no line: what it deletes is cancelled, on any day; what comes of the key later stands."""
    long_ago = sale(1, DAY - timedelta(days=90))
    topic.send([long_ago, sale(2), sale(3)], partition=0)
    stream.run()
    topic.send([sale(4), sale(3, sales_value="9.00")], partition=0)
    for number in (1, 3, 4, 99):
        topic.send([None], partition=0, key=key_of(number))
    topic.send([sale(4, sales_value="7.00")], partition=0)
    stream.run()
    rows = View.newest(stream.storage).rows("raw_sales")
    assert rows is not None
    kinds = Counter((row["record_kind"], row["basket_id"]) for row in rows.to_pylist())
    assert {basket: n for (kind, basket), n in kinds.items() if kind == "deletion"} == {"1": 1, "3": 2, "4": 1}
    assert {row["basket_id"]: row["sales_value"] for row in standing(stream)} == {"2": "2.25", "4": "7.00"}
    assert stream.positions().next_offsets == {0: 10}
    assert stream.reports[-1].figures["events"] == 7
    state = stream.lake.states(CATALOG.step("raw_sales"))[TableDay("raw_sales", DAY.date() - timedelta(days=90))]
    assert state.content is not None and state.content.metrics["deleted"] == 1
    deleted = stream.reports[-1].figures["publication"]
    roll_back(stream.lake.publisher, deleted, id="undo", steps=CATALOG.steps)
    assert sorted(row["basket_id"] for row in standing(stream)) == ["1", "2", "3"]
    stream.run()
    assert {row["basket_id"]: row["sales_value"] for row in standing(stream)} == {"2": "2.25", "4": "7.00"}


def standing(stream: SmallStream) -> list[dict[str, Any]]:
    """The rows of raw that no deletion has cancelled."""
    rows = View.newest(stream.storage).rows("raw_sales")
    everything = [] if rows is None else rows.to_pylist()
    place = itemgetter("day", "source_file", "source_line", "content_hash")
    gone = {place(row) for row in everything if row["record_kind"] == "deletion"}
    return [row for row in everything if row["record_kind"] == "received" and place(row) not in gone]


def test_a_null_value_of_no_key_is_kept_to_be_looked_at(stream: SmallStream, topic: Topic) -> None:
    topic.send([sale(1)], partition=0)
    for key in (None, "4711", '{"basket_id": "1"}'):
        topic.send([None], partition=0, key=key)
    stream.run()
    assert stream.read() == topic.sent and len(standing(stream)) == 4


def test_a_refresh_that_deletes_the_same_rows_meanwhile_is_seen(
    stream: SmallStream, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are looked up before they are published; if their day changes between, they are looked up again."""
    topic.send([sale(1), sale(2)], partition=0)
    stream.run()
    topic.send([None], partition=0, key=key_of(1))
    other = SmallStream(stream.spark, stream.home, stream.source)
    stage_deletions = TopicReading._stage_deletions
    raced: list[bool] = []

    def race(self: TopicReading, events: DataFrame, timeline: Timeline) -> InputRead | None:
        found = stage_deletions(self, events, timeline)
        if not raced:
            raced.append(True)
            late = Topic.new(topic.broker, 1)
            late.send([sale(1, sales_value="5.00")])
            other.source = late.source
            monkeypatch.setattr("backfill_assets.stream.run.acquire_stream", unleased(stream))
            other.run()
        return found

    monkeypatch.setattr(TopicReading, "_stage_deletions", race)
    stream.run()
    assert raced and [row["basket_id"] for row in standing(stream)] == ["2"]


def unleased(stream: SmallStream) -> Callable[..., StreamLease]:
    """Leases of another table: two streams write one table at once, as with a lease that has ended in a pause."""

    def acquire(*_: object) -> StreamLease:
        return acquire_stream(stream.storage, "raw_other", "test")

    return acquire


def test_what_waits_is_shown_as_the_topic_is_now_also_of_a_partition_that_is_new(
    stream: SmallStream, topic: Topic, kafka_broker: Broker
) -> None:
    topic.send(sales(range(4)))
    stream.run()
    asked = StartRequest()
    reading = TopicReading(
        stream.lake, CATALOG.step("raw_sales"), RUN, print, topic=topic.source, properties={}, asked=asked
    )
    reading.open(100)
    topic.send(sales(range(4, 10)), partition=1)
    admin = AdminClient(kafka_broker.client_options())
    admin.create_partitions([NewPartitions(topic.name, 3)])[topic.name].result()
    topic.send([sale(11)], partition=2)
    reading.look()
    waiting = {each.partition: (each.position, each.end, each.lag) for each in reading.positions}
    assert waiting == {f"{topic.name}/{n}": each for n, each in enumerate([(2, 2, 0), (2, 8, 6), (0, 1, 1)])}
    assert kafka_broker.read_by(reading.group, topic.name) == {0: 2, 1: 2}, "what raw has read, not what there is"
    stream.run()
    assert stream.read() == topic.sent


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
    stream.source = KafkaTopic("127.0.0.1:1", "sales")
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
    with pytest.raises(SourceUnreadable, match=r"deleted 3 offsets.*partition 0, offsets 2 to 4") as failure:
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

    def publish_and_delete(self: live.LiveStream, rows: DataFrame, checkpoint: Checkpoint, number: int) -> None:
        publish(self, rows, checkpoint, number)
        if number == 0 and how == "events":
            topic.send(sales(range(4, 12)))
            kafka_broker.delete_records(topic.name, {0: 5})
        elif number == 0:
            kafka_broker.delete_topic(topic.name)
            kafka_broker.create_topic(topic.name, 2)

    monkeypatch.setattr(live.LiveStream, "_publish", publish_and_delete)
    request = replace(stream.request(), trigger=Trigger(0.5))
    words = {"events": r"deleted 3 offsets.*partition 0, offsets 2 to 4", "topic": "is another topic than the one"}
    with pytest.raises(SourceUnreadable, match=words[how]):
        run_stream(stream.lake, request, RUN, stream.messages.append, stream.reports.append)


def test_a_topic_that_was_created_again_is_refused_until_it_is_asked_for(
    stream: SmallStream, topic: Topic, kafka_broker: Broker
) -> None:
    """Also once it has grown past where raw ends: its first events would be left out. Then all of both are there."""
    topic.send(sales(range(8)))
    stream.run()
    kafka_broker.delete_topic(topic.name)
    kafka_broker.create_topic(topic.name, 2)
    second = Topic(kafka_broker, topic.name, 2)
    for more in (4, 16):
        second.send(sales(range(100, 100 + more)))
        with pytest.raises(
            SourceUnreadable, match=f"{topic.source} is another topic than the one that raw has read"
        ) as why:
            stream.run(start={"from_beginning": False})
        assert "--new-topic" in str(why.value)
        assert stream.read() == topic.sent
    for _ in range(2):
        stream.run(start={"from_beginning": False, "new_topic": True})
    of_second = {(f"kafka:{topic.name}@2/{partition}", offset): 1 for partition in (0, 1) for offset in range(10)}
    assert stream.read() == topic.sent + Counter(of_second)
    assert stream.positions().next_offsets == {0: 10, 1: 10}


def test_a_topic_that_is_created_again_while_a_batch_is_read_brings_nothing(
    stream: SmallStream, topic: Topic, kafka_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ids are asked for after the rows were read, and before they are published."""
    topic.send(sales(range(8)))
    ask = TopicReading.require_same_topic

    def created_again(self: TopicReading) -> None:
        kafka_broker.delete_topic(topic.name)
        kafka_broker.create_topic(topic.name, 2)
        ask(self)

    monkeypatch.setattr(TopicReading, "require_same_topic", created_again)
    with pytest.raises(SourceUnreadable, match="is another topic than the one that raw has read"):
        stream.run()
    assert stream.raw() == []


def test_another_topic_into_the_table_is_read_beside_the_first(
    stream: SmallStream, topic: Topic, kafka_broker: Broker
) -> None:
    topic.send(sales(range(2)))
    stream.run()
    other = Topic.new(kafka_broker)
    other.send(sales(range(2)))
    stream.source = other.source
    stream.run()
    assert stream.read() == topic.sent + other.sent


def test_a_stream_whose_checkpoint_is_deleted_reads_on(
    stream: SmallStream, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whom cleans a temporary folder: it is a cache, and whether Spark itself misses it does not matter."""
    topic.send(sales(range(12)))
    publish, deleted = live.LiveStream._publish, list[Path]()

    def publish_and_delete(self: live.LiveStream, rows: DataFrame, checkpoint: Checkpoint, number: int) -> None:
        publish(self, rows, checkpoint, number)
        if not deleted:
            deleted.append(checkpoint.folder)
            shutil.rmtree(checkpoint.folder)

    monkeypatch.setattr(live.LiveStream, "_publish", publish_and_delete)
    stream.run(limit=ReadLimit.parse((), 4))
    assert deleted and stream.read() == topic.sent


STEPS: dict[str, str | CrashPoint] = {
    "the batch is planned": "topic_offsets",
    "rows are staged": "measured",
    "tables are read": CrashPoint.TABLES_READ,
    "prepared": CrashPoint.PREPARED,
    "committed": CrashPoint.TABLE_COMMITTED,
    "closing": CrashPoint.CLOSING,
    "closed": CrashPoint.CLOSED,
    "published, and not in the checkpoint": "brought",
}
"""What has happened when the stream dies: a point of the protocol, or a method that is not reached any more."""
OWNERS = {"topic_offsets": Checkpoint, "measured": RawWriter, "brought": TopicReading}


def test_a_stream_that_dies_at_any_step_loses_and_repeats_nothing(stream: SmallStream, topic: Topic) -> None:
    topic.send(sales(range(4)))
    stream.run()
    for number, step in enumerate(STEPS.values(), 1):
        topic.send(sales(range(10 * number, 10 * number + 4)))
        with pytest.MonkeyPatch.context() as patch:
            if isinstance(step, CrashPoint):
                stream.crash_at = step
            else:
                patch.setattr(OWNERS[step], step, die)
            with pytest.raises(DiedInABatch):
                stream.run()
    stream.run()
    assert stream.read() == topic.sent
    assert sum(stream.positions().next_offsets.values()) == sum(topic.sent.values())


def test_events_that_a_killed_stream_had_staged_are_counted(stream: SmallStream, topic: Topic) -> None:
    topic.send(sales(range(2)))
    stream.run()
    topic.send(sales(range(2, 6)))
    stream.crash_at = CrashPoint.TABLES_READ
    with pytest.raises(DiedInABatch):
        stream.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RawWriter, "staged", die)
        stream.run()
    assert [each.figures["events"] for each in stream.reports if each.kind == "batch"] == [2, 4]


def die(*about: object) -> None:
    raise DiedInABatch
