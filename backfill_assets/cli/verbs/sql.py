from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli import ids
from backfill_assets.cli.options import MOMENT, as_json, on_timeline
from backfill_assets.cli.output import awaited, say_answer, screen, wants_json
from backfill_assets.cli.wiring import open_storage
from backfill_assets.report.answer import Answer

if TYPE_CHECKING:
    from backfill_assets.sql.moments import Moments

READERS = "readers.sql"
_MOST_ON_A_SCREEN = 100


@click.command()
@click.argument("query", required=False)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--as-of", type=MOMENT, help="After this publication, or at this UTC time.  [default: now]")
@on_timeline
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@as_json
def sql(query: str | None, file: Path | None, as_of: str | None, on: str | None, as_csv: bool) -> None:
    """Read all tables at one publication by a SELECT of DuckDB; without QUERY, list the tables.

    \b
    Examples:
      backfill sql "SELECT day, sum(revenue_eur) FROM fact_daily_revenue GROUP BY day ORDER BY day"
      backfill sql "FROM fact_daily_revenue" revenue.parquet       or revenue.csv
      backfill sql "FROM fact_daily_revenue" --as-of 2017-06-01T12:00 --csv
      backfill sql 'SELECT n.day, n.revenue_eur - t.revenue_eur FROM main.fact_daily_revenue n
          JOIN "as of 2017-06-01".fact_daily_revenue t USING (day, store_id)'
      backfill sql readers.sql                                     keep views for all other readers

    All tables of a query are those of the last closed publication, whatever is published meanwhile. Schemas name other
    moments: main is now, "as of MOMENT" a publication or a UTC time, and a timeline has its name. A query can write
    nothing and open no file. Starts no Spark.

    `backfill sql readers.sql` writes this file beside the tables: a view of each, of one moment, for DuckDB and all
    that is built on it. From then on each publication replaces it, until it is deleted.
    """
    if query == READERS:
        _keep_readers()
        return
    if as_csv and (wants_json() or file):
        raise click.UsageError("Give one of --csv, --json and FILE.")
    from backfill_assets.sql.moments import Moments

    storage = open_storage()
    moments = Moments(storage, partial(ids.find_moment, storage), partial(ids.find_timeline, storage))
    where = {"as_of": as_of or "", "on": on or ""}
    if query is None:
        from backfill_assets.answers.sql import tables_answer

        say_answer(tables_answer(moments, **where))
        return
    _select(moments, query, file, where, as_csv=as_csv)


def _select(moments: Moments, query: str, file: Path | None, where: dict[str, str], *, as_csv: bool) -> None:
    from backfill_assets.answers.sql import rows_answer, written_answer
    from backfill_assets.sql.query import select
    from backfill_assets.sql.rows_out import require_format, write_csv, write_file

    if file is not None:
        require_format(file)
    with awaited("Reading"), select(moments, query, **where) as found:
        if file is not None:
            write_file(found, file)
        elif as_csv:
            write_csv(found, sys.stdout)
        else:
            answer = rows_answer(found, None if wants_json() or not screen() else _MOST_ON_A_SCREEN)
    if file is not None:
        answer = written_answer(str(file))
    if not as_csv:
        # A script reads only lines of the table from the pipe.
        say_answer(answer if wants_json() or screen() or file else Answer(parts=(answer.table("rows"),)))


def _keep_readers() -> None:
    from backfill_assets.answers.sql import readers_answer
    from backfill_assets.errors import InvalidRequest
    from backfill_assets.publish.log import PublicationLog, anything_published
    from backfill_assets.publish.readers_file import keep_readers_file

    storage = open_storage()
    if not anything_published(storage):
        raise InvalidRequest("Nothing was published: there is no table to view.", hint="backfill run TABLE --days A..B")
    say_answer(readers_answer(keep_readers_file(PublicationLog(storage))))
