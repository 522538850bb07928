"""Going forward for the sake of a field: rows carried it before it was declared, and only it may change.

Raw kept the field of such rows in ``rescued``. The days on which they arrived are computed again, and those that read
them. Of each, every other column is compared with what the timeline had, over the files and without Spark: a day on
which another one differs is held back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
from deltalake import Schema

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.arrow_dataset import dataset_of_files
from backfill_assets.lakehouse.content_sums import content_sums
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, MainTable
from backfill_assets.lakehouse.named_timelines import HeldDay, NamedTimeline
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import TIMELINES, Timeline
from backfill_assets.model.declaration import Source, Step
from backfill_assets.model.declaration_check import ADDED_BY_INGESTION
from backfill_assets.model.graph import steps_of
from backfill_assets.model.refinement import Refinement
from backfill_assets.published.moments import HeldDays
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.shadow import HeldBack
from backfill_assets.text import suggest_or_list
from backfill_assets.timeline.arrivals import days_read, held_at_moment
from backfill_assets.timeline.rewind import require_files

TOGETHER = "values of a row that are other ones together"
"""What differs where each column alone has the values that it had."""


@dataclass(frozen=True)
class CarriedField:
    """A landed field, and on which days how many rows of raw carried it."""

    name: str
    raw: str
    rows: Mapping[date, int]
    """Ascending; only days that have such rows."""


# ------------------------------------------------------------------ which field


def sources_of_fields(
    steps: Sequence[Step], timeline: NamedTimeline, fields: Collection[str]
) -> dict[str, tuple[Step, Source]]:
    """The step that reads each landed one of ``fields`` from raw, and its source. Pure.

    Raises :class:`InvalidRequest` for a field that no table of the timeline has, and for one that its version does not
    read from what raw kept.
    """
    concerned = steps_of(steps, timeline.days)
    known = [name for step in concerned for table in step.tables for name in table.contract.fields()]
    columns = [name for name in dict.fromkeys(known) if name not in (*ADDED_BY_INGESTION, PARTITION_COLUMN)]
    for name in fields:
        if name not in columns:
            raise InvalidRequest(
                f"No table of the timeline {timeline.name} declares a column {name!r}.",
                hint=suggest_or_list(name, columns, "Columns"),
            )
    landed = {
        name: (step, source)
        for step in concerned
        if (source := source_read_by(step)) is not None
        for name in fields
        if name in source.columns
    }
    if not landed:
        bronze = [step.name for step in steps if (of := source_read_by(step)) and set(fields) & set(of.columns)]
        raise InvalidRequest(
            f"No table of the timeline {timeline.name} takes {' or '.join(fields)} from raw.",
            hint=f"Rewind {bronze[0]}, and what is computed from it comes along."
            if bronze
            else f"backfill forward {timeline.name} computes all columns again.",
        )
    for name, (step, source) in landed.items():
        if name not in source.rescued_fields:
            raise InvalidRequest(
                f"{step.name} {step.current} does not read {name} from what raw kept of undeclared fields.",
                hint="Declare it in a new version: Field(nullable=True, rescued=True, ...). docs/your-own-data.md",
            )
    return landed


def source_read_by(step: Step) -> Source | None:
    """The source whose raw rows the current version of ``step`` makes typed; None for other steps. Pure."""
    if step.source is not None:
        return None
    transform = step.version().transform
    return transform.source if isinstance(transform, Refinement) else None


def only_fields(storage: Storage, steps: Sequence[Step], timeline: NamedTimeline, fields: Sequence[str]) -> OnlyFields:
    """What going forward for the sake of ``fields`` is about; reads raw as it was at the moment of ``timeline``.

    Raises like :func:`sources_of_fields`, and :class:`PublicationRefused` where files of the moment are gone.
    """
    landed = sources_of_fields(steps, timeline, fields)
    then = held_at_moment(storage, steps, timeline)
    read = days_read(steps, timeline, then)
    require_files(storage, read, timeline.moment)
    return OnlyFields(storage, timeline, tuple(fields), carried_fields(storage, read, landed, timeline))


def carried_fields(
    storage: Storage, raw: HeldDays, landed: Mapping[str, tuple[Step, Source]], timeline: NamedTimeline
) -> list[CarriedField]:
    """On which days of ``timeline`` raw rows carry each of the ``landed`` fields; ``raw`` is what raw holds."""
    found = []
    for name, (step, source) in landed.items():
        table = f"raw_{source.name}"
        days = {day for own in step.table_names for day in timeline.held(own)}
        held = [each for day, each in raw.get(table, {}).items() if day in days]
        found.append(CarriedField(name, table, _rows_carrying(storage, table, name, held)))
    return found


def _rows_carrying(storage: Storage, table: str, name: str, held: Iterable[HeldDay]) -> dict[date, int]:
    schema = _raw_schema(storage, table, name)
    counts = {each.day: _count(storage, table, name, each, schema) for each in held if each.files}
    return {day: counts[day] for day in sorted(counts) if counts[day]}


def _count(storage: Storage, table: str, name: str, held: HeldDay, schema: Schema) -> int:
    dataset = dataset_of_files(storage, table, held.files, schema)
    rows = dataset.to_table(columns=[name, "rescued"])
    pairs = zip(rows.column(name).to_pylist(), rows.column("rescued").to_pylist(), strict=True)
    return sum(value is not None or _has(rescued, name) for value, rescued in pairs)


def _has(rescued: str | None, name: str) -> bool:
    return rescued is not None and name in rescued and json.loads(rescued).get(name) is not None


def _raw_schema(storage: Storage, table: str, name: str) -> Schema:
    main = MainTable.open(storage, table)
    columns = [] if main is None else json.loads(main.handle.schema().to_json())["fields"]
    absent = [] if any(each["name"] == name for each in columns) else [_text_column(name)]
    return Schema.from_json(json.dumps({"type": "struct", "fields": [*columns, *absent]}))


def _text_column(name: str) -> dict[str, Any]:
    return {"name": name, "type": "string", "nullable": True, "metadata": {}}


# -------------------------------------------------------------- only it changes


@dataclass
class OnlyFields:
    """Chooses the days that carry a field, and holds back those on which anything else would change."""

    storage: Storage
    timeline: NamedTimeline
    fields: Collection[str]
    """All that may change: those that raw carries, and columns that are computed from them."""
    carried: Sequence[CarriedField]
    changed: dict[str, frozenset[date]] = field(default_factory=dict)
    """The days that went forward so far, by table."""
    refused: dict[str, tuple[date, ...]] = field(default_factory=dict)
    """The days that were held back so far, by table."""

    @property
    def is_carried(self) -> bool:
        return any(each.rows for each in self.carried)

    def concerned(self, step: Step, version: str, days: Sequence[date]) -> list[date]:
        """Those of ``days`` on which raw carries a field, or that read a day that went forward."""
        raw = {each.raw: frozenset(each.rows) for each in self.carried}
        chosen = step.version(version)
        carrying = raw if source_read_by(step) is not None else {}
        return sorted(decide.days_reading(step, chosen, days, {**self.changed, **carrying}))

    def hold_back(self, built: Mapping[str, Mapping[date, HeldDay]]) -> list[HeldBack]:
        """The days of the tables that one step has ``built`` on which another column differs."""
        found = []
        for table, days in built.items():
            before = self.timeline.held(table)
            for day, after in sorted(days.items()):
                why = self._too_much(table, before.get(day, HeldDay(day=day)), after)
                if why:
                    found.append(HeldBack(table, day, error=why))
        out = {each.day for each in found}
        if out:
            self.refused |= dict.fromkeys(built, tuple(sorted(out)))
        for table, days in built.items():
            self.changed[table] = frozenset(days.keys() - out)
        return found

    def _too_much(self, table: str, before: HeldDay, after: HeldDay) -> str:
        """What would change besides the fields; empty if nothing would."""
        if before.content is None:
            return "it was a foreign write at that moment" if before.foreign else "it was not published at that moment"
        columns = other_columns(self.storage, table, before, after, self.fields)
        return f"not only {', '.join(self.fields)} would change, also {', '.join(columns)}" if columns else ""


def other_columns(storage: Storage, table: str, before: HeldDay, after: HeldDay, fields: Collection[str]) -> list[str]:
    """The columns of a day, without ``fields``, that do not hold the same on both sides.

    All of them together are compared row by row; only where that differs, each by itself.
    """
    if before.files == after.files:
        return []
    schema = columns_of_files(storage, table, [before, after])
    names = [each.name for each in schema.fields if each.name not in (*fields, PARTITION_COLUMN)]
    one, other = (_rows(storage, table, side, schema, names) for side in (before, after))
    if content_sums(one.to_batches()) == content_sums(other.to_batches()):
        return []
    differing = [
        name
        for name in names
        if content_sums(one.select([name]).to_batches()) != content_sums(other.select([name]).to_batches())
    ]
    return differing or [TOGETHER]


def _rows(storage: Storage, table: str, held: HeldDay, schema: Schema, names: list[str]) -> pa.Table:
    return dataset_of_files(storage, table, held.files, schema).to_table(columns=names)


def columns_of_files(storage: Storage, table: str, held: Iterable[HeldDay]) -> Schema:
    """Main's columns, and those that only files in timelines have."""
    main = MainTable.open(storage, table)
    shapes = [] if main is None else [main.handle.schema().to_json()]
    paths = {file.path for each in held for file in each.files if file.path.startswith(f"{TIMELINES}/")}
    staged = {each.name: each for path in sorted(paths) if (each := Timeline.holding(storage, table, path)).is_named}
    shapes += [each.schema() for each in staged.values() if each.exists()]
    fields: dict[str, Mapping[str, Any]] = {}
    for shape in shapes:
        for each in json.loads(shape)["fields"]:
            fields.setdefault(each["name"], each)
    return Schema.from_json(json.dumps({"type": "struct", "fields": list(fields.values())}))
