"""Refines raw into bronze and quarantine: days in Spark's workers, batches in this process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from backfill_assets import clock
from backfill_assets.judge.changed_keys import KeyedFiles, select_rows_of_keys
from backfill_assets.judge.engine import DAY, columns_of, database, files_by_day, select_rows
from backfill_assets.lakehouse.day_files import DayFolders, day_folders, write_days
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.model.bronze_query import rejects
from backfill_assets.model.declaration import Table
from backfill_assets.model.refinement import Refinement
from backfill_assets.rebuild.refine_tasks import Cut, RefineTask, refine_tasks
from backfill_assets.spark.worker_queries import columns_written, sql_of, stored, with_hashes
from backfill_assets.spark.workers import in_workers

if TYPE_CHECKING:
    import ibis
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession


_RAW, _JUDGED, _ACCEPTED, _REJECTS, _REJECTED = "raw", "judged", "accepted", "rejects", "rejected"


class Refined(NamedTuple):
    accepted: tuple[AddedFile, ...]
    rejected: tuple[AddedFile, ...]


@dataclass(frozen=True)
class Queries:
    """DuckDB's SQL: ``judged`` reads raw, the others what was judged. ``rejects`` are collected first: a Python
    function costs as much for a few rows as for 2,000.
    """

    judged: str
    accepted: str
    rejects: str
    rejected: str


@dataclass(frozen=True)
class RefineJob:
    root: str
    columns: pa.Schema
    queries: Mapping[Cut, Queries]
    bronze: DayFolders
    quarantine: DayFolders

    def __call__(self, task: RefineTask) -> Refined:
        storage, asked, name = Storage(self.root), self.queries[task.cut], _file_name()
        with database(threads=1) as connection:
            raw = select_rows(connection, storage, self.columns, DAY, task.files)
            connection.execute(f"CREATE TEMP TABLE {_JUDGED} AS {_over(raw, asked.judged)}")
            accepted_files = write_days(stored(connection, _ACCEPTED, asked.accepted), self.bronze, name)
            rejected_files = _write_rejected(connection, asked, self.quarantine, name)
        return Refined(tuple(accepted_files), tuple(rejected_files))


def refine(
    spark: SparkSession,
    refinement: Refinement,
    raw: Table,
    files: Mapping[date, Sequence[AddedFile]],
    with_deletions: Collection[date],
    into: Sequence[tuple[Table, Timeline]],
) -> Refined:
    """Write accepted and rejected rows ``into`` timelines, in one Spark job; no log names the files yet."""
    tasks = refine_tasks(files, with_deletions)
    bronze, quarantine = _folders(into)
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


def refine_gained(
    refinement: Refinement,
    raw: KeyedFiles,
    before: KeyedFiles,
    changed: pa.Table,
    into: Sequence[tuple[Table, Timeline]],
) -> Refined:
    """Write the winners of all ``changed`` keys, and newly rejected rows, from new files of ``raw``; rows in files
    ``before`` compete. In this process: a Spark job takes longer for a micro-batch.
    """
    (bronze, timeline), (quarantine, _) = into
    storage, asked = timeline.storage, _queries(refinement, raw.table, (bronze, quarantine), Cut())
    accepted_into, rejected_into = _folders(into)
    with database(threads=1) as connection:
        files = files_by_day(raw.table.name, raw.files)
        rows = select_rows(connection, storage, columns_of(raw.table.contract), DAY, files)
        connection.execute(f"CREATE TEMP TABLE {_JUDGED} AS {_over(rows, asked.judged)}")
        # Before older rows are added: those were rejected earlier.
        rejected = _write_rejected(connection, asked, rejected_into, _file_name())
        if before.files:
            rows = select_rows_of_keys(connection, storage, refinement, changed, before)
            connection.execute(f"INSERT INTO {_JUDGED} {_over(rows, asked.judged)}")
        accepted = write_days(stored(connection, _ACCEPTED, asked.accepted), accepted_into, _file_name())
    return Refined(tuple(accepted), tuple(rejected))


def _write_rejected(connection: DuckDBPyConnection, asked: Queries, into: DayFolders, name: str) -> list[AddedFile]:
    connection.execute(f"CREATE TEMP TABLE {_REJECTS} AS {asked.rejects}")
    return write_days(stored(connection, _REJECTED, asked.rejected), into, name)


def _folders(into: Sequence[tuple[Table, Timeline]]) -> tuple[DayFolders, DayFolders]:
    bronze, quarantine = (day_folders(timeline, table, columns_written(table)) for table, timeline in into)
    return bronze, quarantine


def _file_name() -> str:
    return f"part-{clock.token(6)}"


def prepare(refinement: Refinement, raw: Table, tables: Sequence[Table]) -> None:
    """Takes about a second, for whole days."""
    _queries(refinement, raw, (tables[0], tables[1]), Cut())


@cache
def _queries(refinement: Refinement, raw: Table, tables: tuple[Table, Table], cut: Cut) -> Queries:
    import ibis

    rows = ibis.table(ibis.Schema.from_pyarrow(columns_of(raw.contract)), name=_RAW)
    judged = refinement.judged(rows, (cut.part, cut.parts), has_deletions=cut.has_deletions)
    return Queries(sql_of(judged), *_of_judged(refinement, tables, judged.schema()))


@cache
def _of_judged(refinement: Refinement, tables: tuple[Table, Table], judged: ibis.Schema) -> tuple[str, str, str]:
    import ibis

    every = ibis.table(judged, name=_JUDGED)
    of_rejects = rejects(every)
    accepted = refinement.tables(every)[tables[0].name]
    rejected = refinement.tables(ibis.table(of_rejects.schema(), name=_REJECTS))[tables[1].name]
    return sql_of(with_hashes(accepted, tables[0])), sql_of(of_rejects), sql_of(with_hashes(rejected, tables[1]))


def _over(raw: str, asked: str) -> str:
    return f"WITH {_RAW} AS ({raw}) SELECT * FROM ({asked})"  # noqa: S608 - both are our own queries
