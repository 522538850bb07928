"""``python -m ... LAKEHOUSE HOW TABLE --from SOURCE ...``: a stream without Spark, which writes the status of one.

``HOW`` is ``live`` (until it is interrupted), ``fails`` after a batch, or ``refuses`` at its start. ``--available-now``
ends it after eight batches; where the variable ``FAKE_STREAM_ENDS_ONCE`` names a file, not before that is there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.stream.delays import Delays
from backfill_assets.stream.lease import StreamBatch, StreamLease, StreamPosition, acquire_stream

ENDS_ONCE = "FAKE_STREAM_ENDS_ONCE"


def main(lakehouse: str, how: str, table: str, *options: str) -> None:
    if how == "refuses":
        sys.exit("The topic sales does not exist.\n  -> Create it, or name another one.")
    print(f"Streaming {table} {' '.join(options)}; SPARK_REMOTE={os.environ.get('SPARK_REMOTE', '')}", flush=True)
    source = options[options.index("--from") + 1]
    with acquire_stream(Storage(lakehouse), table, source).renewed() as lease:
        _stream(
            lease,
            8 if "--available-now" in options else 10**6,
            _failing if how == "fails" else lambda: None,
        )


def _failing() -> None:
    raise SystemExit("The broker localhost:9092 is away.\n  -> Start it, then start the stream again.")


def _stream(lease: StreamLease, batches: int, after_a_batch: Callable[[], None]) -> None:
    for number in range(1, batches + 1):
        time.sleep(0.2)
        position = StreamPosition(partition="sales/0", position=100 * number, end=100 * number + 7)
        lease.beat(
            state="live",
            positions=(position,),
            events=100 * number,
            batches=number,
            last=StreamBatch(at=datetime.now(UTC), batch=number, events=100, seconds=0.2),
            delays={"raw_sales": Delays(1.2, 4.2), "fact_daily_revenue": Delays(7.1, 9.3)},
            boundary="sales/0 at 100" if number > 1 else "",
        )
        after_a_batch()
    while (awaited := os.environ.get(ENDS_ONCE)) and not Path(awaited).exists():
        time.sleep(0.02)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(0)
