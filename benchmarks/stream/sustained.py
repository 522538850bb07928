"""The sustained rate of ``backfill stream`` into raw, beside plain Structured Streaming into Delta.

Both read the same topic of a real broker, in batches of at most as many events, in a session with the same settings,
and make the same rows of them. A process of its own each, in turn. What counts is the time after the first third of
the batches: until then Java compiles.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from os import environ
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds
from confluent_kafka import Producer
from deltalake import DeltaTable

from backfill_assets.examples.sample.live import LiveSpec, live_events
from backfill_assets.settings import Settings
from backfill_assets_tests.stream.broker import Broker, running_broker
from benchmarks.backfill.data import BACKFILL, CACHE, FIRST_DAY, SEED, Data
from benchmarks.backfill.machine import load
from benchmarks.backfill.report import Goal, Line, figure, ratios, seconds
from benchmarks.backfill.timed import ProcessFamily, Timed
from benchmarks.stream.plain import PARTITIONS

OURS, PLAIN = "backfill stream", "plain Structured Streaming"
EVENTS_IN_FLIGHT = int(environ.get("BENCH_EVENTS_IN_FLIGHT", "20000"))
"""Of a batch, for both; the command itself reads up to 100,000 at once."""
_HOME = CACHE / "stream"
_HALF_A_DAY = 12 * 3600
_WARM_SHARE = 1 / 3


@dataclass(frozen=True)
class Batch:
    """The end of a micro-batch: the clock and the CPU seconds of the process and its JVM until then."""

    events: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class StreamRun:
    """One run over all events. ``warm`` is the time after the first third of the batches, for ``events`` of them."""

    events: int
    warm: Timed
    whole: Timed

    @property
    def rate(self) -> float:
        return round(self.events / self.warm.seconds)

    @property
    def per_cpu_second(self) -> float:
        return round(self.events / self.warm.cpu_seconds)


@dataclass(frozen=True)
class Content:
    """What a table has: rows, and the sum of their hashes, which wraps at 64 bits."""

    rows: int
    hashes: int


def sustained(data: Data, rounds: int) -> list[Line]:
    """``data`` says how many events: its days times its rows a day."""
    events = len(data.days) * data.rows_per_day
    shutil.rmtree(_HOME, ignore_errors=True)
    with running_broker(Settings.from_environment(), _HOME / "broker") as broker:
        topic = _filled_topic(broker, events)
        runs: dict[str, list[StreamRun]] = {OURS: [], PLAIN: []}
        for number in range(rounds):
            found = {PLAIN: _plain(broker, topic), OURS: _ours(broker, topic)}
            contents = {PLAIN: _content(_HOME / "plain"), OURS: _content(_HOME / "home" / "lakehouse" / "raw_sales")}
            if contents[OURS] != contents[PLAIN] or contents[OURS].rows != events:
                raise ValueError(f"{events:,} events were sent, and the tables have {contents}.")
            for name, run in found.items():
                runs[name].append(run)
                _say(f"round {number + 1}: {name} {run.rate:,} events/s, {run.per_cpu_second:,} for a CPU second")
    shutil.rmtree(_HOME)
    return _lines(events, runs[OURS], runs[PLAIN])


def _lines(events: int, ours: Sequence[StreamRun], plain: Sequence[StreamRun]) -> list[Line]:
    what = f"{events:,} events, {EVENTS_IN_FLIGHT:,} a batch"
    lines = []
    for name, runs in ((OURS, ours), (PLAIN, plain)):
        cpu = "; ".join(f"{run.per_cpu_second:,.0f}" for run in runs)
        lines.append(figure(f"{name}: {what}", [run.rate for run in runs], "events/s", note=f"for a CPU second: {cpu}"))
        lines.append(seconds(f"{name}: the whole process", [run.whole for run in runs]))
    # Of two times for as many events: the rate of the first is to that of the second as the second time to the first.
    rates = ratios("sustained rate / plain", [run.warm for run in plain], [run.warm for run in ours])
    goal = Goal(0.9, at_least=True)
    return [*lines, *(Line(**{**line.__dict__, "goal": goal}) for line in rates)]


def _filled_topic(broker: Broker, events: int) -> str:
    """A topic with so many sales of half a day, some of them late, corrected, moved or unreadable."""
    topic = broker.new_topic(len(PARTITIONS))
    _say(f"sending {events:,} events")
    start = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, 6, tzinfo=UTC)
    spec = LiveSpec(SEED, start, events / _HALF_A_DAY)
    options: dict[str, str | int | float | bool] = {"linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({**broker.client_options(), **options})
    for number, event in enumerate(islice(live_events(spec), events)):
        producer.produce(topic, event.text, partition=number % len(PARTITIONS))
        if number % 1_000 == 0:
            producer.poll(0)
    if producer.flush(300):
        raise RuntimeError("Not all events could be sent to the broker.")
    return topic


def _ours(broker: Broker, topic: str) -> StreamRun:
    home = _HOME / "home"
    shutil.rmtree(home / "lakehouse", ignore_errors=True)
    shutil.rmtree(home / "streams", ignore_errors=True)
    source = ["stream", "raw_sales", "--from", f"kafka://{broker.address}/{topic}", "--from-beginning"]
    options = ["--available-now", "--no-follow", "--batch", str(EVENTS_IN_FLIGHT), "--json"]
    return _run([BACKFILL, *source, *options], "ours")


def _plain(broker: Broker, topic: str) -> StreamRun:
    target = _HOME / "plain"
    shutil.rmtree(target, ignore_errors=True)
    key = _HOME / "home" / "token.key"
    if not key.exists():
        key.parent.mkdir(parents=True)
        key.write_text("a key for the benchmark of the stream")
    command = [sys.executable, "-m", "benchmarks.stream.plain", broker.address, topic, str(target)]
    return _run([*command, str(EVENTS_IN_FLIGHT)], "plain")


def _run(command: Sequence[str], name: str) -> StreamRun:
    """Run ``command``, which prints a line of JSON at the end of each batch."""
    log = CACHE / "logs" / f"stream-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    before, began = load(), time.perf_counter()
    batches: list[Batch] = []
    with log.open("w") as problems:
        process = subprocess.Popen(
            list(command),
            env={**environ, "BACKFILL_HOME": str(_HOME / "home")},
            stdout=subprocess.PIPE,
            stderr=problems,
            text=True,
            start_new_session=True,
        )
        family = ProcessFamily(process.pid)
        assert process.stdout is not None
        for line in process.stdout:
            family.look()
            batch = json.loads(line)
            if batch["event"] == "batch":
                batches.append(Batch(batch["events"], time.perf_counter() - began, family.cpu_seconds))
        process.wait()
    whole = time.perf_counter() - began
    if process.returncode != 0 or len(batches) < 2:
        words = "\n".join(log.read_text().splitlines()[-25:])
        raise RuntimeError(f"{name} ended with {process.returncode} after {len(batches)} batches:\n{words}")
    return _measured(batches, whole, family, before)


def _measured(batches: Sequence[Batch], whole: float, family: ProcessFamily, before: float) -> StreamRun:
    warm_up, last = batches[max(1, round(len(batches) * _WARM_SHARE)) - 1], batches[-1]
    events = sum(batch.events for batch in batches[batches.index(warm_up) + 1 :])
    peak, times = family.peak_kib // 1024, (last.seconds - warm_up.seconds, last.cpu_seconds - warm_up.cpu_seconds)
    warm = Timed(*times, peak, before, jvm=True)
    return StreamRun(events, warm, Timed(round(whole, 2), round(last.cpu_seconds, 2), peak, before, jvm=True))


def _content(table: Path) -> Content:
    rows = DeltaTable(str(table)).to_pyarrow_dataset()
    received = rows.to_table(["content_hash"], filter=ds.field("record_kind") == "received")
    return Content(received.num_rows, pc.sum(received["content_hash"]).as_py())


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
