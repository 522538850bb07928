"""Finds a row in every table it went through, as of one closed log entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.arrow_dataset import python_rows
from backfill_assets.lakehouse.records import is_of_stream
from backfill_assets.landing.quarantine import Rejects, all_rejects
from backfill_assets.landing.trace_outcomes import RECEIVED, Place, Row, deleted_rows, place_of
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.current_versions import with_current
from backfill_assets.model.declaration import OCCURRENCE, AsOf, Reads, Step, Table
from backfill_assets.model.deletion import DELETION, REFRESH
from backfill_assets.model.landed_values import parts_of_key
from backfill_assets.model.rules import FewUnknown
from backfill_assets.state.history import history
from backfill_assets.state.reading import PublishedTable, read_switches
from backfill_assets.state.view import View

BETWEEN = "/"
"""Stands between the columns of a key."""
PERSONAL = "@"
"""Stands in a key for a personal value."""


def typed_key(view: View, origin: Rejects, key: str) -> pc.Expression | None:
    published = view.table(origin.typed)
    names, texts = origin.key, key.split(BETWEEN)
    if published is None or len(texts) != len(names):
        return None
    schema = published.dataset().schema
    values = [_as_type(text, schema.field(name).type) for name, text in zip(names, texts, strict=True)]
    return None if None in values else _all(dict(zip(names, values, strict=True)))


def landed_keys(origin: Rejects, key: str) -> pc.Expression | None:
    names, texts = origin.key, key.split(BETWEEN)
    if OCCURRENCE in names and len(texts) == len(names):
        texts = [text for name, text in zip(names, texts, strict=True) if name != OCCURRENCE]
        names, key = tuple(name for name in names if name != OCCURRENCE), BETWEEN.join(texts)
    landed = set(origin.source.columns)
    if set(names) <= landed:
        return _all(dict(zip(names, texts, strict=True))) if len(texts) == len(names) else None
    fields = origin.source.key_columns
    parts = parts_of_key(key, len(fields))
    return _all(dict(zip(fields, parts, strict=True))) if parts else None


def occurrence_in(origin: Rejects, key: str) -> int | None:
    names, texts = origin.key, key.split(BETWEEN)
    if OCCURRENCE not in names or len(texts) != len(names):
        return None
    text = texts[names.index(OCCURRENCE)]
    return int(text) if text.isdecimal() else None


def places(rows: Sequence[Mapping[str, Any]]) -> pc.Expression | None:
    """Finds rows by place: a typed key may have landed as another text."""
    return _any([_all({name: row[name] for name in ("source_file", "source_line")}) for row in rows])


def _as_type(text: str, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(text).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _all(values: Mapping[str, Any]) -> pc.Expression:
    return reduce(and_, (pc.field(name) == value for name, value in values.items()))


def _any(conditions: Sequence[pc.Expression]) -> pc.Expression | None:
    return reduce(or_, conditions) if conditions else None


_MOST_DAYS = 31
EXAMPLE = "B01/2016-02-15T00:30:00Z"


@dataclass(frozen=True)
class Found:
    table: str
    layer: str
    row: Row
    period: DayRange

    @property
    def day(self) -> date:
        return self.period.first


@dataclass(frozen=True)
class Unnamed:
    table: str
    period: DayRange
    made_there: tuple[str, ...]


@dataclass(frozen=True)
class Trail:
    origin: Rejects
    raw: Sequence[Found]
    typed: Sequence[Found]
    quarantined: Sequence[Found]
    counted: Sequence[Found] = field(default=())
    unnamed: Sequence[Unnamed] = field(default=())

    @property
    def rows(self) -> tuple[Found, ...]:
        return (*self.raw, *self.quarantined, *self.typed, *self.counted)


def trails(view: View, catalog: Catalog, key: str, table: str | None = None, day: date | None = None) -> list[Trail]:
    """Raises :class:`InvalidRequest` for an unknown key, or one on too many days."""
    tracing = Tracing(view, catalog)
    origins = tracing.origins(table)
    trails_found = [trail for origin in origins if (trail := tracing.trail(origin, key, day)) is not None]
    if not origins:
        raise InvalidRequest(
            "Nothing lands here: tables of others are read where they lie, and no row is followed from there.",
            hint="backfill show TABLE DAY lists the rows of a day.",
        )
    if not trails_found:
        keys = ", ".join(f"{'/'.join(each.key)} of {each.typed}" for each in origins)
        raise InvalidRequest(
            f"No row has the key {key!r}" + (f" on {day}." if day else "."),
            hint=f"A key is {keys}, with a slash between columns: {EXAMPLE}. backfill show TABLE DAY lists rows. "
            "What landed is known once raw is built.",
        )
    return [tracing.with_counted(trail) for trail in trails_found]


@dataclass(frozen=True)
class Tracing:
    view: View
    catalog: Catalog

    def origins(self, table: str | None) -> tuple[Rejects, ...]:
        if table is None:
            return all_rejects(self.catalog)
        asked, step = self.catalog.table(table), self.catalog.step(table)
        above = self.upstream(table)
        if step.external is not None:
            step.external.refuse("no row of it is here to follow", f"Look it up where it is: {step.external.location}")
        origins = tuple(
            each
            for each in all_rejects(self.catalog)
            if table in (each.raw, each.table) or (each.typed in above and each.key == asked.key)
        )
        if not origins and (others := [name for name in sorted(above) if self.catalog.step(name).external]):
            raise InvalidRequest(
                f"A row of {table} is followed no further: it is made of {', '.join(others)}, which others write.",
                hint=f"backfill show {table} DAY has the rows of a day, and backfill history what they were made of.",
            )
        if not origins:
            raise InvalidRequest(
                f"A row of {table} is made of many rows: it has no trail of its own.",
                hint="Trace one of the rows it counts, by its key in the bronze or fact table.",
            )
        return origins

    def upstream(self, table: str) -> set[str]:
        return {table}.union(*(self.upstream(read.table) for read in self.catalog.step(table).reads))

    def trail(self, origin: Rejects, key: str, day: date | None) -> Trail | None:
        days = DayRange.of(day) if day else None
        typed = self.matching(self.catalog.table(origin.typed), typed_key(self.view, origin, key), days)
        landed = landed_keys(origin, key)
        quarantined = self.matching(self.catalog.table(origin.table), landed, days)
        also = places([found.row for found in typed])
        either = _any([each for each in (landed, also) if each is not None])
        raw = self.matching(self.catalog.table(origin.raw), either, days)
        number = occurrence_in(origin, key)
        if number is not None and raw:
            raw = self.with_line_number(origin, raw, quarantined, number)
        if not (raw or typed or quarantined):
            return None
        return Trail(origin, raw, typed, quarantined)

    def with_line_number(
        self, origin: Rejects, raw: Sequence[Found], quarantined: Sequence[Found], number: int
    ) -> list[Found]:
        days = DayRange(min(found.day for found in raw), max(found.day for found in raw))
        identical = pc.field("content_hash").isin([found.row["content_hash"] for found in raw])
        lines = self.matching(self.catalog.table(origin.raw), identical, days)
        chosen = {place_of(found.row) for found in quarantined}
        chosen |= {place for place, count in occurrences([found.row for found in lines]).items() if count == number}
        return [found for found in raw if place_of(found.row) in chosen]

    def matching(self, table: Table, chosen: pc.Expression | None, days: DayRange | None) -> list[Found]:
        rows = None if chosen is None else self.view.rows(table.name, days, chosen)
        if rows is None:
            return []
        held = sorted(set(rows.column("day").to_pylist()))
        if len(held) > _MOST_DAYS:
            raise InvalidRequest(
                f"This key is on {len(held)} days of {table.name}, from {held[0]} to {held[-1]}.",
                hint=f"Say which, behind the key: {held[-1]}",
            )
        cadence = self.catalog.step(table.name).cadence
        order = [(name, "ascending") for name in ("day", "source_file", "source_line") if name in rows.column_names]
        found = python_rows(rows.sort_by(order))
        return [Found(table.name, table.layer, row, cadence.period(row["day"])) for row in found]

    def with_counted(self, trail: Trail) -> Trail:
        """A table that reads the row's day, and whose key the row has, counts it."""
        held = {trail.origin.typed: list(trail.typed)}
        unnamed: dict[Unnamed, None] = {}
        for step in with_current(self.catalog.steps, read_switches(self.view.storage)):
            if step.source is None and step.name != trail.origin.typed:
                for counting in self.counting(step, held):
                    if isinstance(counting, Unnamed):
                        unnamed[counting] = None
                    elif counting not in held.setdefault(counting.table, []):
                        held[counting.table].append(counting)
        counted = tuple(counting for table, rows in held.items() if table != trail.origin.typed for counting in rows)
        return replace(trail, counted=counted, unnamed=tuple(unnamed))

    def counting(self, step: Step, held: Mapping[str, Sequence[Found]]) -> Iterator[Found | Unnamed]:
        for read in step.version().reads:
            if read.first == read.last == 0:
                for row in tuple(held.get(read.table, ())):
                    for table in step.tables:
                        yield from self.row_that_counts(step, table, read, row)

    def row_that_counts(self, step: Step, table: Table, read: Reads, found: Found) -> Sequence[Found | Unnamed]:
        period = step.cadence.period(found.day)
        others = [other for other in step.version().reads if other.table != read.table]
        values = {**self.with_reference_data(table, found, others), "day": period.first}
        if made_there := tuple(name for name in table.key if values.get(name) is None):
            return [Unnamed(table.name, period, made_there)] if table.layer != "quarantine" else []
        return self.matching(table, _equal(values, table.key), DayRange.of(period.first))

    def with_reference_data(self, table: Table, found: Found, others: Sequence[Reads]) -> Row:
        values: Row = found.row
        for other in others:
            key = self.catalog.table(other.table).key
            if any(name not in values for name in table.key) and key and all(name in values for name in key):
                days = self.days_looked_up(other, found.day)
                rows = self.view.rows(other.table, days, _equal(values, key)) if days else None
                entries = python_rows(rows.sort_by("day")) if rows is not None else []
                values = {**(entries[-1] if entries else {}), **values}
        unknown = {rule.column: rule.unknown for rule in table.rules if isinstance(rule, FewUnknown)}
        return {**unknown, **values}

    def days_looked_up(self, read: Reads, day: date) -> DayRange | None:
        """Returns None for a table without rows up to the day."""
        if not isinstance(read, AsOf):
            return read.days(DayRange.of(day))
        contents = self.view.observed([read.table]).contents(read.table)
        filled = sorted(each for each, content in contents.items() if content is None or content.rows)
        return next((DayRange.of(each) for each in read.counted(DayRange.of(day), filled)), None)


def deleted_by(view: View, trail: Trail) -> dict[Place, str]:
    """The publication of each deletion, by place: the first version of raw that has it, also after a compaction."""
    found: dict[Place, str] = {}
    for deletion in (each for each in trail.raw if each.row["record_kind"] == DELETION and each.row["source_file"]):
        same = _equal(deletion.row, ("day", "source_file", "source_line", "content_hash", "record_kind"))
        for record in reversed(history(view.storage, deletion.table, DayRange.of(deletion.day))):
            version = record.tables[deletion.table].version
            deletes = record.reason.startswith(REFRESH) or is_of_stream(record.publication)
            if deletes and version is not None and record.outcome == "done":
                then = PublishedTable(deletion.table, view.storage.uri(deletion.table), version, view.storage)
                if then.dataset().count_rows(filter=same):
                    found.setdefault(place_of(deletion.row), f"{record.publication} on {record.prepared_at:%Y-%m-%d}")
                    break
    return found


def occurrences(rows: Sequence[Row]) -> dict[Place, int]:
    counted: Counter[tuple[date, int]] = Counter()
    count_of = {}
    received, deleted = [row for row in rows if row["record_kind"] == RECEIVED], deleted_rows(rows)
    for row in sorted((row for number, row in enumerate(received) if number not in deleted), key=place_of):
        line = row["day"], row["content_hash"]
        counted[line] += 1
        count_of[place_of(row)] = counted[line]
    return count_of


def _equal(values: Row, names: Sequence[str]) -> pc.Expression:
    return _all({name: values[name] for name in names})
