"""Where a raw row came from, in words: a line of a landed file, or an event of a topic. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_EVENTS = "kafka:"


@dataclass(frozen=True)
class EventPlace:
    """An event of a topic. Raw keeps it as the file ``kafka:<topic>/<partition>`` and the offset as the line."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset:,}"


def event_place(file: str | None, line: int | None) -> EventPlace | None:
    """The event that ``source_file`` and ``source_line`` of a row name; None for a line of a landed file."""
    if file is None or line is None or not file.startswith(_EVENTS):
        return None
    topic, _, partition = file.removeprefix(_EVENTS).rpartition("/")
    return EventPlace(topic, int(partition), line)


def format_place(file: str, line: int) -> str:
    """``sales/2017-03-01/a.jsonl.gz:7``, or ``topic orders, partition 0, offset 7``."""
    return str(event_place(file, line) or f"{file}:{line}")


def place_values(file: str, line: int) -> dict[str, Any]:
    """The place as values for programs: file and line, and of an event its topic, partition and offset too."""
    event = event_place(file, line)
    named = {"topic": event.topic, "partition": event.partition, "offset": event.offset} if event else {}
    return {"file": file, "line": line, **named}
