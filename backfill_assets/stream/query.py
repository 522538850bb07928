"""Spark's streaming queries: what they read, how much at once, from where; and what their checkpoint has planned.

The checkpoint is a cache. Spark writes the plan of a batch before the batch runs. The files are read as they are in
Spark 4.2: a line with the version of the format, then JSON.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.document import Series
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream.sources import KafkaTopic, Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_CLAIMS = "owner"
"""The folder of the claims, of which the newest says whose the checkpoint is."""
_SPARK = "spark"


class CheckpointOwner(AuditRecord):
    """Whose a checkpoint is."""

    table: str
    source: str
    lakehouse: str


@dataclass(frozen=True)
class Checkpoint:
    """The folder of one stream: whose it is, and the checkpoint of the query that runs."""

    folder: Path

    @property
    def spark(self) -> Path:
        """Where Spark keeps the progress of the query."""
        return self.folder / _SPARK

    def renew(self, table: str, source: str, lakehouse: str) -> None:
        """Empty it for a query that starts where raw ends. Raises :class:`InvalidRequest` if it is another stream's.

        Lakehouses may share a folder of this machine. Of two streams that start at once, exactly one has it.
        """
        ours = CheckpointOwner(table=table, source=source, lakehouse=lakehouse)
        mend = f"Remove the folder {self.folder}: {source} is read from where {table} ends."
        claims = Series(Storage(str(self.folder)), _CLAIMS, CheckpointOwner, mend)
        while (newest := claims.newest()) is None:
            self._require_free()
            claims.claim(ours, None)
        if (owner := claims.value(newest)) != ours:
            raise self._of_another(owner, ours)
        shutil.rmtree(self.spark, ignore_errors=True)

    def _require_free(self) -> None:
        names = [each.name for each in self.folder.iterdir()] if self.folder.is_dir() else []
        if self.folder.is_file() or any(name != _CLAIMS for name in names):
            raise InvalidRequest(
                f"The checkpoint folder {self.folder} is not a stream's.", hint="Move what is in it to another folder."
            )

    def _of_another(self, owner: CheckpointOwner, ours: CheckpointOwner) -> InvalidRequest:
        where, remove = "", "Remove it"
        if owner.lakehouse != ours.lakehouse:
            where = f" of the lakehouse {owner.lakehouse}"
            remove = f"If {owner.lakehouse} was moved to {ours.lakehouse}, remove it"
        return InvalidRequest(
            f"The checkpoint folder {self.folder} is of {owner.source} into {owner.table}{where}.",
            hint=f"{remove}: {ours.source} is read from where {ours.table} ends.",
        )

    def topic_offsets(self, batch: int, topic: str) -> Offsets:
        """By partition, the offset after the last event of ``batch``."""
        ends: dict[str, int] = self._source_offset(batch)[topic]
        return {int(partition): end for partition, end in ends.items()}

    def landed_paths(self, batch: int) -> list[Path]:
        """The files that Spark found for ``batch``, in its order."""
        last = int(self._source_offset(batch)["logOffset"])
        before = int(self._source_offset(batch - 1)["logOffset"]) if batch else -1
        log = self.spark / "sources" / "0"
        found: dict[str, int] = {}
        for number in range(before + 1, last + 1):
            name = log / str(number)
            # Every tenth file of Spark's log holds all before it too.
            lines = (name if name.exists() else name.with_name(f"{number}.compact")).read_text().splitlines()[1:]
            entries = (json.loads(line) for line in lines)
            found |= {entry["path"]: number for entry in entries if before < entry["batchId"] <= last}
        return [Path(unquote(urlsplit(path).path)) for path in found]

    def _source_offset(self, batch: int) -> dict[str, Any]:
        lines = (self.spark / "offsets" / str(batch)).read_text().splitlines()
        offset: dict[str, Any] = json.loads(lines[-1])
        return offset


def latest_offsets(text: str | None) -> Offsets:
    """The newest offsets of the one topic that Spark reports as JSON; empty for files and before the first report."""
    topics = json.loads(text) if text else None
    if not isinstance(topics, dict) or len(topics) != 1:
        return {}
    (partitions,) = topics.values()
    return {int(number): end for number, end in partitions.items()} if isinstance(partitions, dict) else {}


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
