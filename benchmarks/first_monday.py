"""What a company begins with, from an empty folder and the wheel: ``python -m benchmarks.first_monday [--small]``.

A Delta table of others, an adopted fact table, a folder of Parquet, CSV, nested JSON, a topic: minutes from the first
command to the last, commands, and lines that a person writes. Rows are compared with plain Python on the way.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table as Lines

from backfill_assets.settings import Settings
from backfill_assets_tests.stream.broker import Broker, running_broker
from backfill_assets_tests.wheel.first_monday import FULL, SMALL, WAYS, Walk, a_topic, walked
from backfill_assets_tests.wheel.project import environment_with_the_wheel


def topic_of(broker: Broker) -> Callable[[Sequence[Mapping[str, str]]], str]:
    """Makes a topic with events; its address."""

    def made(events: Sequence[Mapping[str, str]]) -> str:
        topic, producer = broker.new_topic(), Producer({"bootstrap.servers": broker.address})
        for event in events:
            producer.produce(topic, json.dumps(event))
            producer.poll(0)
        producer.flush()
        return f"kafka://{broker.address}/{topic}"

    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="few days and rows")
    size, lines = SMALL if parser.parse_args().small else FULL, Lines("", "minutes", "commands", "lines", "proposed")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        commands = environment_with_the_wheel(place)
        for number, (name, way) in enumerate(WAYS.items()):
            _add(lines, name, walked(place / str(number), commands, size, way))
        with running_broker(Settings.from_environment(), place / "broker") as broker:
            topic = topic_of(broker)
            _add(lines, "a topic", walked(place / "topic", commands, size, lambda walk: a_topic(walk, topic)))
    Console().print(lines)


def _add(lines: Lines, name: str, walk: Walk) -> None:
    lines.add_row(name, f"{walk.minutes:.1f}", str(walk.commands), str(walk.lines), str(walk.proposed))
    print(f"{name}: {walk.minutes:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
