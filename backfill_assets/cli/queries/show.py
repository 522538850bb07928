"""``backfill show``: one day of one table, what is known about it and its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import click
from rich.cells import cell_len

from backfill_assets.cli.output import console, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_storage
from backfill_assets.days import DayRange, parse_day

if TYPE_CHECKING:
    from backfill_assets.lakehouse.delta_log import AddedFile
    from backfill_assets.lakehouse.records import DayState
    from backfill_assets.lakehouse.storage import Storage

_EPILOG = """
\b
Examples:
  backfill show fact_daily_revenue --day 2017-03-01
  backfill show quarantine_sales --day 2017-03-01 --limit 100 --json
  backfill show fact_daily_revenue --day 2017-03-01 --publication <publication>
  backfill show fact_daily_revenue --day 2017-03-01 --on with-v2
"""


@dataclass(frozen=True)
class _Day:
    """One day of a table at one version; ``status`` is only known of the present."""

    version: int | None
    status: str | None
    state: DayState | None
    files: tuple[AddedFile, ...]
    rows: list[dict[str, Any]]

    def facts(self) -> dict[str, Any]:
        content = self.state.content if self.state else None
        known = asdict(content) if content else {}
        return {
            "status": self.status,
            "publication": self.state.publication if self.state else None,
            "table_version": self.version,
            **known,
            "metrics": known.get("metrics", {}),
            "files": [{"path": file.path, "bytes": file.size, "rows": file.rows} for file in self.files],
        }


@click.command(epilog=_EPILOG)
@click.argument("table")
@click.option("--day", "day_text", metavar="YYYY-MM-DD", required=True, help="The day.")
@click.option("--limit", type=click.IntRange(min=0), default=10, show_default=True, help="The most rows to show.")
@click.option("--publication", metavar="ID", help="Show the day as it was after this publication.  [default: now]")
@click.option("--on", "name", metavar="NAME", help="Show the day as it is on this timeline.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(table: str, day_text: str, limit: int, publication: str | None, name: str | None, as_json: bool) -> None:
    """Show one day of TABLE: status, publication, checksum, metrics, files, and its first rows.

    Reads published data as of one entry of the publication log. Starts no Spark.
    """
    from backfill_assets.datasets import registry

    registry.table(table)
    day = parse_day(day_text)
    if name is not None and publication is not None:
        raise click.UsageError("Give one of --on NAME and --publication ID.")
    storage = open_storage(current_settings())
    found = (
        _look(storage, table, day, limit, publication)
        if name is None
        else _look_on_timeline(storage, table, day, limit, name)
    )
    if as_json:
        say_json({"table": table, "day": day, **found.facts(), "sample": found.rows})
        return
    _say_facts(table, day, found)
    say_rows(found.rows)


def _look(storage: Storage, table: str, day: date, limit: int, publication: str | None) -> _Day:
    from backfill_assets.lakehouse.delta_log import read_log
    from backfill_assets.published.reading import published_day, published_versions

    version = published_versions(storage, publication).get(table)
    status = None if publication else _status(storage, table, day)
    if version is None:
        return _Day(None, status, None, (), [])
    return _Day(
        version=version,
        status=status,
        state=published_day(storage, table, day, publication),
        files=read_log(storage, table, version).of_days([day])[day],
        rows=_rows(storage, table, day, limit, publication),
    )


def _look_on_timeline(storage: Storage, table: str, day: date, limit: int, name: str) -> _Day:
    import pyarrow.compute as pc

    from backfill_assets.lakehouse.records import DayState
    from backfill_assets.timeline.opened import open_timeline

    opened = open_timeline(storage, name)
    held = opened.held(table).get(day)
    if held is None:
        return _Day(None, f"nothing on {name}", None, (), [])
    own = day in opened.timeline.held(table)
    state = DayState(
        table, day, publication="", sequence=opened.timeline.base.sequence, physical="", content=held.content
    )
    rows = opened.dataset(table).head(limit, filter=pc.field("day") == day).to_pylist() if held.files else []
    return _Day(
        version=None if own else opened.timeline.base.versions.get(table),
        status=f"a day of {name}" if own else f"read through to the base of {name}",
        state=state,
        files=held.files,
        rows=rows,
    )


def _status(storage: Storage, table: str, day: date) -> str:
    from backfill_assets.datasets import registry
    from backfill_assets.plan.status import day_statuses
    from backfill_assets.published.observed import observe

    observed = observe(storage, [each.name for each in registry.tables()])
    return day_statuses(observed.with_current(registry.steps()), observed, DayRange.of(day))[table][day].value


def _rows(storage: Storage, table: str, day: date, limit: int, publication: str | None) -> list[dict[str, Any]]:
    import pyarrow.compute as pc

    from backfill_assets.published.reading import read_published

    dataset = read_published(storage, table, publication).dataset()
    rows: list[dict[str, Any]] = dataset.head(limit, filter=pc.field("day") == day).to_pylist()
    return rows


def _say_facts(table: str, day: date, found: _Day) -> None:
    facts = found.facts()
    metrics, files = facts.pop("metrics"), facts.pop("files")
    rows = new_table("what", "value", title=f"{table} {day}")
    for name, value in facts.items():
        if value not in (None, ""):
            rows.add_row(name.replace("_", " "), _text(value))
    rows.add_section()
    for name, value in metrics.items():
        rows.add_row(name, _text(value))
    rows.add_section()
    for file in files:
        rows.add_row("file", f"{file['path']} ({file['bytes']:,} bytes, {file['rows']:,} rows)")
    say(rows)


def say_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """As a table where it fits, else record by record: twenty narrow columns are unreadable."""
    if not rows:
        say("No rows.")
    elif sum(_widths(rows)) <= console().width:
        numbers = [name for name, value in rows[0].items() if _is_number(value)]
        say(new_table(*rows[0], rows=([*map(_text, row.values())] for row in rows), numbers=numbers))
    else:
        _say_records(rows)


def _say_records(rows: Sequence[Mapping[str, Any]]) -> None:
    for number, row in enumerate(rows, start=1):
        cells = ((name, _text(value)) for name, value in row.items())
        say(new_table("column", "value", rows=cells, title=f"row {number}"))


def _widths(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    names = rows[0].keys()
    return [3 + max(cell_len(text) for text in (name, *(_text(row[name]) for row in rows))) for name in names]


def _is_number(value: Any) -> bool:
    from decimal import Decimal

    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return "; ".join(map(_text, value))
    return str(value)
