"""Reads a timeline with any engine: as an Arrow dataset, or as a plain Delta table that only names files.

    revenue = open_timeline(storage, "with-v2").dataset("fact_daily_revenue")
    revenue.to_table(filter=pc.field("day") == date(2017, 3, 1))                  # pyarrow
    duckdb.connect().register("revenue", revenue)                                 # DuckDB: select ... from revenue

The plain Delta table names its files by full address: Spark and readers built on Delta's kernel open it, delta-rs does
not. A revision of a timeline never changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

from deltalake.transaction import AddAction, create_table_with_add_actions

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.arrow_dataset import dataset_of_files
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.delta_log import AddedFile, oldest_version
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.named_timelines import NamedTimeline, opened_folder
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.state.view import View
from backfill_assets.timeline.view import StaleDays, find_place, is_of_campaign, stale_days, tables_around

if TYPE_CHECKING:
    import pyarrow.dataset as ds


@dataclass(frozen=True)
class OpenedTimeline:
    storage: Storage
    timeline: NamedTimeline

    @property
    def tables(self) -> list[str]:
        return sorted({*self.timeline.days, *self.timeline.base.versions})

    @cached_property
    def shown(self) -> View:
        return View.of(self.storage, self.timeline)

    def held(self, table: str) -> dict[date, DayRecord]:
        """Every day of ``table``, ascending; raises :class:`InvalidRequest` if there is none."""
        held = self.shown.records([table])[table]
        if not held:
            raise InvalidRequest(
                f"{self.timeline.name} has no days of {table}.", hint=f"It has: {', '.join(self.tables) or 'nothing'}."
            )
        return held

    def stale_days(self, steps: Sequence[Step]) -> StaleDays:
        base, around = self.timeline.base, tables_around(steps, self.timeline.days)
        published = View.at(self.storage, base).records(around)
        return stale_days(steps, self.timeline, published)

    def files(self, table: str) -> list[AddedFile]:
        return [file for held in self.held(table).values() for file in held.files]

    def dataset(self, table: str) -> ds.Dataset:
        """Lazy; a filter on ``day`` opens only the files of those days."""
        return dataset_of_files(self.storage, table, self.files(table), self.shown.schema(table))

    def plain_table(self, table: str) -> str:
        """Write the log of a plain Delta table once; returns its address for Spark."""
        path = f"{opened_folder(self.timeline)}/{self.timeline.name}-{self.timeline.revision:06d}/{table}"
        if not self.storage.exists(f"{path}/_delta_log/{0:020d}.json"):
            create_table_with_add_actions(
                self.storage.uri(path),
                self.shown.schema(table),
                [self._add(table, file) for file in self.files(table)],
                partition_by=[PARTITION_COLUMN],
                storage_options=dict(self.storage.options),
            )
        return self.storage.spark_uri(path)

    def view(self, table: str) -> str:
        """Spark SQL of a view on the plain Delta table of ``table``, or on main at its base.

        Main is used if the timeline has no days of ``table`` and main's log still has that version.
        """
        if table in self.timeline.days or self._is_gone(table):
            options = {"path": self.plain_table(table)}
        else:
            version = self.timeline.base.versions[table]
            options = {"path": self.storage.spark_uri(table), "versionAsOf": str(version)}
        listed = ", ".join(f"{name} '{_escape(value)}'" for name, value in options.items())
        return f"CREATE OR REPLACE TEMPORARY VIEW {table} USING delta OPTIONS ({listed});"

    def views(self, tables: Collection[str] = ()) -> dict[str, str]:
        """Views by table; raises :class:`InvalidRequest` for a table without days.

        Campaigns are refused: their timelines change while they work.
        """
        if is_of_campaign(self.timeline.name):
            name = shown_name(self.timeline.name)
            raise InvalidRequest(
                f"{name} is a campaign: its timeline changes as long as it works.",
                hint=f"backfill show TABLE DAY --on {name}, or backfill diff main {name}",
            )
        for table in tables:
            self.held(table)
        return {table: self.view(table) for table in tables or self.tables}

    def _is_gone(self, table: str) -> bool:
        """Whether Delta's log of the base version was cleaned up."""
        oldest = oldest_version(self.storage, table)
        return oldest is None or oldest > self.timeline.base.versions[table]

    def _add(self, table: str, file: AddedFile) -> AddAction:
        # Delta-rs percent-encodes the address itself.
        address = self.storage.spark_uri(f"{table}/{file.path}")
        whole = address if "://" in address else f"file://{address}"
        return AddAction(whole, file.size, {PARTITION_COLUMN: file.day}, file.modified_ms, True, file.stats)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def open_timeline(storage: Storage, name: str) -> OpenedTimeline:
    """The newest revision; raises :class:`InvalidRequest` for an unknown name."""
    return OpenedTimeline(storage, find_place(storage, name, clock.now()))


def recipe_of(opened: OpenedTimeline, table: str) -> list[str]:
    return [
        "import duckdb",
        "from backfill_assets.lakehouse.storage import Storage",
        "from backfill_assets.timeline.opened import open_timeline",
        f"rows = open_timeline(Storage({opened.storage.uri()!r}), {opened.timeline.name!r}).dataset({table!r})",
        "rows.to_table()    # pyarrow",
        f"connection = duckdb.connect().register({table!r}, rows)",
        f"connection.sql('SELECT count(*) FROM {table}')    # DuckDB",  # noqa: S608
    ]
