"""From landed files to raw by the declared query, run by Spark's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable, SourceUnreadable
from backfill_assets.judge.engine import database
from backfill_assets.lakehouse.day_files import DayFolders, day_folders, write_days
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.landing.raw_query import MAY_NEST, PLACE, raw_rows, raw_rows_to_write, register, values_read
from backfill_assets.landing.records import format_of
from backfill_assets.landing.zone import LandedFile, LandingZone
from backfill_assets.model.declaration import Source, Table
from backfill_assets.model.landed_format import Format, FormatOfValues, typed_columns
from backfill_assets.spark.worker_queries import ROWS_AT_ONCE, columns_written, sql_of, streamed, with_hashes
from backfill_assets.spark.workers import carried_by_value, in_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHARED_BYTES = 4_000_000
"""Smaller files share a task up to this: each task writes files of its own."""
_RECORDS = "records"
_TEXTS_ALONE = pa.schema([])


class LandingFile(NamedTuple):
    path: str
    source_file: str
    arrival_day: date
    size: int
    most: int | None = None


def files_in(zone: LandingZone, files: Iterable[LandedFile]) -> list[LandingFile]:
    """Raises :class:`SourceUnreadable` for links out of the landing zone."""
    return [LandingFile(str(zone.locate(each.path)), each.path, each.arrival_day, each.size) for each in files]


# ------------------------------------------------------------------ asked where the records are read


@dataclass(frozen=True)
class LinesQuery:
    """SQL over landed records. The worker reads the token key; no task has it."""

    asked: str
    format: Format
    fields: tuple[str, ...]
    token_key_file: str
    values: pa.Schema = _TEXTS_ALONE

    @contextmanager
    def rows(self, files: Iterable[LandingFile], at_once: int = ROWS_AT_ONCE) -> Iterator[Iterator[pa.RecordBatch]]:
        """Batches of rows, in bounded memory. Raises :class:`SourceUnreadable`, also within the block, and
        :class:`LakehouseUnusable` for an unusable token key.
        """
        unreadable: list[SourceUnreadable] = []
        try:
            with database(threads=1) as connection:
                register(connection, self.token_key_file)
                read = pa.RecordBatchReader.from_batches(self._columns, self._records(files, unreadable))
                connection.register(_RECORDS, read)
                yield streamed(connection, self.asked, at_once)
        except LakehouseUnusable:
            if unreadable:  # DuckDB reports a failed reader in its own words
                raise unreadable[0] from None
            raise

    @property
    def _columns(self) -> pa.Schema:
        return _columns_read(self.format, self.fields, self.values)

    def _records(self, files: Iterable[LandingFile], unreadable: list[SourceUnreadable]) -> Iterator[pa.RecordBatch]:
        try:
            for file in files:
                for batch in _first(self._records_of(Path(file.path)), file.most):
                    yield self._placed(batch, file)
        except SourceUnreadable as error:
            unreadable.append(error)
            raise

    def _records_of(self, path: Path) -> Iterator[pa.RecordBatch]:
        if isinstance(self.format, FormatOfValues):
            return self.format.typed_records(path, self.fields, self.values)
        return self.format.records(path, self.fields)

    def _placed(self, batch: pa.RecordBatch, file: LandingFile) -> pa.RecordBatch:
        of_file = {"source_file": file.source_file, "arrival_day": file.arrival_day}
        place = [
            pa.repeat(pa.scalar(of_file[each.name], each.type), len(batch)) if each.name in of_file else batch["number"]
            for each in PLACE
        ]
        may_nest = [] if self.format.of_json else [pa.repeat(_may_nest(batch["fields"]), len(batch))]
        return pa.record_batch([*batch.columns[1:], *place, *may_nest], schema=self._columns)


def _columns_read(format_: Format, fields: Sequence[str], values: pa.Schema) -> pa.Schema:
    may_nest = [] if format_.of_json else [(MAY_NEST, pa.bool_())]
    return pa.schema([*list(typed_columns(format_, fields, values))[1:], *PLACE, *may_nest])


def _may_nest(fields: pa.StructArray) -> bool:
    texts = (bytes(each.buffers()[2] or b"") for each in fields.flatten())
    return any(sign in text for text in texts for sign in (b"{", b"["))


def _first(batches: Iterator[pa.RecordBatch], most: int | None) -> Iterator[pa.RecordBatch]:
    if most is None:
        yield from batches
        return
    for batch in batches:
        yield batch[:most]
        most -= len(batch)
        if most <= 0:
            return


def lines_query(source: Source, token_key_file: str, table: Table | None = None) -> LinesQuery:
    asked, key = _query(source, table), token_key_file if source.personal_fields else ""
    carried_by_value(format_of(source))
    return LinesQuery(asked, format_of(source), source.value_fields, key, values_read(source))


def prepare(source: Source, table: Table) -> None:
    _query(source, table)


@cache
def _query(source: Source, table: Table | None) -> str:
    import ibis

    columns = _columns_read(format_of(source), source.value_fields, values_read(source))
    records = ibis.table(ibis.Schema.from_pyarrow(columns), name=_RECORDS)
    return sql_of(with_hashes(raw_rows_to_write(records, source), table) if table else raw_rows(records, source))


# ------------------------------------------------------------------ written by workers


@dataclass(frozen=True)
class LandingJob:
    query: LinesQuery
    raw: DayFolders

    def __call__(self, files: Sequence[LandingFile]) -> list[AddedFile]:
        with self.query.rows(files) as rows:
            return write_days(rows, self.raw, f"part-{clock.token(6)}")


def landing_job(source: Source, token_key_file: str, into: tuple[Table, Timeline]) -> LandingJob:
    table, timeline = into
    return LandingJob(lines_query(source, token_key_file, table), day_folders(timeline, table, columns_written(table)))


def land(
    spark: SparkSession, source: Source, files: Sequence[LandingFile], token_key_file: str, into: tuple[Table, Timeline]
) -> list[AddedFile]:
    """Write raw rows into a timeline in one Spark job; no log names the files yet."""
    job = landing_job(source, token_key_file, into)
    return [file for written in in_workers(spark, job, landing_tasks(files)) for file in written]


def landing_tasks(files: Iterable[LandingFile]) -> list[list[LandingFile]]:
    """Files of one arrival day, small ones together; the largest task first."""
    tasks: list[list[LandingFile]] = []
    for _, some in groupby(sorted(files, key=lambda file: (file.arrival_day, file.source_file)), _arrival_day):
        left = _SHARED_BYTES
        tasks.append([])
        for file in some:
            if file.size > left and tasks[-1]:
                tasks.append([])
                left = _SHARED_BYTES
            tasks[-1].append(file)
            left -= file.size
    return sorted(tasks, key=lambda task: -sum(file.size for file in task))


def _arrival_day(file: LandingFile) -> date:
    return file.arrival_day
