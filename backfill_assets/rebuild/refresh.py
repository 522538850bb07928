"""A source-side refresh: landed files are read again, and raw gets the difference, in one publication or not at all.

Rows of days whose possible event days were declared anew are compared, too: with where they belong now.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayLineage, DayRead, InputRead, Publication
from backfill_assets.lakehouse.rows import published_rows, stage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.deletions import as_deletions, deleted_arrival, rows_that_stand
from backfill_assets.landing.raw_rows import event_day, raw_rows, raw_schema
from backfill_assets.model.declaration import Metrics
from backfill_assets.model.deletion import DELETED, DELETION, REFRESH
from backfill_assets.publication.publisher import Pin, Published
from backfill_assets.rebuild.append import AppendBuild, Arrivals
from backfill_assets.rebuild.changed_files import ArrivalFiles, Positions, compare_files, moved_positions
from backfill_assets.rebuild.lake import waiting
from backfill_assets.rebuild.stage import StagedTableDay
from backfill_assets.text import format_ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from backfill_assets.lakehouse.timelines import Timeline

_MOST_ATTEMPTS = 5


class _RawMoved(Exception):
    """Rows that were compared with the source have been withdrawn or replaced since."""


@dataclass(frozen=True)
class RefreshResult:
    """What a refresh has found, and appended. ``publication`` is empty if there was nothing to append."""

    files: tuple[ArrivalFiles, ...]
    rows: Mapping[date, tuple[int, int]] = field(default_factory=dict)
    """Rows that were added and deleted, by event day."""
    publication: str = ""
    version: int | None = None
    """Of the raw table."""


@dataclass
class RefreshBuild(AppendBuild):
    """One look at the landed files of some arrival days, and what raw has to gain from it.

    What differs is computed anew with each attempt: rows that were staged against another state of raw are not used.
    """

    compared: frozenset[str] = frozenset()
    """The files of raw whose rows were compared with the source."""
    known: Positions = field(default_factory=dict)
    """What raw had recorded when the landed files were compared."""
    anew: frozenset[date] = frozenset()
    """The days of which all rows are put on their days anew: their placement was declared anew since."""
    put_anew: InputRead | None = None
    """These days as they were read."""

    # ------------------------------------------------------------------ what is asked for

    def preview(self, days: Sequence[date]) -> tuple[tuple[ArrivalFiles, ...], RowCounts]:
        """What :meth:`run_days` would append; publishes nothing, and starts Spark only if a file differs."""
        found = self.compare(days)
        different = [each for each in found if each.differs]
        return found, count_rows(self.difference(different)) if different or self.anew else {}

    def run_days(self, days: Sequence[date]) -> RefreshResult:
        """Read the files of ``days`` again if one of them differs, and append what differs in their rows.

        Rows that lie on one of ``days`` and belong to another one by what is declared now are moved there.
        Raises :class:`SourceUnreadable` for damaged files and for days without a folder, before anything is staged,
        and :class:`DaysFailed` when a gate holds a day back.
        """
        for _ in range(_MOST_ATTEMPTS):
            found = self.compare(days)
            different = [each for each in found if each.differs]
            if not different and not self.anew:
                return RefreshResult(found)
            try:
                outcome = self.append(self.arrivals(different), sorted(self.anew))
            except _RawMoved:
                self.progress(f"{self.table.name}: its rows were moved meanwhile, comparing again")
                continue
            if isinstance(outcome, Published):
                return RefreshResult(found, self.rows(), outcome.publication, outcome.versions[self.table.name])
            self.progress(f"{self.table.name}: another run has read the same files, comparing again")
        raise PublicationRefused(
            f"{self.table.name}: other runs kept changing what raw has of these files.",
            hint="Let them finish, then run this again.",
        )

    def rows(self) -> dict[date, tuple[int, int]]:
        """By event day."""
        counts = {day: each.content.metrics for day, each in self.staged.items()}
        return {day: (_count(of, "received"), _count(of, DELETED)) for day, of in sorted(counts.items())}

    # ------------------------------------------------------------------ compare

    def compare(self, days: Sequence[date]) -> tuple[ArrivalFiles, ...]:
        main = MainTable.open(self.lake.storage, self.table.name)
        self.known = main.transactions() if main else {}
        self.anew = frozenset(self.misplaced(days))
        deliveries = self.lake.landing.deliveries(self.source.name, days)
        arrived = [day for day in days if day not in self.anew or deliveries[day] != "missing"]
        with waiting(self.progress, f"{self.table.name}: landed files are compared with those that raw has read"):
            return compare_files(self.lake.landing, self.source.name, self.known, arrived)

    def difference(self, different: Sequence[ArrivalFiles]) -> DataFrame:
        """All files of an arrival day are read, also unchanged ones: a row may have moved from one to another.

        Rows of other files are as raw has them, on the days where they belong now.
        """
        files = [file for each in different for file in each.files]
        for file in files:
            self.lake.landing.verify_readable(file)
        paths = [str(self.lake.landing.locate(file)) for file in files]
        arrived = [each.day for each in different]
        standing = self.standing(arrived)
        unread = standing.where(~self.landed_on(arrived)).withColumns(event_day(self.source))
        source = raw_rows(self.lake.spark(), self.source, paths, self.lake.token_key_file)
        return row_difference(source.unionByName(unread), standing)

    def landed_on(self, arrival_days: Collection[date]) -> Column:
        """Whether a row is of a file that landed on ``arrival_days``; no event of a topic is."""
        return F.col("source_file").startswith(f"{self.source.name}/") & F.col("arrival_day").isin(list(arrival_days))

    def standing(self, arrival_days: Collection[date]) -> DataFrame:
        """The rows that raw has of files that landed on ``arrival_days``, and all that were received for ``anew``."""
        name = self.table.name
        published = [day for table, day in self.lake.states(self.step) if table == name]
        pin = self.lake.publisher.pin(writes={}, reads={name: published}, also={name})
        read = pin.inputs[name]
        self.refuse_foreign(pin)
        files = _files_of(self.lake.storage, read, arrival_days, self.anew)
        self.put_anew = read.model_copy(update={"days": {day: read.days[day] for day in sorted(self.anew)}})
        self.compared = frozenset(file.path for of_day in files.values() for file in of_day)

        def rows(days: Sequence[date]) -> DataFrame:
            some = read.model_copy(update={"days": {day: read.days[day] for day in days}})
            return published_rows(self.lake.spark(), self.lake.storage, some, raw_schema(self.source))

        standing = rows_that_stand(pin.states, self.table, sorted(files), rows)
        received = F.col("source_file").isNotNull()
        return standing.where(received & (self.landed_on(arrival_days) | F.col("day").isin(list(self.anew))))

    def refuse_foreign(self, pin: Pin) -> None:
        """Refuse days with a foreign write: its rows would be moved as ours."""
        main = MainTable.open(self.lake.storage, self.table.name)
        active = main.state().by_day() if main else {}
        for day in sorted(self.anew):
            if pin.states[TableDay(self.table.name, day)].physical != fingerprints.physical(active.get(day, ())):
                raise PublicationRefused(
                    f"{self.table.name} {day} is not what was published: no row is taken from there.",
                    hint="See Foreign writes in docs/operations.md, then run this again.",
                )

    # ------------------------------------------------------------------ append

    def arrivals(self, different: Sequence[ArrivalFiles]) -> Arrivals:
        positions = moved_positions(self.source.name, different, self.known)
        moved = fingerprints.physical(f"{each.id}={each.before}..{each.after}" for each in positions)
        made_of = fingerprints.input_fingerprint(self.step.code_version, "", moved)
        return Arrivals(made_of, positions, partial(self.stage_difference, different), may_be_staged=False)

    def stage_difference(self, different: Sequence[ArrivalFiles], timeline: Timeline) -> InputRead | None:
        days = {each.day for each in different} | self.anew
        with waiting(self.progress, f"{self.table.name}: Spark compares {format_ranges(days)} with raw"):
            stage(self.difference(different), timeline, {}, table=self.step.tables[0], other_days=True)
        for each in different:
            for file in each.files:
                self.lake.landing.verify_unchanged(file)
        return self.put_anew if self.anew else None

    def pin(self, timeline: Timeline) -> Pin:
        """Raw may gain other rows until this is published; those that were compared must still be there."""
        pin = super().pin(timeline)
        name = self.table.name
        if name not in pin.inputs:
            pin = self.lake.publisher.pin(writes={}, reads={name: timeline.days_with_files()}, also={name})
        main = MainTable.open(self.lake.storage, name)
        if not self.compared <= (set(main.state().active) if main else set()):
            raise _RawMoved
        return pin

    def request(self, timeline: Timeline, pin: Pin, arrivals: Arrivals) -> Publication:
        request = super().request(timeline, pin, arrivals)
        what = "its landed files were read again" if arrivals.positions else "its rows were put on their days anew"
        made = request.provenance.model_copy(update={"reason": f"{REFRESH}: {what}"})
        return request.model_copy(update={"provenance": made})

    def judged_day(self, day: date, measured: Metrics, pin: Pin, schema: str, seconds: float) -> StagedTableDay:
        judged = super().judged_day(day, measured, pin, schema, seconds)
        if day not in self.anew:
            return judged
        return replace(judged, content=replace(judged.content, code_version=self.source.placement.of_all_rows))

    def lineage(self, staged: StagedTableDay, pin: Pin) -> DayLineage:
        """Without a window for supersessions, a day was compared with itself alone."""
        if self.window_days({staged.day}):
            return super().lineage(staged, pin)
        read = pin.inputs[self.table.name]
        own = DayRead(table=read.table, version=read.version, first=staged.day, last=staged.day)
        return DayLineage(reads=(own,), environment=staged.environment)


def _files_of(
    storage: Storage, read: InputRead, arrival_days: Collection[date], whole: Collection[date]
) -> dict[date, tuple[AddedFile, ...]]:
    """The files of ``whole`` days of raw, and of those that by their statistics have rows of ``arrival_days``."""
    if read.version is None:
        return {}
    files = read_log(storage, read.table, read.version).of_days(read.days)
    wanted = sorted(map(str, arrival_days))
    return {
        day: of_day for day, of_day in files.items() if day in whole or any(_may_hold(file, wanted) for file in of_day)
    }


def _may_hold(file: AddedFile, arrival_days: Sequence[str]) -> bool:
    stats = json.loads(file.stats)
    least, greatest = (stats.get(end, {}).get("arrival_day") for end in ("minValues", "maxValues"))
    if least is None or greatest is None:
        return bool(stats.get("nullCount", {}).get("arrival_day") != file.rows)
    return any(least <= day <= greatest for day in arrival_days)


def _count(metrics: Mapping[str, object], name: str) -> int:
    return int(str(metrics.get(name) or 0))


# ------------------------------------------------------------------ the rows that differ

_SIDE, _KEPT = "is in the source", "rescued or nothing"
"""No landed field has a space in its name."""
_CONTENT = ["arrival_day", "day", "day_is_arrival", "content_hash", _KEPT]
"""What makes two rows the same, wherever they are in the files of their arrival day."""
_PLACE = ["source_file", "source_line"]
RowCounts = dict[tuple[date, date], tuple[int, int]]
"""Rows that are added and deleted, by arrival day and event day."""


def row_difference(source: DataFrame, standing: DataFrame) -> DataFrame:
    """``source`` are the rows of all files of some arrival days as they are now, ``standing`` what raw has of these.

    Rows are compared as multisets of arrival day, event day and whether that is the arrival day for want of a possible
    one, content hash and unknown fields. A row that moved to another line or file of its arrival day is the same row,
    and stays in raw as it is. Of equal rows those stay that are where the source has them, then those that come first
    by file and line.
    """
    names = source.columns
    both = source.withColumn(_SIDE, F.lit(True)).unionByName(standing.withColumn(_SIDE, F.lit(False)))
    both = both.withColumn(_KEPT, F.coalesce("rescued", F.lit("")))
    uneven = both.groupBy(*_CONTENT).agg(F.sum(_sign()).alias("more")).where(F.col("more") != 0)
    # Hardly any content differs: what is numbered is little, and all else is only counted.
    few = both.join(F.broadcast(uneven.drop("more")), _CONTENT, "left_semi")
    at_place = Window.partitionBy(*_CONTENT, *_PLACE)
    placed = few.withColumn("stays", F.min(_SIDE).over(at_place) != F.max(_SIDE).over(at_place))
    of_side = Window.partitionBy(*_CONTENT, _SIDE).orderBy(F.col("stays").desc(), *_PLACE)
    of_content = Window.partitionBy(*_CONTENT)
    counted = placed.withColumns(
        {
            "number": F.row_number().over(of_side),
            "there": F.count_if(F.col(_SIDE)).over(of_content),
            "held": F.count_if(~F.col(_SIDE)).over(of_content),
        }
    )
    surplus = counted.where(F.col("number") > F.least("there", "held"))
    added, gone = (surplus.where(each).select(*names) for each in (F.col(_SIDE), ~F.col(_SIDE)))
    return added.unionByName(as_deletions(gone)).repartition("day")


def count_rows(difference: DataFrame) -> RowCounts:
    """How many rows a difference adds and deletes. Runs Spark."""
    arrival, deletes = F.coalesce("arrival_day", deleted_arrival()), F.col("record_kind") == DELETION
    by_day = difference.groupBy(arrival.alias("arrival"), "day").agg(
        F.count_if(~deletes).alias("added"), F.count_if(deletes).alias("deleted")
    )
    return {(row["arrival"], row["day"]): (row["added"], row["deleted"]) for row in by_day.collect()}


def _sign() -> Column:
    return F.when(F.col(_SIDE), 1).otherwise(-1)
