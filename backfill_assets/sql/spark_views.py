"""One publication's tables as temporary views of Spark SQL, embedded or through Spark Connect."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.settings import Settings
from backfill_assets.sql.moments import Moments, no_table, schema_of, table_in
from backfill_assets.state.view import View
from backfill_assets.timeline.opened import address_of, refuse_of_campaign

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_tables(
    spark: SparkSession, *, as_of: str = "", on: str = "", tables: Collection[str] = (), lakehouse: str = ""
) -> dict[str, DataFrame]:
    """Make a temporary view of each of ``tables`` (none: all), and return their rows by table.

    Of two calls, the first's rows stay at its moment. Raises :class:`~backfill_assets.errors.InvalidRequest` for an
    unknown moment, timeline or table.
    """
    storage = Storage(lakehouse or str(Settings.from_environment().lakehouse))
    view = Moments(storage).view(schema_of(as_of, on), tables)
    refuse_of_campaign(view)
    named = {name: table_in(view, name) for name in tables or view.tables}
    found = {}
    for name, table in named.items():
        if table is None:
            raise no_table(view, name)
        found[table] = _rows(spark, view, table)
    for table, rows in found.items():
        rows.createOrReplaceTempView(table)
    return found


def _rows(spark: SparkSession, view: View, table: str) -> DataFrame:
    options: Mapping[str, str] | None = address_of(view, table)
    if options is None:
        raise LakehouseUnusable(
            f"{table} cannot be read as of {view.name} by Spark: Delta's log of that version was cleaned up.",
            hint="Name a newer publication (backfill history), or read it by: backfill sql",
        )
    return spark.read.format("delta").options(**options).load()
