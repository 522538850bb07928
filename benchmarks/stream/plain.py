"""Plain Structured Streaming: a topic into a Delta table by Spark's own sink, with its checkpoint and nothing else.

Run as ``python -m benchmarks.stream.plain SERVERS TOPIC TARGET EVENTS_IN_FLIGHT``. The session has the settings of
``backfill stream``, and the rows are those that it appends to raw: equal columns, from the same plan. It prints a line
of JSON for each micro-batch.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.settings import Settings
from backfill_assets.spark.session import driver_memory, profile, spark_session
from backfill_assets.stream.broker import Broker
from backfill_assets.stream.events import event_rows
from backfill_assets.stream.live import stream_settings
from backfill_assets.stream.sources import KafkaTopic

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 0.1
PARTITIONS = (0, 1)
"""Of the topic."""


def report_batches(query: StreamingQuery) -> None:
    """Print each batch as it ends, until the query has ended. Raises what ended it."""
    last = -1
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(_LOOK_SECONDS))  # type: ignore[arg-type]  # a float works
        newest = query.lastProgress
        if newest and newest.batchId > last:
            for progress in query.recentProgress:
                if progress.batchId > last and progress.numInputRows:
                    last = progress.batchId
                    print(json.dumps({"event": "batch", "batch": last, "events": progress.numInputRows}), flush=True)


def main() -> None:
    servers, topic, target, in_flight = sys.argv[1:]
    settings, source = Settings.from_environment(), CATALOG.step("raw_sales").source
    assert source is not None
    options = stream_settings(profile(settings), driver_memory(), on_s3=settings.lakehouse_on_s3)
    with spark_session(settings, "plain", None, options) as spark:
        beginning = dict.fromkeys(PARTITIONS, 0)
        events = Broker(spark, KafkaTopic(servers, topic), {}).stream(beginning, int(in_flight))
        rows = event_rows(source, topic, events, str(settings.token_key_file), datetime.now(UTC).date())
        writer = rows.writeStream.format("delta").partitionBy("day").trigger(availableNow=True)
        report_batches(writer.option("checkpointLocation", f"{target}/_checkpoint").start(target))


if __name__ == "__main__":
    main()
