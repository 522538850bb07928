"""Rows of Spark in files of a folder: the judge reads nothing else, there or as in a bucket."""

from __future__ import annotations

from datetime import date
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from backfill_assets.judge.engine import DayFiles, files_by_day
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.rows import write
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.model.declaration import Metrics, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class InAStore(Storage):
    """Read as an object store is."""

    @property
    def is_folder(self) -> bool:
        return False


def written(storage: Storage, rows: DataFrame, table: Table) -> DayFiles:
    """The files of ``rows`` below ``storage``."""
    timeline = Timeline(storage, table.name, "written")
    return files_by_day(timeline.path, write(rows, timeline, table))


def measure_rows(rows: DataFrame, table: Table) -> dict[date, Metrics]:
    """The metrics of ``rows``, by day."""
    with TemporaryDirectory() as folder:
        storage = Storage(folder)
        return measure_files(storage, table, written(storage, rows, table), lambda: rows)
