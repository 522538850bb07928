"""``backfill show``: one day of one table, what is known about it and its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import click
from rich.cells import cell_len
from rich.text import Text

from backfill_assets.cli.completion import complete_days, complete_publication, complete_table, complete_timeline
from backfill_assets.cli.ids import find_publication, find_timeline
from backfill_assets.cli.on_timeline import stale_on
from backfill_assets.cli.output import console, say, say_facts, say_json, screen
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import DayRange, parse_day
from backfill_assets.text import escape_controls, format_count

if TYPE_CHECKING:
    from backfill_assets.lakehouse.delta_log import AddedFile
    from backfill_assets.lakehouse.records import DayState
    from backfill_assets.lakehouse.storage import Storage

DAMAGED = "damaged"
FOREIGN_WRITE = "foreign write"
_EPILOG = """
\b
Examples:
  backfill show fact_daily_revenue --day 2017-03-01
  backfill show quarantine_sales --day 2017-03-01 --limit 100 --json
  backfill show fact_daily_revenue --day 2017-03-01 --publication <publication>
  backfill show fact_daily_revenue --day 2017-03-01 --on with-v2
"""


@dataclass(frozen=True)
class _WrittenSince:
    """The day as it is now in Delta's own log, past the publication log."""

    table_version: int
    rows: int
    files: int


@dataclass(frozen=True)
class _Day:
    """One day of a table at one version; ``status`` is only known of the present."""

    version: int | None
    status: str | None
    state: DayState | None
    files: tuple[AddedFile, ...]
    rows: list[dict[str, Any]]
    gone: tuple[str, ...] = ()
    """Files that the day names and that are not there: no row of it is shown."""
    reclaimed: bool = False
    """They are those of an earlier publication, and main does not name them any more: nothing is damaged."""
    on: str = ""
    """The timeline that it is a day of; empty for main."""
    now: _WrittenSince | None = None
    """What another writer has made of the day; state and rows are those that were published."""

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
            **({"reclaimed" if self.reclaimed else "damaged": {"gone": list(self.gone)}} if self.gone else {}),
            **({"written_since": asdict(self.now)} if self.now else {}),
        }


@click.command(epilog=_EPILOG)
@click.argument("table", shell_complete=complete_table)
@click.option("--day", "day_text", shell_complete=complete_days, metavar="YYYY-MM-DD", required=True, help="The day.")
@click.option("--limit", type=click.IntRange(min=0), default=10, show_default=True, help="The most rows to show.")
@click.option(
    "--publication",
    shell_complete=complete_publication,
    metavar="ID",
    help="Show the day as it was after this publication.  [default: now]",
)
@click.option(
    "--on", "name", shell_complete=complete_timeline, metavar="NAME", help="Show the day as it is on this timeline."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(table: str, day_text: str, limit: int, publication: str | None, name: str | None, as_json: bool) -> None:
    """Show one day of TABLE: status, publication, checksum, metrics, files, and its first rows.

    Reads published data as of one entry of the publication log. Starts no Spark.
    """

    current_catalog().table(table)
    day = parse_day(day_text)
    if name is not None and publication is not None:
        raise click.UsageError("Give one of --on NAME and --publication ID.")
    storage = open_storage(current_settings())
    name = find_timeline(storage, name) if name else None
    publication = find_publication(storage, publication) if publication else None
    found = (
        _look(storage, table, day, limit, publication)
        if name is None
        else _look_on_timeline(storage, table, day, limit, name)
    )
    if as_json:
        say_json({"table": table, "day": day, **found.facts(), "sample": found.rows})
        return
    _say_facts(table, day, found)
    if found.gone:
        (_say_reclaimed if found.reclaimed else _say_damage)(table, day, found)
        return
    if found.now is not None:
        _say_written_since(table, day, found, found.now)
    say_rows(found.rows)


def _look(storage: Storage, table: str, day: date, limit: int, publication: str | None) -> _Day:
    from backfill_assets.lakehouse.delta_log import read_log
    from backfill_assets.published.damage import gone_files, note_damage
    from backfill_assets.published.reading import published_day, published_versions

    version = published_versions(storage, publication).get(table)
    status = None if publication else _status(storage, table, day)
    if version is None:
        return _Day(None, status, None, (), [])
    files = read_log(storage, table, version).of_days([day])[day]
    gone = tuple(gone_files(storage, table, files))
    reclaimed = bool(gone) and publication is not None and not _is_named_now(storage, table, day, gone)
    if gone and not reclaimed:
        note_damage(storage, table, day, gone)
    return _Day(
        version=version,
        status=DAMAGED if gone and status else status,
        state=published_day(storage, table, day, publication),
        files=files,
        rows=[] if gone else _rows(storage, table, day, limit, publication),
        gone=gone,
        reclaimed=reclaimed,
        now=_written_since(storage, table, day) if status == FOREIGN_WRITE else None,
    )


def _is_named_now(storage: Storage, table: str, day: date, paths: Collection[str]) -> bool:
    from backfill_assets.lakehouse.delta_log import read_log
    from backfill_assets.published.reading import pinned_version

    version = pinned_version(storage, table)
    files = read_log(storage, table, version).of_days([day])[day] if version is not None else ()
    return not {file.path for file in files}.isdisjoint(paths)


def _written_since(storage: Storage, table: str, day: date) -> _WrittenSince | None:
    from backfill_assets.lakehouse.delta_log import newest_version, read_log

    version = newest_version(storage, table)
    if version is None:
        return None
    files = read_log(storage, table, version).of_days([day])[day]
    return _WrittenSince(version, sum(file.rows for file in files), len(files))


def _look_on_timeline(storage: Storage, table: str, day: date, limit: int, name: str) -> _Day:
    import pyarrow.compute as pc

    from backfill_assets.lakehouse.arrow_dataset import python_rows
    from backfill_assets.lakehouse.records import DayState
    from backfill_assets.published.damage import gone_files
    from backfill_assets.timeline.opened import open_timeline

    opened = open_timeline(storage, name)
    held = opened.held(table).get(day)
    if held is None:
        return _Day(None, f"nothing on {name}", None, (), [])
    own = day in opened.timeline.held(table)
    state = DayState(
        table, day, publication="", sequence=opened.timeline.base.sequence, physical="", content=held.content
    )
    gone = tuple(gone_files(storage, table, held.files))
    readable = held.files and not gone
    rows = python_rows(opened.dataset(table).head(limit, filter=pc.field("day") == day)) if readable else []
    why = stale_on(storage, opened.timeline).get(table, {}).get(day)
    status = f"a day of {name}" if own else f"read through to the base of {name}"
    return _Day(
        version=None if own else opened.timeline.base.versions.get(table),
        status=f"{status}, stale: it {why}" if why else status,
        state=state,
        files=held.files,
        rows=rows,
        gone=gone,
        on=name,
    )


def _status(storage: Storage, table: str, day: date) -> str:
    from backfill_assets.plan.status import day_statuses
    from backfill_assets.published.observed import observe

    observed = observe(storage, current_catalog().table_names)
    return day_statuses(observed.with_current(current_catalog().steps), observed, DayRange.of(day))[table][day].value


def _rows(storage: Storage, table: str, day: date, limit: int, publication: str | None) -> list[dict[str, Any]]:
    import pyarrow.compute as pc

    from backfill_assets.lakehouse.arrow_dataset import python_rows
    from backfill_assets.published.reading import read_published

    dataset = read_published(storage, table, publication).dataset()
    return python_rows(dataset.head(limit, filter=pc.field("day") == day))


def _say_facts(table: str, day: date, found: _Day) -> None:
    facts = found.facts()
    metrics, files = facts.pop("metrics"), facts.pop("files")
    for shown_below in ("damaged", "reclaimed", "written_since"):
        facts.pop(shown_below, None)
    known = [(name.replace("_", " "), _text(value)) for name, value in facts.items() if value not in (None, "")]
    say_facts(
        f"{table} {day}",
        [
            *known,
            *((name, _text(value)) for name, value in metrics.items()),
            *(("file", f"{file['path']} ({file['bytes']:,} bytes, {file['rows']:,} rows)") for file in files),
        ],
    )


def _say_damage(table: str, day: date, found: _Day) -> None:

    say(Text(f"Damaged: {len(found.gone)} of the day's {format_count(len(found.files), 'file')} gone:", "bold red"))
    say(*(f"  {path}" for path in found.gone))
    known = "published" if not found.on else "staged"
    readers = "no reader" if not found.on else f"no reader of {found.on}"
    say(f"The numbers above are those that were {known}; no row is shown, and {readers} can read the day.")
    if current_catalog().step(table).source is not None:
        say("  -> Put the files back from a backup: raw cannot be built again, since each landed file counts once.")
    elif found.on:
        say(f"  -> {_computed_again(table, day, found.on)}     computes it again on the timeline")
    else:
        say(f"  -> backfill run {table} --days {day} --force     computes it again, from what is published above it")
    if not found.on:
        say(f"  -> backfill history {table} --days {day}     has the publications: one before may still have its files")


def _computed_again(table: str, day: date, name: str) -> str:
    from backfill_assets.lakehouse.campaign_journal import plan_of
    from backfill_assets.lakehouse.timelines import CAMPAIGN

    if name.startswith(CAMPAIGN):
        return f"backfill run {plan_of(name)}"
    return f"backfill run {table} --days {day} --on {name} --force"


def _say_reclaimed(table: str, day: date, found: _Day) -> None:
    say(
        f"{len(found.gone)} of the day's {format_count(len(found.files), 'file')} gone; main does not name "
        f"{'it' if len(found.gone) == 1 else 'them'} any more:",
        *(f"  {path}" for path in found.gone),
        "Files that a later publication replaced are kept for the rollback window; then maintenance deletes them. "
        "The numbers above are those that were published; no row is left to show.",
        f"  -> backfill show {table} --day {day}     shows the day as it is now",
    )


def _say_written_since(table: str, day: date, found: _Day, now: _WrittenSince) -> None:
    published = found.state.content.rows if found.state and found.state.content else 0
    say(
        Text("Foreign write: another writer changed this day after its last publication.", "bold magenta"),
        f"It holds {format_count(now.rows, 'row')} in {format_count(now.files, 'file')} now, at version "
        f"{now.table_version} of the table. Checksum, metrics, files and rows shown are older: those of the "
        f"publication, with {format_count(published, 'row')}.",
        f"  -> backfill run {table} --days {day}     publishes the day again",
    )


def say_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """As a table where it fits, else record by record: twenty narrow columns are unreadable."""
    if not rows:
        say("No rows.")
    elif not screen() or sum(_widths(rows)) < console().width:
        numbers = [name for name, value in rows[0].items() if _is_number(value)]
        say(new_table(*rows[0], rows=([*map(_text, row.values())] for row in rows), numbers=numbers))
    else:
        _say_records(rows)


def _say_records(rows: Sequence[Mapping[str, Any]]) -> None:
    for number, row in enumerate(rows, start=1):
        say_facts(f"row {number}", ((name, _text(value)) for name, value in row.items()))


def _widths(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    names = rows[0].keys()
    texts = {name: [escape_controls(_text(row[name])) for row in rows] for name in names}
    return [3 + max(cell_len(text) for text in (name, *texts[name])) for name in names]


def _is_number(value: Any) -> bool:
    from decimal import Decimal

    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return "; ".join(map(_text, value))
    return str(value)
