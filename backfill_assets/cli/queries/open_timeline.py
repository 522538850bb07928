"""``backfill open``: how to read a timeline with Spark SQL, DuckDB and pyarrow."""

from __future__ import annotations

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_table, complete_timeline
from backfill_assets.cli.ids import find_timeline
from backfill_assets.cli.output import say, say_json
from backfill_assets.cli.wiring import current_settings, open_storage
from backfill_assets.errors import InvalidRequest

_EPILOG = """
\b
Examples:
  backfill open with-v2
  backfill open with-v2 --table fact_daily_revenue
  backfill open with-v2 --sql > views.sql          Spark SQL alone, for spark-sql -f
"""


@click.command(name="open", epilog=_EPILOG)
@click.argument("name", shell_complete=complete_timeline)
@click.option(
    "--table",
    "tables",
    multiple=True,
    shell_complete=complete_table,
    metavar="TABLE",
    help="Only these tables.  [default: all]",
)
@click.option("--sql", "only_sql", is_flag=True, help="Print the views of Spark SQL alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def open_command(name: str, tables: tuple[str, ...], only_sql: bool, as_json: bool) -> None:
    """Show how to read the tables as the timeline NAME has them: its own days, and all others as of its base.

    Writes a plain Delta table for each table that it has days of: a log that names files, and no row is copied. It is
    of the timeline as it is now; after the timeline went forward, open it again. It goes with the timeline.
    """
    from backfill_assets.timeline.opened import open_timeline
    from backfill_assets.timeline.places import is_of_campaign

    storage = open_storage(current_settings())
    name = find_timeline(storage, name)
    if is_of_campaign(name):
        raise InvalidRequest(
            f"{name} is the timeline of a campaign: it changes as long as the campaign works.",
            hint=f"backfill show TABLE DAY --on {name}, or backfill diff main {name}",
        )
    opened = open_timeline(storage, name)
    chosen = tables or opened.tables
    if unknown := [table for table in chosen if table not in opened.tables]:
        raise InvalidRequest(
            f"{name} has no days of {', '.join(unknown)}.", hint=f"It has: {', '.join(opened.tables) or 'nothing'}."
        )
    views = {table: opened.view(table) for table in chosen}
    if as_json:
        own = {table: len(held) for table, held in opened.timeline.days.items()}
        values = {table: {"view": view, "own_days": own.get(table, 0)} for table, view in views.items()}
        say_json({"name": name, "revision": opened.timeline.revision, "tables": values})
        return
    if only_sql:
        for view in views.values():
            click.echo(view)
        return
    say(Text("Spark SQL", "bold"))
    for view in views.values():
        click.echo(f"  {view}")
    say(Text("Python: pyarrow and DuckDB", "bold"))
    for line in _recipe(storage.uri(), name, chosen[0]):
        click.echo(f"  {line}")


def _recipe(lakehouse: str, name: str, table: str) -> list[str]:
    return [
        "import duckdb",
        "from backfill_assets.lakehouse.storage import Storage",
        "from backfill_assets.timeline.opened import open_timeline",
        f"rows = open_timeline(Storage({lakehouse!r}), {name!r}).dataset({table!r})",
        "rows.to_table()    # pyarrow",
        f"connection = duckdb.connect().register({table!r}, rows)",
        f"connection.sql('SELECT count(*) FROM {table}')    # DuckDB",  # noqa: S608
    ]
