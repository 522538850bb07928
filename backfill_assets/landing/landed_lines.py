"""A landed line or event: its place, and its text with tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing.records import fields_of
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import record_word

_EVENTS = "kafka:"


@dataclass(frozen=True)
class EventPlace:
    """Raw has it as file ``kafka:<topic>/<partition>`` and the offset as line."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset:,}"


def event_place(file: str | None, line: int | None) -> EventPlace | None:
    if file is None or line is None or not file.startswith(_EVENTS):
        return None
    topic, _, partition = file.removeprefix(_EVENTS).rpartition("/")
    return EventPlace(topic, int(partition), line)


def format_place(file: str, line: int) -> str:
    """``sales/2017-03-01/a.jsonl.gz:7``, ``sales/2017-03-01/a.parquet, row 7``, ``topic orders, partition 0, offset
    7``.
    """
    if event := event_place(file, line):
        return str(event)
    return f"{file}:{line}" if record_word(file) == "line" else f"{file}, {record_word(file)} {line}"


def place_values(file: str, line: int) -> dict[str, Any]:
    event = event_place(file, line)
    named = {"topic": event.topic, "partition": event.partition, "offset": event.offset} if event else {}
    return {"file": file, "line": line, record_word(file): line, **named}


def landed_line(landing: LandingZone, source: Source, raw: Mapping[str, Any]) -> str | None:
    """The line of a raw row; an event is rebuilt. None if its file is gone or damaged."""
    if event_place(raw["source_file"], raw["source_line"]) is not None:
        return _event(source, raw)
    path = landing.locate(raw["source_file"])
    if not path.is_file():
        return None
    if raw["unparsed_line"] is not None:
        return str(raw["unparsed_line"])
    return _mask(path, source, raw)


def _event(source: Source, raw: Mapping[str, Any]) -> str:
    if raw["unparsed_line"] is not None:
        return str(raw["unparsed_line"])
    sent = {name: value for name, value in _kept(source, raw).items() if value is not None}
    return json.dumps(sent, ensure_ascii=False)


def _kept(source: Source, raw: Mapping[str, Any]) -> dict[str, Any]:
    columns = dict(zip(source.fields, source.columns, strict=True))
    rescued: dict[str, Any] = json.loads(raw["rescued"] or "{}")
    return {name: raw[columns[name]] for name in source.value_fields} | rescued


def _mask(path: Path, source: Source, raw: Mapping[str, Any]) -> str | None:
    """All values are raw's if there are personal fields. Returns None if the file may have changed."""
    found = _record(path, source, raw["source_line"])
    if found is None:
        return None
    text, fields = found
    if not source.personal_fields:
        return text.strip() if text else json.dumps(fields, ensure_ascii=False)
    kept = _kept(source, raw)
    return json.dumps({name: kept.get(name) for name in fields}, ensure_ascii=False)


def _record(path: Path, source: Source, number: int) -> tuple[str | None, Mapping[str, Any]] | None:
    try:
        for text, fields in fields_of(source, path, number):
            if fields is not None:
                return text, fields
    except SourceUnreadable:
        pass
    return None
