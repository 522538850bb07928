"""Starts Spark's streaming queries: what they read, how much at once, and from where."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_assets.stream.checkpoint import Checkpoint
from backfill_assets.stream.offsets import Offsets
from backfill_assets.stream.sources import KafkaTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

OnBatch = Callable[["DataFrame", int], None]
STREAM_SETTINGS = {
    # A micro-batch is small, and Spark has no adaptive execution in streams: it would warn of it at each start.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.sql.streaming.metricsEnabled": "false",
}
"""Settings of Spark for the process of a stream."""


@dataclass(frozen=True)
class Trigger:
    """When micro-batches run: one every so many seconds, or all that is there now and then the end."""

    every_seconds: float = 1.0
    available_now: bool = False

    def of(self, writer: DataStreamWriter) -> DataStreamWriter:
        if self.available_now:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{self.every_seconds:g} seconds")


def read_topic(
    spark: SparkSession, topic: KafkaTopic, start: Offsets, properties: Mapping[str, str], most_events: int
) -> DataFrame:
    """The events of ``topic`` from ``start`` on; an event that the broker has deleted meanwhile ends the query.

    ``properties`` say whether those of a transaction that is not committed count.
    """
    options = {
        **_of_topic(topic, properties),
        "subscribe": topic.topic,
        "startingOffsets": _json_offsets(topic, start),
        "maxOffsetsPerTrigger": str(most_events),
    }
    return spark.readStream.format("kafka").options(**options).load()


def read_range(
    spark: SparkSession, topic: KafkaTopic, partition: int, first: int, end: int, properties: Mapping[str, str]
) -> DataFrame:
    """The events of one partition from the offset ``first`` up to, and without, ``end``."""
    options = {
        **_of_topic(topic, properties),
        "assign": json.dumps({topic.topic: [partition]}),
        "startingOffsets": _json_offsets(topic, {partition: first}),
        "endingOffsets": _json_offsets(topic, {partition: end}),
    }
    return spark.read.format("kafka").options(**options).load()


def _of_topic(topic: KafkaTopic, properties: Mapping[str, str]) -> dict[str, str]:
    kafka = {f"kafka.{name}": value for name, value in properties.items()}
    return {**kafka, "kafka.bootstrap.servers": topic.servers, "failOnDataLoss": "true"}


def _json_offsets(topic: KafkaTopic, offsets: Offsets) -> str:
    return json.dumps({topic.topic: {str(number): offset for number, offset in offsets.items()}})


def read_landing(spark: SparkSession, pattern: str, files_in_flight: int) -> DataFrame:
    """The files that match ``pattern``, as Spark finds them; their rows are read by name later."""
    options: dict[str, Any] = {
        "maxFilesPerTrigger": files_in_flight,
        # By itself Spark leaves out files that are a week older than the newest.
        "maxFileAge": "36500d",
    }
    return spark.readStream.format("text").schema("value string").options(**options).load(pattern)


def start_query(rows: DataFrame, checkpoint: Checkpoint, trigger: Trigger, on_batch: OnBatch) -> StreamingQuery:
    """Start reading; ``on_batch`` gets each micro-batch with its number, in a thread of its own."""
    writer = rows.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(checkpoint.spark))
    return trigger.of(writer).start()
