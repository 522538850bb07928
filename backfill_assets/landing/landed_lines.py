"""One landed line or event: its place, and its text as it was received. What is personal in it is left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing.line_reader import lines_of
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Source

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


def landed_line(landing: LandingZone, source: Source, raw: Mapping[str, Any]) -> str | None:
    """The line that the raw row ``raw`` came from, tokens in the place of personal values.

    None if its file is gone or damaged. Of a line that is no JSON object, what raw keeps of it. An event is written
    anew from its raw row: fields that it sent as null are left out, as raw has them, and its topic is not read again.
    """
    if event_place(raw["source_file"], raw["source_line"]) is not None:
        return _event(source, raw)
    path = landing.locate(raw["source_file"])
    if not path.is_file():
        return None
    if raw["unparsed_line"] is not None:
        return str(raw["unparsed_line"])
    return _mask(_line(path, raw["source_line"]), source, raw)


def _event(source: Source, raw: Mapping[str, Any]) -> str:
    if raw["unparsed_line"] is not None:
        return str(raw["unparsed_line"])
    sent = {name: value for name, value in _kept(source, raw).items() if value is not None}
    return json.dumps(sent, ensure_ascii=False)


def _kept(source: Source, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as raw has them, under the names that they landed with, and the rescued ones."""
    columns = dict(zip(source.fields, source.columns, strict=True))
    rescued: dict[str, Any] = json.loads(raw["rescued"] or "{}")
    return {name: raw[column] for name, column in columns.items()} | rescued


def _line(path: Path, number: int) -> str:
    """No text where the line cannot be read any more: the file may have changed since."""
    try:
        for batch in lines_of(path, "", date.min):
            if number in (numbers := batch["source_line"].to_pylist()):
                return str(batch["value"][numbers.index(number)])
    except SourceUnreadable:
        pass
    return ""


def _mask(line: str, source: Source, raw: Mapping[str, Any]) -> str | None:
    """As it landed. Of a source with personal fields it is written anew: they and the unknown ones are as in raw."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    if not source.personal_fields:
        return line.strip()
    kept = _kept(source, raw)
    return json.dumps({name: kept.get(name) for name in fields}, ensure_ascii=False)
