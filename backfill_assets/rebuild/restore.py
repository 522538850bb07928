"""Restores damaged raw: rows of missing files are read again, and must be exactly those that were published.

They come from files that a compaction replaced, or landed files. The publication is a compaction: nothing becomes
stale. A day that would come out different is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cache, reduce
from itertools import filterfalse

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LakehouseUnusable, PublicationRefused
from backfill_assets.judge.engine import files_by_day
from backfill_assets.judge.keys import markers
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Prepared, Publication, TableChange
from backfill_assets.lakehouse.rows import rows_of_main_files, write
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.landed_rows import landed_rows
from backfill_assets.landing.landing_files import files_in
from backfill_assets.landing.zone import LandedFile, landed_positions
from backfill_assets.model.declaration import Source
from backfill_assets.model.deletion import DELETION, OF_DELETIONS
from backfill_assets.model.landed import raw_schema
from backfill_assets.publish.compact import STAGED_AS, compaction_of, moved_since
from backfill_assets.publish.holds import holding
from backfill_assets.publish.promote import MOST_TRIES, Again, promote
from backfill_assets.publish.publisher import Conflict, Pin
from backfill_assets.rebuild import lost_rows
from backfill_assets.rebuild.ingest import as_declared_then
from backfill_assets.rebuild.lake import waiting
from backfill_assets.rebuild.lost_rows import LostDay, place_of
from backfill_assets.rebuild.raw_change import RawWriter
from backfill_assets.spark.workers import errors_of_workers
from backfill_assets.text import format_ranges

_FIGURES = ("rows", "checksum", "content_hash_sum")
Landed = dict[LandedFile, Source]
_FOREIGN = 'others have written to it: backfill docs operations "Foreign writes"'
_ROW = ["day", "source_file", "source_line", "content_hash"]
"""Identifies a received row: after a refresh, two can have one line."""


class RowsLost(LakehouseUnusable):
    """Rows of raw are nowhere else, or not provably the same."""


@dataclass(frozen=True)
class Restored:
    days: Sequence[LostDay]
    publication: str = ""


@dataclass
class RestoreBuild(RawWriter):
    def run_days(self, days: Sequence[date], *, dry_run: bool = False) -> Restored:
        """Restore the lost rows of ``days`` in one publication. ``dry_run`` only looks, without Spark.

        Raises :class:`RowsLost` for days that cannot be restored, after restoring the others.
        """
        if dry_run:
            return Restored(self.look(days)[2])
        name, found = self.table.name, _LostRows(self, days)
        published = promote(
            self.lake.publisher,
            found,
            self.progress,
            most=MOST_TRIES,
            hold=lambda: holding(self.lake.storage, "restore", {name: days}),
        )
        if found.refused:
            hint = "Put these files back from a copy, or the landed ones, and run this again: backfill raw restore"
            words = "\n  ".join(f"{name} {reason}." for reason in found.refused.values())
            raise RowsLost(words, hint=f"{hint} {name} {' '.join(map(str, found.refused))}")
        return Restored(tuple(found.lost), published.publication if published else "")

    # ------------------------------------------------------------------ what is lost, and where it may be

    def look(self, days: Sequence[date]) -> tuple[MainTable, Pin, list[LostDay]]:
        """Reads every file to its end, without Spark."""
        storage, publisher, name = self.lake.storage, self.lake.publisher, self.table.name
        pin, main = publisher.pin({name: days}, {}), MainTable.open(storage, name)
        if main is None:
            raise InvalidRequest(f"Nothing was published to {name}.", hint="backfill status shows what was.")
        is_lost = cache(lambda file: not storage.is_whole_parquet(f"{name}/{file.path}", file.rows))
        files = main.state().of_days(days)
        hurt = {day for day, of_day in files.items() if any(storage.each(is_lost, of_day))}
        made = publisher.log.prepared_since(datetime.min.replace(tzinfo=UTC), name, {*map(str, hurt)}) if hurt else []
        known = landed_positions(self.source.name, main.transactions())
        return main, pin, [self.explain(day, files[day], is_lost, pin, made, known) for day in sorted(hurt)]

    def explain(
        self,
        day: date,
        files: Sequence[AddedFile],
        is_lost: Callable[[AddedFile], bool],
        pin: Pin,
        made: Sequence[Prepared],
        known: Mapping[str, int],
    ) -> LostDay:
        name, lost = self.table.name, tuple(filter(is_lost, files))
        state = pin.states.get(TableDay(name, day))
        content = state.content_of(file.path for file in files) if state else None
        if content is None:
            return LostDay(day, {}, lost, problems=(_FOREIGN,))
        brought = [each for each in made if each.before_of(name, day)]
        parts = lost_rows.parts_of(brought, name, day)
        there = [each for file in files for each in lost_rows.with_parts(file, parts, is_lost)]
        absent = tuple(filter(is_lost, there))
        changes = [each.change(name) for each in brought if each.publication.kind == "append"]
        landed, problems = self.landed_again(absent, changes, known)
        if absent and not content.metrics.keys().isdisjoint(OF_DELETIONS):
            problems.append("the source took rows of the day back, and deletions are in no landed file")
        recorded = {"rows": content.rows, "checksum": content.checksum, **content.metrics}
        if any(_columns(each) != set(raw_schema(self.source).names) for each in changes):
            del recorded["checksum"]  # Rows of other columns have other hashes.
        figures = {name: str(recorded[name]) for name in _FIGURES if name in recorded}
        held = tuple(filterfalse(is_lost, there))
        return LostDay(day, figures, lost, held, absent, landed, tuple(problems))

    def landed_again(
        self, absent: Sequence[AddedFile], changes: Sequence[TableChange], known: Mapping[str, int]
    ) -> tuple[Landed, list[str]]:
        zone, landed, problems = self.lake.landing, Landed(), list[str]()
        read = {place_of(position.id): change for change in changes for position in change.positions}
        for place in sorted(place for place in read if any(lost_rows.may_hold(file, place) for file in absent)):
            if place.startswith(lost_rows.EVENTS):
                problems.append(f"{place} is not read again: raw alone has its events")
            elif content := known.get(place):
                path = zone.root / place
                file = zone.file(self.source, path) if path.exists() else None
                if file and file.position[1] == content:
                    landed[file] = self.source_then(read[place])
                else:
                    problems.append(f"the landed file {place} is {'not what it was' if file else 'gone'}")
        return landed, problems

    def source_then(self, change: TableChange) -> Source:
        """The source as declared for ``change``: later fields were unknown then."""
        source, known = as_declared_then(self.step, change).source or self.source, _columns(change)
        fields = tuple(name for name in source.fields if source.column_of(name) in known)
        return source if fields == source.fields else replace(source, fields=fields, rescued_fields=())

    # ------------------------------------------------------------------ read again, and compared

    def read_again(self, lost: Sequence[LostDay], timeline: Timeline, main: MainTable) -> list[AddedFile]:
        storage, name, written = self.lake.storage, self.table.name, list[AddedFile]()
        held = [file for each in lost for file in each.held]
        absent = [each.day for each in lost if each.absent]
        if landed := {file: source for each in lost for file, source in each.landed.items()}:
            self.require_token_key()
            with errors_of_workers():
                written += write(self.absent_rows(landed, absent, held), timeline, self.table)
            for file in landed:
                self.lake.landing.verify_unchanged(file)
        files = [*held, *(file.below(timeline.folder) for file in written)]
        if around := self.source.days_around(absent):
            there = main.state().of_days(around - {each.day for each in lost}).values()
            existing = files_by_day(name, (file for of_day in there for file in of_day))
            if also := [day for day, some in existing.items() if storage.missing(file.path for file in some)]:
                why = f"{name} {format_ranges(also)}: files are lost there, too, of days that are compared with these"
                raise RowsLost(f"{why}.", hint="Name all of these days: backfill raw restore.")
            due = markers(storage, self.source, self.table.contract, files_by_day(name, files), existing)
            added = self.write_markers(timeline, (each for each in due if each["day"] in absent))
            files += [file.below(timeline.folder) for file in added]
            written += added
        timeline.add(written, str(main.handle.schema().to_json()), dict.fromkeys((e.day for e in lost), STAGED_AS))
        return files

    def absent_rows(self, landed: Landed, days: Sequence[date], held: Sequence[AddedFile]) -> DataFrame:
        lake, spark, schema = self.lake, self.lake.spark(), raw_schema(self.source)
        files: dict[Source, list[LandedFile]] = {}
        for file, source in landed.items():
            files.setdefault(source, []).append(file)
        read = (
            landed_rows(spark, source, files_in(lake.landing, some), lake.token_key_file)
            for source, some in files.items()
        )
        nothing = spark.createDataFrame([], schema)
        every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), read, nothing)
        rows = every.where(F.col("day").isin(list(days)))
        there = rows_of_main_files(spark, lake.storage, self.table.name, held, schema)
        there = there.where((F.col("record_kind") != DELETION) & F.col("source_file").isNotNull())
        return rows.join(there.select(_ROW), _ROW, "left_anti").select(*schema.names).repartition("day")

    def refusals(self, lost: Sequence[LostDay], files: Sequence[AddedFile]) -> dict[date, str]:
        """Days unlike the recorded figures, with reasons. Spark computes every hash again."""
        lake, name = self.lake, self.table.name

        def rows() -> DataFrame:
            return rows_of_main_files(lake.spark(), lake.storage, name, files, raw_schema(self.source))

        by_day = files_by_day(name, files)
        found = measure_files(lake.storage, self.table, by_day, rows, only=_FIGURES, afresh=True)
        reasons = {each.day: each.refusal(found.get(each.day, {})) for each in lost}
        return {day: reason for day, reason in reasons.items() if reason}


@dataclass
class _LostRows:
    build: RestoreBuild
    days: Sequence[date]
    lost: Sequence[LostDay] = ()
    refused: Mapping[date, str] = field(default_factory=dict)

    def stage(self, *, held: bool) -> Publication | Conflict | None:
        build, lake, name = self.build, self.build.lake, self.build.table.name
        lake.publisher.recover([name])
        main, pin, self.lost = build.look(self.days)
        self.refused = {}
        if not self.lost:
            return None
        if moved := moved_since(main, pin, self.days):
            return moved
        if not (held or all(each.recorded for each in self.lost)):
            return Conflict(reasons=("files that no publication named may be those of one that is under way",))
        timeline = Timeline(lake.storage, name, lake.new_id(f"restore-{name}"))
        days = format_ranges(each.day for each in self.lost)
        with waiting(build.progress, f"{name}: lost rows of {days} are read again"):
            self.refused = build.refusals(self.lost, build.read_again(self.lost, timeline, main))
        kept = {each.day: each.held for each in self.lost if each.day not in self.refused}
        made = build.run.provenance(timeline.name, reason="lost rows are put back")
        return compaction_of(timeline, pin, kept, timeline.name, made) if kept else None

    def overtaken(self, by: Conflict) -> Again:
        why = f"{self.build.table.name}: others publish to it while lost rows are read again"
        return Again(why, PublicationRefused(f"{why}.", hint="Let them finish, then start this again."))


def _columns(change: TableChange) -> set[str]:
    return {str(each["name"]) for each in json.loads(change.table_schema)["fields"]}
