"""From raw to bronze and quarantine by the declared query, which Spark's workers carry out over the files of days."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pyarrow as pa

from backfill_assets.judge.engine import DAY, columns_of, database, select_rows
from backfill_assets.lakehouse.day_files import DayFolders, day_folders, write_days
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.standing_query import standing
from backfill_assets.model.bronze_query import accepted, judged, rejected, rejects
from backfill_assets.model.declaration import Table
from backfill_assets.model.refinement import Refinement
from backfill_assets.rebuild.refine_tasks import Cut, RefineTask, refine_tasks
from backfill_assets.spark.worker_queries import columns_written, sql_of, stored, with_hashes
from backfill_assets.spark.workers import in_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_RAW, _JUDGED, _ACCEPTED, _REJECTS, _REJECTED = "raw", "judged", "accepted", "rejects", "rejected"


class Refined(NamedTuple):
    """The files with accepted rows, and those with rejected ones."""

    accepted: tuple[AddedFile, ...]
    rejected: tuple[AddedFile, ...]


@dataclass(frozen=True)
class Queries:
    """The declared query in DuckDB's SQL: what is judged of ``raw``, and both parts of what was ``judged``.

    Of those that are to be rejected, the ``rejects`` are taken together first: a function asked of a few rows at a
    time costs as much as one that is asked of two thousand.
    """

    judged: str
    accepted: str
    rejects: str
    rejected: str


@dataclass(frozen=True)
class RefineJob:
    """What all tasks of one job share; no key of a store is in it."""

    root: str
    columns: pa.Schema
    queries: Mapping[Cut, Queries]
    bronze: DayFolders
    quarantine: DayFolders

    def __call__(self, task: RefineTask) -> Refined:
        """Carry out one task in a worker."""
        storage, asked, name = Storage(self.root), self.queries[task.cut], f"part-{uuid4().hex[:12]}"
        with database(threads=1) as connection:
            raw = select_rows(connection, storage, self.columns, DAY, task.files)
            connection.execute(f"CREATE TEMP TABLE {_JUDGED} AS {_over(raw, asked.judged)}")
            accepted_files = write_days(stored(connection, _ACCEPTED, asked.accepted), self.bronze, name)
            connection.execute(f"CREATE TEMP TABLE {_REJECTS} AS {asked.rejects}")
            rejected_files = write_days(stored(connection, _REJECTED, asked.rejected), self.quarantine, name)
        return Refined(tuple(accepted_files), tuple(rejected_files))


def refine(
    spark: SparkSession,
    refinement: Refinement,
    raw: Table,
    files: Mapping[date, Sequence[AddedFile]],
    with_deletions: Collection[date],
    into: Sequence[tuple[Table, Timeline]],
) -> Refined:
    """Write the accepted rows of ``files`` of ``raw`` and the rejected ones ``into`` the timelines of their tables.

    One job of Spark. No log names the files yet.
    """
    tasks = refine_tasks(files, with_deletions)
    bronze, quarantine = (day_folders(timeline, table, columns_written(table)) for table, timeline in into)
    tables = (into[0][0], into[1][0])
    job = RefineJob(
        into[0][1].storage.root,
        columns_of(raw.contract),
        {cut: _queries(refinement, raw, tables, cut) for cut in {task.cut for task in tasks}},
        bronze,
        quarantine,
    )
    done = in_workers(spark, job, tasks)
    return Refined(
        tuple(file for each in done for file in each.accepted), tuple(file for each in done for file in each.rejected)
    )


def prepare(refinement: Refinement, raw: Table, tables: Sequence[Table]) -> None:
    """Make the queries that a whole day asks, ahead of :func:`refine`: about a second."""
    _queries(refinement, raw, (tables[0], tables[1]), Cut())


@cache
def _queries(refinement: Refinement, raw: Table, tables: tuple[Table, Table], cut: Cut) -> Queries:
    import ibis

    rows = ibis.table(ibis.Schema.from_pyarrow(columns_of(raw.contract)), name=_RAW)
    of_judged = judged(standing(rows) if cut.has_deletions else rows, refinement, (cut.part, cut.parts))
    known = ibis.table(of_judged.schema(), name=_JUDGED)
    of_rejects = rejects(known)
    rejected_rows = rejected(ibis.table(of_rejects.schema(), name=_REJECTS), refinement)
    return Queries(
        judged=sql_of(of_judged),
        accepted=sql_of(with_hashes(accepted(known, refinement), tables[0])),
        rejects=sql_of(of_rejects),
        rejected=sql_of(with_hashes(rejected_rows, tables[1])),
    )


def _over(raw: str, asked: str) -> str:
    return f"WITH {_RAW} AS ({raw}) SELECT * FROM ({asked})"  # noqa: S608 - both are our own queries
