"""Reads a timeline with any engine: as an Arrow dataset, or as a plain Delta table that only names files.

    revenue = open_timeline(storage, "with-v2").dataset("fact_daily_revenue")
    revenue.to_table(filter=pc.field("day") == date(2017, 3, 1))                  # pyarrow
    duckdb.connect().register("revenue", revenue)                                 # DuckDB: select ... from revenue

The plain Delta table names its files by full address: Spark and readers built on Delta's kernel open it, delta-rs does
not. A revision of a timeline never changes.
"""

from __future__ import annotations

from collections.abc import Collection

from deltalake.transaction import AddAction, create_table_with_add_actions

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.delta_log import AddedFile, commit_file, oldest_version
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN
from backfill_assets.lakehouse.named_timelines import NamedTimeline, opened_folder
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.state.view import View
from backfill_assets.timeline.view import find_place, is_of_campaign


def open_timeline(storage: Storage, name: str) -> View:
    """The newest revision; raises :class:`InvalidRequest` for an unknown name."""
    return View.of(storage, find_place(storage, name, clock.now()))


def plain_table(opened: View, table: str) -> str:
    """Write the log of a plain Delta table once; returns its address for Spark."""
    storage, timeline = opened.storage, _timeline_of(opened)
    path = f"{opened_folder(timeline)}/{timeline.name}-{timeline.revision:06d}/{table}"
    if not storage.exists(commit_file(path, 0)):
        create_table_with_add_actions(
            storage.uri(path),
            opened.schema(table),
            [_add(storage, table, file) for held in opened.held(table).values() for file in held.files],
            partition_by=[PARTITION_COLUMN],
            storage_options=dict(storage.options),
        )
    return storage.spark_uri(path)


def address_of(opened: View, table: str) -> dict[str, str] | None:
    """Options for Spark's Delta reader: the plain Delta table of ``table``, or main at its base if the timeline has no
    days of it and main's log still has that version. None if there is neither.
    """
    version = opened.versions.get(table)
    if table not in opened.over and version is not None and not _is_gone(opened.storage, table, version):
        return {"path": opened.storage.spark_uri(table), "versionAsOf": str(version)}
    return None if opened.timeline is None else {"path": plain_table(opened, table)}


def sql_view(opened: View, table: str) -> str:
    options = address_of(opened, table) or {}
    listed = ", ".join(f"{name} '{_escape(value)}'" for name, value in options.items())
    return f"CREATE OR REPLACE TEMPORARY VIEW {table} USING delta OPTIONS ({listed});"


def sql_views(opened: View, tables: Collection[str] = ()) -> dict[str, str]:
    """Views by table; raises :class:`InvalidRequest` for a table without days, and for a campaign's timeline."""
    refuse_of_campaign(opened)
    for table in tables:
        opened.held(table)
    return {table: sql_view(opened, table) for table in tables or opened.tables}


def refuse_of_campaign(opened: View) -> None:
    if is_of_campaign(opened.name):
        name = shown_name(opened.name)
        raise InvalidRequest(
            f"{name} is a campaign: its timeline changes as long as it works.",
            hint=f"backfill show TABLE DAY --on {name}, or backfill diff main {name}",
        )


def _timeline_of(opened: View) -> NamedTimeline:
    if opened.timeline is None:
        raise AssertionError(f"{opened.name} is no timeline.")
    return opened.timeline


def _is_gone(storage: Storage, table: str, version: int) -> bool:
    oldest = oldest_version(storage, table)
    return oldest is None or oldest > version


def _add(storage: Storage, table: str, file: AddedFile) -> AddAction:
    # Delta-rs percent-encodes the address itself.
    address = storage.spark_uri(f"{table}/{file.path}")
    whole = address if "://" in address else f"file://{address}"
    return AddAction(whole, file.size, {PARTITION_COLUMN: file.day}, file.modified_ms, True, file.stats)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def recipe_of(opened: View, table: str) -> list[str]:
    return [
        "import duckdb",
        "from backfill_assets.lakehouse.storage import Storage",
        "from backfill_assets.timeline.opened import open_timeline",
        f"rows = open_timeline(Storage({opened.storage.uri()!r}), {opened.name!r}).dataset({table!r})",
        "rows.to_table()    # pyarrow",
        f"connection = duckdb.connect().register({table!r}, rows)",
        f"connection.sql('SELECT count(*) FROM {table}')    # DuckDB",  # noqa: S608
    ]
