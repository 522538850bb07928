"""A refresh: reads landed files again and appends the difference to raw, in one publication; also days whose placement
was declared anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import InputRead
from backfill_assets.lakehouse.rows import stage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.deletions import as_deletions, rows_that_stand
from backfill_assets.landing.landed_rows import landed_rows, placed_anew
from backfill_assets.landing.landing_files import files_in
from backfill_assets.landing.zone import LandedFile
from backfill_assets.model.deletion import DELETED, DELETION, REFRESH
from backfill_assets.model.landed_structures import has_structure
from backfill_assets.publish.publisher import Pin
from backfill_assets.rebuild.changed_files import ArrivalFiles, Positions, compare_files, moved_positions
from backfill_assets.rebuild.lake import waiting
from backfill_assets.rebuild.raw_change import RawChange, RawWriter, only
from backfill_assets.spark.workers import errors_of_workers
from backfill_assets.text import format_ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from backfill_assets.lakehouse.timelines import Timeline


_ROWS_AT_ONCE = 100_000
RowCounts = Mapping[date, tuple[int, int]]
"""Added and deleted rows by event day."""


@dataclass(frozen=True)
class RefreshResult:
    files: Sequence[ArrivalFiles]
    rows: RowCounts = field(default_factory=dict)
    publication: str = ""
    dry_run: bool = False
    read_otherwise: int = 0
    """Rows of unchanged files that are parsed differently now."""


@dataclass(frozen=True)
class Compared:
    files: tuple[ArrivalFiles, ...]
    known: Positions = field(default_factory=dict)
    anew: frozenset[date] = frozenset()
    """Days whose rows are all placed again, because their placement was declared anew."""

    @property
    def different(self) -> list[ArrivalFiles]:
        return [each for each in self.files if each.differs]

    @property
    def differs(self) -> bool:
        return bool(self.different or self.anew)

    @property
    def to_read(self) -> list[LandedFile]:
        return [file for each in self.different for file in each.files]

    @property
    def unchanged(self) -> list[str]:
        """Paths that are read again only because other files of their day differ."""
        return [file.path for each in self.different for file in each.unchanged]


@dataclass
class RefreshBuild(RawWriter):
    read_otherwise: int = 0

    # ------------------------------------------------------------------ what is asked for

    def preview(self, days: Sequence[date]) -> RefreshResult:
        found = self.compare(days)
        if not found.differs:
            return RefreshResult(found.files, dry_run=True)
        with errors_of_workers():
            counts, otherwise = count_rows(self.difference(found)[0], found.unchanged)
        return RefreshResult(found.files, counts, dry_run=True, read_otherwise=otherwise)

    def run_days(self, days: Sequence[date]) -> RefreshResult:
        """Append the difference of the arrival ``days`` whose files differ.

        Misplaced rows on ``days`` are moved. Raises :class:`SourceUnreadable` before staging, for damaged files and
        days without a folder, and :class:`DaysFailed` for a failed gate.
        """
        looked: list[Compared] = []

        def look() -> RawChange | None:
            looked.append(self.compare(days))
            return self.change(looked[-1]) if looked[-1].differs else None

        done = self.carry_out(look)
        if done is None:
            return RefreshResult(looked[-1].files)
        rows = {}
        for day, each in done.days.items():
            of = each.content.metrics
            rows[day] = int(of.get("received") or 0), int(of.get(DELETED) or 0)
        return RefreshResult(looked[-1].files, rows, done.publication, read_otherwise=self.read_otherwise)

    # ------------------------------------------------------------------ compare

    def compare(self, days: Sequence[date]) -> Compared:
        known, anew = self.recorded(), frozenset(self.misplaced(days))
        deliveries = self.lake.landing.deliveries(self.source, days)
        arrived = [day for day in days if day not in anew or deliveries[day] != "missing"]
        with waiting(self.progress, f"{self.table.name}: landed files are compared with those that raw has read"):
            return Compared(compare_files(self.lake.landing, self.source, known, arrived), known, anew)

    def difference(self, found: Compared) -> tuple[DataFrame, list[InputRead]]:
        """The rows that differ, and the days of raw compared, which may gain rows until the publication unless placed
        again. Unchanged files of a differing arrival day are read too: a row may have moved between files.
        """
        for file in found.to_read:
            self.lake.landing.verify_readable(self.source, file.path)
        arrived = [each.day for each in found.different]
        pin = self.pin_all()
        read = pin.inputs[self.table.name]
        self.refuse_foreign(found.anew, pin)
        files = _files_of(self.lake.storage, read, arrived, found.anew)
        standing = rows_that_stand(pin.states, self.table, sorted(files), partial(self.rows, read))
        landed = self.landed_on(arrived)
        received = F.col("source_file").isNotNull()
        standing = standing.where(received & (landed | F.col("day").isin(list(found.anew))))
        read_again = files_in(self.lake.landing, found.to_read)
        source = landed_rows(self.lake.spark(), self.source, read_again, self.lake.token_key_file)
        if found.anew:
            source = source.unionByName(placed_anew(standing.where(~landed), self.source))
        made_of = [only(read, files), only(read, found.anew, exact=True)]
        structures = [name for name in self.source.columns if has_structure(self.source.type_of(name))]
        return row_difference(source, standing, structures), [each for each in made_of if each.days]

    def landed_on(self, arrival_days: Collection[date]) -> Column:
        """False for events of a topic."""
        return F.col("source_file").startswith(f"{self.source.name}/") & F.col("arrival_day").isin(list(arrival_days))

    def refuse_foreign(self, days: Collection[date], pin: Pin) -> None:
        """A foreign write's rows would be moved as ours."""
        main = MainTable.open(self.lake.storage, self.table.name)
        active = main.state().by_day() if main else {}
        for day in sorted(days):
            if pin.states[TableDay(self.table.name, day)].physical != fingerprints.physical(active.get(day, ())):
                raise PublicationRefused(
                    f"{self.table.name} {day} is not what was published: no row is taken from there.",
                    hint='backfill docs operations "Foreign writes" says what to do. Then run this again.',
                )

    # ------------------------------------------------------------------ append

    def change(self, found: Compared) -> RawChange:
        positions = moved_positions(self.source.name, found.different, found.known)
        what = "its landed files were read again" if positions else "its rows were put on their days anew"
        return RawChange(
            positions,
            partial(self.stage_difference, found),
            empty=sorted(found.anew),
            anew=found.anew,
            reason=f"{REFRESH}: {what}",
        )

    def stage_difference(self, found: Compared, timeline: Timeline) -> list[InputRead]:
        days = {each.day for each in found.different} | found.anew
        compares = f"{self.table.name}: Spark compares {format_ranges(days)} with raw"
        with waiting(self.progress, compares), errors_of_workers():
            rows, made_of = self.difference(found)
            files = stage(rows, timeline, {}, table=self.table, other_days=True)
        staged = [f"{timeline.path}/{file.path}" for file in files]
        self.read_otherwise = count_read_otherwise(self.lake.storage, staged, found.unchanged)
        for file in found.to_read:
            self.lake.landing.verify_unchanged(file)
        return made_of


def _files_of(
    storage: Storage, read: InputRead, arrival_days: Collection[date], whole: Collection[date]
) -> dict[date, tuple[AddedFile, ...]]:
    """``whole`` days, and files that may have rows of ``arrival_days`` by their statistics."""
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


# ------------------------------------------------------------------ the rows that differ

_SIDE, _KEPT = "is in the source", "rescued or nothing"
"""No landed field has a space in its name."""
_CONTENT = ["arrival_day", "day", "day_is_arrival", "content_hash", _KEPT]
"""Identify a row within its arrival day's files."""
_PLACE = ["source_file", "source_line"]


def row_difference(source: DataFrame, standing: DataFrame, structures: Collection[str] = ()) -> DataFrame:
    """Deletions and additions that turn ``standing`` rows of raw into those of ``source``.

    Multisets of :data:`_CONTENT` are compared, with unknown fields, also within ``structures``. A row on another line
    or file of its arrival day stays. Among equal rows those stay that are where the source has them, then the first by
    file and line.
    """
    names = source.columns
    both = source.withColumn(_SIDE, F.lit(True)).unionByName(standing.withColumn(_SIDE, F.lit(False)))
    both = both.withColumn(
        _KEPT, F.concat_ws("\u001f", *(F.coalesce(each, F.lit("")) for each in ("rescued", *structures)))
    )
    uneven = both.groupBy(*_CONTENT).agg(F.sum(_sign()).alias("more")).where(F.col("more") != 0)
    # Hardly any content differs: only few rows are numbered, all others just counted.
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


def count_rows(difference: DataFrame, unchanged: Collection[str]) -> tuple[RowCounts, int]:
    """Also counts rows that ``unchanged`` files both add and delete. Runs Spark."""
    deletes, as_landed = F.col("record_kind") == DELETION, F.col("source_file").isin(list(unchanged))
    counts = (
        F.count_if(~deletes),
        F.count_if(deletes),
        F.count_if(as_landed & ~deletes),
        F.count_if(as_landed & deletes),
    )
    by_day = [tuple(row) for row in difference.groupBy("day").agg(*counts).collect()]
    otherwise = sum(min(added, deleted) for *_, added, deleted in by_day)
    return {day: (added, deleted) for day, added, deleted, *_ in by_day}, otherwise


def count_read_otherwise(storage: Storage, staged: Iterable[str], unchanged: Collection[str]) -> int:
    """Rows of ``unchanged`` files that are both deleted and added on the same day."""
    counts: Counter[tuple[str, bool]] = Counter()
    files = pa.array(unchanged, pa.string())
    for path in staged if unchanged else ():
        for batch in storage.parquet_batches(path, _ROWS_AT_ONCE, ("source_file", "record_kind")):
            deletes = pc.equal(batch["record_kind"].filter(pc.is_in(batch["source_file"], files)), DELETION)
            counts.update((path, each) for each in deletes.to_pylist())
    return sum(min(counts[path, True], counts[path, False]) for path in {path for path, _ in counts})


def _sign() -> Column:
    return F.when(F.col(_SIDE), 1).otherwise(-1)
