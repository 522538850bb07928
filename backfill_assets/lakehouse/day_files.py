"""Writes Arrow batches of many days in Spark's workers, a file a day, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.lakehouse.written_files import statistics, write_folder
from backfill_assets.model.declaration import Table
from backfill_assets.model.measure import is_hash

_DIFFERENT_IN_EACH_ROW = ("content_hash", "source_line")
_ROWS_OF_A_GROUP, _ROWS_AT_ONCE = 250_000, 1_000_000
"""Rows of one day, and of all together, before they are written."""


@dataclass(frozen=True)
class DayFolders:
    """``<table>/<folder>/day=<day>/<name>.parquet``. ``schema`` lacks the day; ``repeated`` columns get a
    dictionary.
    """

    root: str
    table: str
    folder: str
    schema: pa.Schema
    repeated: tuple[str, ...] = ()

    def path(self, day: str, name: str) -> str:
        return f"{self.folder}/{PARTITION_COLUMN}={day}/{name}.parquet"


def day_folders(timeline: Timeline, table: Table, columns: pa.Schema) -> DayFolders:
    files = pa.schema([each for each in columns if each.name != PARTITION_COLUMN])
    never = {*_DIFFERENT_IN_EACH_ROW, *(table.key if len(table.key) == 1 else ())}
    repeated = [
        each.name
        for each in files
        if each.name not in never and not is_hash(each.name) and not pa.types.is_timestamp(each.type)
    ]
    return DayFolders(timeline.storage.root, timeline.path, write_folder(), files, tuple(repeated))


def write_days(batches: Iterable[pa.RecordBatch], target: DayFolders, name: str) -> list[AddedFile]:
    """Rows may come in any order.

    Raises :class:`PublicationRefused` for a row without a day, :class:`LakehouseUnusable` for a file of other rows than
    given.
    """
    with ExitStack() as open_files:
        written = _Written(target, name, open_files)
        for batch in batches:
            for day, rows in _by_day(batch, target):
                written.add(day, rows)
        written.flush(0)
    return written.files()


def _by_day(batch: pa.RecordBatch, target: DayFolders) -> Iterator[tuple[str, pa.Table]]:
    days = batch.column(PARTITION_COLUMN)
    rows = pa.Table.from_batches([batch]).select(target.schema.names).cast(target.schema)
    if days.null_count:
        raise PublicationRefused(
            f"{target.table}: a row without a {PARTITION_COLUMN} was computed.",
            hint="Each row has to have the day it belongs to; correct what computes it in a new version.",
        )
    different = pc.unique(days).to_pylist()
    for day in different:
        yield str(day), rows if len(different) == 1 else rows.filter(pc.equal(days, pa.scalar(day, days.type)))


@dataclass
class _Written:
    target: DayFolders
    name: str
    open_files: ExitStack
    waiting: dict[str, list[pa.Table]] = field(default_factory=dict)
    writers: dict[str, pq.ParquetWriter] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def add(self, day: str, rows: pa.Table) -> None:
        self.waiting.setdefault(day, []).append(rows)
        if _count(self.waiting[day]) >= _ROWS_OF_A_GROUP:
            self.write(day)
        if sum(map(_count, self.waiting.values())) >= _ROWS_AT_ONCE:
            self.flush(_ROWS_AT_ONCE // 2)

    def flush(self, left: int) -> None:
        for day in sorted(self.waiting, key=lambda day: _count(self.waiting[day]), reverse=True):
            if sum(map(_count, self.waiting.values())) > left:
                self.write(day)

    def write(self, day: str) -> None:
        rows = pa.concat_tables(self.waiting.pop(day))
        if day not in self.writers:
            self.writers[day] = self.open_files.enter_context(self.opened(day))
        self.rows[day] = self.rows.get(day, 0) + rows.num_rows
        self.writers[day].write_table(rows, row_group_size=rows.num_rows)

    def opened(self, day: str) -> AbstractContextManager[pq.ParquetWriter]:
        target = self.target
        path = f"{target.table}/{target.path(day, self.name)}"
        return Storage(target.root).parquet_writer(path, target.schema, target.repeated)

    def files(self) -> list[AddedFile]:
        """By footers: statistics say what is on disk."""
        return [self.file(day, count) for day, count in sorted(self.rows.items())]

    def file(self, day: str, count: int) -> AddedFile:
        storage, path = Storage(self.target.root), self.target.path(day, self.name)
        stored = storage.stat(f"{self.target.table}/{path}")
        footer = storage.parquet_footer(stored.path)
        if footer.num_rows != count:
            raise LakehouseUnusable(
                f"{storage.uri(stored.path)} holds {footer.num_rows:,} rows and was given {count:,}.",
                hint="Nothing was published. Run the days again: they are written to a new folder.",
            )
        return AddedFile(path, day, stored.size, stored.modified_ms, statistics(footer))


def _count(rows: Sequence[pa.Table]) -> int:
    return sum(each.num_rows for each in rows)
