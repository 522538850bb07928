"""Sends live sales to a Kafka topic at a rate, in a process of its own; :mod:`sent` says what it has sent.

The rate is that of the whole run: a producer that was held up, by a broker that is away say, makes up for it.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from backfill_assets.examples.sample.live import LiveEvent, LiveSpec, live_events
from backfill_assets_tests.examples.sample.live_tally import LiveTally, version_of
from backfill_assets_tests.stream.sent import Sent, partition_of

_TICK_SECONDS = 0.1
_OPTIONS: dict[str, str | int | float | bool] = {
    # Each event once and in order, also when the broker is killed and its answer is lost.
    "enable.idempotence": True,
    "linger.ms": 20,
    "message.timeout.ms": 300_000,
    "reconnect.backoff.max.ms": 500,
    "log_level": 2,
}
_FLUSH_SECONDS = 120


@dataclass
class LiveProducer:
    """A producer in a process of its own; its tally needs the file alone, and so survives a kill."""

    spec: LiveSpec
    file: Path
    process: subprocess.Popen[bytes]

    @property
    def sent(self) -> Sent:
        return Sent.read(self.file)

    def wait(self, seconds: float = 600) -> LiveTally:
        """Wait for its end; the tally of everything. A producer that failed raises ``AssertionError``."""
        assert self.process.wait(seconds) == 0, f"the producer ended with {self.process.returncode}"
        return self.tally()

    def stop(self, seconds: float = _FLUSH_SECONDS) -> LiveTally:
        """Let it send no more events, and wait until all are acknowledged."""
        self.process.terminate()
        return self.wait(seconds)

    def kill(self) -> None:
        """As ``kill -9``."""
        self.process.kill()
        self.process.wait()

    def tally(self) -> LiveTally:
        """Of all events, once the producer has ended and each is acknowledged."""
        sent = self.sent
        assert sent.is_complete and sum(sent.acknowledged) == sent.handed_over, f"not all is sent: {sent}"
        return LiveTally.up_to(self.spec, sent.handed_over)


def start_producer(
    address: str,
    topic: str,
    file: Path,
    *,
    seed: int = 1,
    events_per_second: float = 200,
    seconds: float | None = None,
    partitions: int = 1,
    late_days: int = 5,
    start: datetime | None = None,
) -> LiveProducer:
    """Start sending to the broker at ``address``, for ``seconds`` or until it is stopped.

    ``start`` is the moment of the first event, now if it is left out; ``file`` has what was sent.
    """
    spec = LiveSpec(seed, start or datetime.now(UTC), events_per_second, late_days)
    options = {
        "address": address,
        "topic": topic,
        "file": str(file),
        "seconds": seconds,
        "partitions": partitions,
        "spec": [spec.seed, spec.start.isoformat(), spec.events_per_second, spec.late_days],
    }
    command = [sys.executable, "-m", "backfill_assets_tests.stream.producer", json.dumps(options)]
    return LiveProducer(spec, file, subprocess.Popen(command, stdin=subprocess.DEVNULL))


@dataclass
class _Sending:
    """The producer within its own process."""

    topic: str
    file: Path
    producer: Producer
    acknowledged: list[int]
    handed_over: int = 0
    stopped: bool = False
    failed: list[str] = field(default_factory=list)

    def send(self, spec: LiveSpec, seconds: float | None) -> None:
        events, began = live_events(spec), time.monotonic()
        while not self.stopped and not self.failed:
            passed = time.monotonic() - began
            until = passed if seconds is None else min(passed, seconds)
            due = list(islice(events, round(until * spec.events_per_second) - self.handed_over))
            self._hand_over(due)
            if seconds is not None and passed >= seconds:
                break
            self.producer.poll(_TICK_SECONDS)
        self.producer.flush(_FLUSH_SECONDS)
        self._write(is_complete=not self.failed)

    def _hand_over(self, events: Sequence[LiveEvent]) -> None:
        """The file says so before: what is in the topic is never more than it says."""
        self.handed_over += len(events)
        self._write(is_complete=False)
        for event in events:
            self._produce(event)

    def _produce(self, event: LiveEvent) -> None:
        key = version.transaction_id if (version := version_of(event)) else None
        partition = partition_of(event, len(self.acknowledged))
        while True:
            try:
                self.producer.produce(self.topic, event.text, key, partition, on_delivery=self._delivered)
            except BufferError:
                self.producer.poll(_TICK_SECONDS)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition() or 0] += 1

    def _write(self, *, is_complete: bool) -> None:
        Sent(self.handed_over, tuple(self.acknowledged), is_complete).write(self.file)


def main(options: dict[str, Any]) -> int:
    """Send until the time is over or SIGTERM; 1 if an event could not be sent."""
    seed, start, rate, late_days = options["spec"]
    spec = LiveSpec(seed, datetime.fromisoformat(start).replace(tzinfo=UTC), rate, late_days)
    producer = Producer(_OPTIONS | {"bootstrap.servers": options["address"]})
    sending = _Sending(options["topic"], Path(options["file"]), producer, [0] * options["partitions"])
    signal.signal(signal.SIGTERM, lambda *_: setattr(sending, "stopped", True))
    sending.send(spec, options["seconds"])
    for message in sending.failed[:3]:
        print(message, file=sys.stderr)
    return 1 if sending.failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("options", type=json.loads)
    sys.exit(main(parser.parse_args().options))
