"""Ingests the landed files of a publication again, into a timeline of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import DayContent, InputRead, Position, Prepared, TableChange
from backfill_assets.landing.raw_rows import raw_schema
from backfill_assets.landing.zone import LandedFile, LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step
from backfill_assets.model.deletion import REFRESH
from backfill_assets.model.placement import recorded_placement
from backfill_assets.publication.publisher import Pin
from backfill_assets.published.stream_positions import stream_topics
from backfill_assets.quality.measures import zero_metrics
from backfill_assets.rebuild.ingest import ArrivalBuild
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.reproduction.recorded_inputs import Readable, RecordedInput
from backfill_assets.rebuild.stage import content_of

Contents = Mapping[TableDay, DayContent]
"""What was ingested, by table and day."""


def ingest_again(lake: Lake, made_by: Prepared, progress: Progress) -> Contents | str:
    """The rows that the landed files of ``made_by`` give today, or a sentence that says why they cannot be ingested."""
    (change,) = made_by.publication.tables
    try:
        step = lake.catalog.step(change.table)
    except InvalidRequest:
        return f"the table {change.table} is not declared any more"
    if never := _why_never(made_by, change):
        return never
    build = ArrivalBuild(lake, _as_declared_then(step, change), RunInfo(""), progress)
    files = _landed_again(lake.landing, build.source.name, change.positions)
    if isinstance(files, str):
        return files
    lost = Readable(lake.storage).first_lost(map(_recorded_input, made_by.publication.inputs), {})
    if lost:
        return lost
    if build.source.personal_fields and not Path(lake.token_key_file).exists():
        return f"the token key {lake.token_key_file} is gone"
    return _taken_in(build, files, made_by)


def declared_anew(catalog: Catalog, made_by: Prepared) -> str:
    """A sentence that says which fields of the source were declared or dropped since ``made_by``; empty for none.

    Raw keeps the value of a field that is not declared elsewhere, so the same lines give other rows.
    """
    (change,) = made_by.publication.tables
    source = catalog.step(change.table).source
    if source is None:
        return ""
    then = {field["name"] for field in json.loads(change.table_schema)["fields"]}
    differ = sorted(then ^ set(raw_schema(source).names))
    return f"its source has other fields now than it had then: {', '.join(differ)}" if differ else ""


def _why_never(made_by: Prepared, change: TableChange) -> str:
    """Why its rows cannot be had again from landed files, whichever there are; empty if they can."""
    if made_by.publication.provenance.reason.startswith(REFRESH):
        return "it read its source again, and appended what differed from the rows that raw held then"
    if topics := stream_topics(change.positions):
        return f"its rows are events of the topic {', '.join(topics)}, which is not read again: raw has them"
    return ""


def _as_declared_then(step: Step, change: TableChange) -> Step:
    """``step`` with the event days that were possible when ``change`` was ingested."""
    recorded = {day.content.code_version for day in change.days if day.content}
    if step.source is None or not recorded:
        return step
    then = recorded_placement(recorded.pop())
    return replace(step, source=replace(step.source, earliest_day=then.earliest_day, days_ahead=then.days_ahead))


def _taken_in(build: ArrivalBuild, files: list[LandedFile], made_by: Prepared) -> Contents:
    table = build.table
    timeline = build.stage_rows(build.arrivals(files))
    try:
        pin = Pin({}, {read.table: read for read in made_by.publication.inputs}, {}, -1)
        measured = build.measured(timeline, pin)
    finally:
        timeline.close()
    days = {day.day for day in made_by.change(table.name).days} | set(measured)
    nothing = zero_metrics(table)
    return {TableDay(table.name, day): content_of(measured.get(day, nothing), "", "", {}) for day in sorted(days)}


def _landed_again(landing: LandingZone, source: str, positions: tuple[Position, ...]) -> list[LandedFile] | str:
    """The files of ``positions`` in the landing zone, or a sentence that names the one that changed."""
    paths = [position.id.split(":", 2)[2] for position in positions]
    there = {path for paths in landing.paths(source).values() for path in paths}
    if gone := sorted(set(paths) - there):
        return f"the landed file {gone[0]} is gone" + (f", and {len(gone) - 1} more" if len(gone) > 1 else "")
    days = {date.fromisoformat(path.split("/")[1]) for path in paths}
    file_of = {file.position[0]: file for file in landing.files(source, days)} if days else {}
    for position in positions:
        if file_of[position.id].position[1] != position.after:
            return f"the landed file {file_of[position.id].path} is not what it was"
    return [file_of[position.id] for position in positions]


def _recorded_input(read: InputRead) -> RecordedInput:
    return RecordedInput(read.table, read.version, read.days)
