"""Erases rows of raw for a person: their values go, their places stay.

An erased row keeps its file, line and days; every landed value is null. Beside it lies a deletion, so that bronze and
all below leave the row out, and received rows stay accounted for. Landed lines are blanked first: their files, as they
are then, are committed with the rows. Killed at any line, it is run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.judge.engine import columns_of, files_by_day
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.arrow_dataset import dataset_of_files
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayChange, Position, Publication, TableChange
from backfill_assets.lakehouse.rows import rows_of_main_files
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.landing.blank_lines import blank_lines, can_blank
from backfill_assets.landing.landed_lines import event_place
from backfill_assets.landing.zone import position_id
from backfill_assets.model.declaration import Source
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.landed import raw_schema
from backfill_assets.model.measure import is_hash
from backfill_assets.model.xxh64 import hashes_of_named_texts
from backfill_assets.publish.compact import moved_since
from backfill_assets.publish.holds import holding
from backfill_assets.publish.promote import MOST_TRIES, Again, promote
from backfill_assets.publish.publisher import Conflict, Pin
from backfill_assets.rebuild.lake import waiting
from backfill_assets.rebuild.raw_change import RawWriter
from backfill_assets.rebuild.stage import content_of
from backfill_assets.spark.partition_query import write_here
from backfill_assets.text import format_ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Place = tuple[str, int]
"""A landed file and its line, or a topic's partition and an offset."""
_STAGED_AS = StagedAs(input_fingerprint="erasure")
_KEPT = ("record_kind", "source_file", "source_line", "arrival_day", "day_is_arrival", "superseded_by_day", "day")
_TOMBSTONE = ("source_file", "source_line", "day_is_arrival", "superseded_by_day", "day")
_HIT = "is erased"


@dataclass(frozen=True)
class Whose:
    """Rows of raw: those that fulfil ``rows``, and those of ``places``, whatever they hold."""

    rows: pc.Expression | None = field(default=None, repr=False)
    places: frozenset[Place] = frozenset()

    @property
    def roughly(self) -> pc.Expression:
        """For a scan: all such rows, and others."""
        there = pc.field("source_file").isin(pa.array(sorted({file for file, _ in self.places}), pa.string()))
        return there if self.rows is None else self.rows | there

    def among(self, table: pa.Table) -> pa.BooleanArray:
        """True for a row that still has a landed value."""
        import pyarrow.dataset as ds

        found = pa.chunked_array([pa.repeat(False, table.num_rows)])
        if self.rows is not None:
            chosen = ds.dataset(table).to_table(columns={_HIT: self.rows})[_HIT]
            found = pc.or_(found, pc.fill_null(chosen, False))
        if self.places:
            found = pc.or_(found, in_places(table, self.places))
        return pc.and_(found, _held(table)).combine_chunks()


def _held(rows: pa.Table) -> pa.ChunkedArray:
    """Rows of raw with a landed value."""
    held = pa.chunked_array([pa.repeat(False, len(rows))])
    for name in rows.column_names:
        if name not in (*_KEPT, "content_hash") and not is_hash(name):
            held = pc.or_(held, pc.is_valid(rows[name]))
    return held


def in_places(table: pa.Table, places: Collection[Place]) -> pa.ChunkedArray:
    wanted = pa.array([f"{file}\n{line}" for file, line in places], pa.string())
    here = pc.binary_join_element_wise(table["source_file"], pc.cast(table["source_line"], pa.string()), "\n")
    return pc.fill_null(pc.is_in(here, wanted), False)


@dataclass(frozen=True)
class ErasedRows:
    """``rows`` by event day. ``left`` names landed files that are not of lines, and topics."""

    table: str
    rows: Mapping[date, int] = field(default_factory=dict)
    places: frozenset[Place] = frozenset()
    publication: str = ""
    blanked: Mapping[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()


@dataclass
class EraseBuild(RawWriter):
    def look(self, whose: Whose) -> ErasedRows:
        """What would be erased, from main as it is. Reads the days of raw, without Spark."""
        main = MainTable.open(self.lake.storage, self.table.name)
        if main is None:
            return ErasedRows(self.table.name)
        rows = self._rows(main, list(main.state().active.values()), whose.roughly)
        found = rows.filter(whose.among(rows))
        landed = found.filter(pc.not_equal(found["record_kind"], DELETION))
        counts, places = Counter(landed["day"].to_pylist()), _places_of(found)
        left = tuple(sorted({file for file, _ in places if not self._can_blank(file)}))
        return ErasedRows(self.table.name, dict(sorted(counts.items())), frozenset(places), left=left)

    def erased_before(self) -> frozenset[Place]:
        """Places of tombstones: an erasure that was killed may have left what was computed from their rows."""
        main = MainTable.open(self.lake.storage, self.table.name)
        if main is None:
            return frozenset()
        deletions = pc.field("record_kind") == DELETION
        rows = self._rows(main, list(main.state().active.values()), deletions)
        return frozenset(_places_of(rows.filter(pc.invert(_held(rows)))))

    def erase(self, whose: Whose, reason: str) -> ErasedRows:
        """Erase them in one publication. Raises :class:`PublicationRefused` after too many lost races."""
        found = self.look(whose)
        if not found.places and not found.rows:
            return found
        days, name = sorted(found.rows), self.table.name
        package = _Erasure(self, whose, reason, found)
        published = promote(
            self.lake.publisher,
            package,
            self.progress,
            most=MOST_TRIES,
            hold=lambda: holding(self.lake.storage, "erase", {name: days}),
        )
        return replace(package.found, publication=published.publication if published else "", blanked=package.blanked)

    def _rows(self, main: MainTable, files: Sequence[AddedFile], chosen: pc.Expression | None = None) -> pa.Table:
        """All columns of the contract; those that a file lacks are null."""
        columns = columns_of(self.table.contract)
        there = dataset_of_files(self.lake.storage, self.table.name, files, main.handle.schema())
        read = there.to_table(filter=chosen)
        held = {each: read[each] if each in read.column_names else pa.nulls(len(read)) for each in columns.names}
        return pa.table(held).cast(columns)

    def _can_blank(self, file: str) -> bool:
        return event_place(file, 0) is None and can_blank(self.source)

    # ------------------------------------------------------------------ landed lines

    def blank(self, places: Iterable[Place]) -> dict[str, int]:
        """Blank the landed lines of ``places``; how many in each file that is there."""
        lines: dict[str, list[int]] = {}
        for file, line in sorted(places):
            if self._can_blank(file):
                lines.setdefault(file, []).append(line)
        there = {file: self.lake.landing.locate(file) for file in lines}
        for file, path in there.items():
            if path.is_file():
                blank_lines(self.source, path, lines[file])
        return {file: len(lines[file]) for file, path in there.items() if path.is_file()}

    def positions(self, files: Iterable[str], known: Mapping[str, int]) -> list[Position]:
        """Of landed files as they are now, where raw knows them otherwise."""
        moved = []
        for file in sorted(files):
            id = position_id(self.source.name, file)
            at = self.lake.landing.file(self.source, Path(self.lake.landing.root) / file).position[1]
            if id in known and known[id] != at:
                moved.append(Position(id=id, before=known[id], after=at))
        return moved

    # ------------------------------------------------------------------ the days without them

    def rewrite(
        self, main: MainTable, days: Iterable[date], whose: Whose, timeline: Timeline
    ) -> dict[date, list[AddedFile]]:
        """All files of ``days``: those without such rows as they are, the others written anew into ``timeline``."""
        written: list[AddedFile] = []
        kept: dict[date, list[AddedFile]] = {}
        for day, files in main.state().of_days(days).items():
            gone: list[pa.Table] = []
            for file in files:
                rows = self._rows(main, [file])
                hit = whose.among(rows)
                if not pc.any(hit).as_py():
                    kept.setdefault(day, []).append(file)
                    continue
                blank = blanked(rows.filter(hit), self.source)
                gone.append(blank)
                written += write_here(pa.concat_tables([rows.filter(pc.invert(hit)), blank]), self.table, timeline)
            if gone and len(deletions := deletions_of(pa.concat_tables(gone))):
                written += write_here(deletions, self.table, timeline)
        timeline.add(written, str(main.handle.schema().to_json()), dict.fromkeys(days, _STAGED_AS))
        for file in written:
            kept.setdefault(date.fromisoformat(file.day), []).append(file.below(timeline.folder))
        return kept


def _places_of(rows: pa.Table) -> set[Place]:
    pairs = zip(rows["source_file"].to_pylist(), rows["source_line"].to_pylist(), strict=True)
    return {(file, line) for file, line in pairs if file is not None and line is not None}


def blanked(rows: pa.Table, source: Source) -> pa.Table:
    """``rows`` of raw without landed values; their content hash is that of no values."""
    columns = {
        each.name: rows[each.name] if each.name in _KEPT else pa.nulls(len(rows), each.type) for each in rows.schema
    }
    nothing = pa.StructArray.from_arrays([pa.nulls(len(rows), pa.string()) for _ in source.columns], source.columns)
    columns["content_hash"] = hashes_of_named_texts(pa.chunked_array([nothing]))
    return pa.table(columns).select(rows.column_names).cast(rows.schema)


def deletions_of(blank: pa.Table) -> pa.Table:
    """One for each of a day's ``blank`` rows that no blank deletion cancels already."""
    missing: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], int] = {}
    for number, row in enumerate(blank.select([*_TOMBSTONE, "record_kind"]).to_pylist()):
        key = tuple(row[name] for name in _TOMBSTONE)
        missing[key] += -1 if row["record_kind"] == DELETION else 1
        first.setdefault(key, number)
    numbers = [first[key] for key, count in missing.items() for _ in range(max(0, count))]
    chosen = blank.take(pa.array(numbers, pa.int64()))
    kinds = {"record_kind": pa.repeat(DELETION, len(chosen)), "arrival_day": pa.nulls(len(chosen), pa.date32())}
    columns = {name: kinds.get(name, chosen[name]) for name in chosen.column_names}
    return pa.table(columns).cast(blank.schema)


@dataclass
class _Erasure:
    build: EraseBuild
    whose: Whose
    reason: str
    found: ErasedRows
    blanked: dict[str, int] = field(default_factory=dict)

    def stage(self, *, held: bool) -> Publication | Conflict | None:
        build, lake, name = self.build, self.build.lake, self.build.table.name
        lake.publisher.recover([name])
        self.found = build.look(self.whose)
        days = sorted(self.found.rows)
        if not days:
            return None
        main, pin = MainTable.open(lake.storage, name), lake.publisher.pin({name: days}, {})
        if main is None:
            return None
        if moved := moved_since(main, pin, days):
            return moved
        if foreign := [day for day in days if pin.content(TableDay(name, day)) is None]:
            raise PublicationRefused(
                f"{name} {format_ranges(foreign)} is not what was published: others have written to it.",
                hint='backfill docs operations "Foreign writes" says what to do. Then run this again.',
            )
        self.blanked |= build.blank(self.found.places)
        timeline = Timeline(lake.storage, name, lake.new_id(f"erase-{name}"))
        with waiting(build.progress, f"{name}: rows of {format_ranges(days)} are erased"):
            files = build.rewrite(main, days, self.whose, timeline)
            return self.request(main, pin, timeline, files)

    def request(
        self, main: MainTable, pin: Pin, timeline: Timeline, files: Mapping[date, Sequence[AddedFile]]
    ) -> Publication:
        build, lake, table = self.build, self.build.lake, self.build.table
        flat = [file for some in files.values() for file in some]

        def rows() -> DataFrame:
            return rows_of_main_files(lake.spark(), lake.storage, table.name, flat, raw_schema(build.source))

        measured = measure_files(lake.storage, table, files_by_day(table.name, flat), rows)
        changes = []
        for day in sorted(files):
            key = TableDay(table.name, day)
            before = pin.content(key)
            content = content_of(measured[day], before.code_version if before else "", "", {})
            changes.append(DayChange(day=day, adds=tuple(files[day]), content=content, expected=pin.expected[key]))
        positions = build.positions(self.blanked, main.transactions())
        change = TableChange(
            table=table.name, table_schema=build.schema, days=tuple(changes), positions=tuple(positions)
        )
        return Publication(
            id=lake.new_id(f"erase-{table.name}"),
            kind="erase",
            tables=(change,),
            provenance=build.run.provenance(timeline.name, reason=self.reason),
        )

    def overtaken(self, by: Conflict) -> Again:
        why = f"{self.build.table.name}: others publish to it while rows are erased"
        return Again(why, PublicationRefused(f"{why}.", hint="Let them finish, then start this again."))
