"""``backfill trace``: where a number comes from, from the landed line to each report that counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.completion import complete_days, complete_table, complete_timeline
from backfill_assets.cli.ids import Show, find_timeline, short_ids
from backfill_assets.cli.on_timeline import observe_timeline
from backfill_assets.cli.output import moment, say, say_json, short_commit
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import TableDay, parse_day
from backfill_assets.errors import InvalidRequest
from backfill_assets.landing.places import event_place, format_place, place_values
from backfill_assets.model.deletion import DELETION
from backfill_assets.text import format_range

if TYPE_CHECKING:
    from backfill_assets.lakehouse.records import DayContent
    from backfill_assets.landing.trace import Found, Trail
    from backfill_assets.landing.trace_outcomes import LineFate
    from backfill_assets.plan.status import Statuses
    from backfill_assets.published.snapshot import Snapshot
    from backfill_assets.published.stamps import Stamp
    from backfill_assets.settings import Settings
    from backfill_assets.timeline.observed import ObservedTimeline

_PERSONAL = "@"
_LEFT_OUT_FIRST = ("git", "run", "when", "code", "status")
_OWN = "the timeline's own day"
_EPILOG = """
\b
Examples:
  backfill trace 32074897568-825412
  backfill trace USD --table bronze_fx_rates --day 2017-03-01
  backfill trace B01/2016-02-15T00:30:00Z --table bronze_sea_temperatures
  backfill trace @/2016-02-15T00:30:00Z --personal patient-0001
  backfill trace 32074897568-825412 --json
  backfill trace 32074897568-825412 --on with-v2           as it is on a timeline
"""


@dataclass(frozen=True)
class _TrailFacts:
    """A trail with its context; ``lines`` has what landed, by file and line; of events by partition and offset."""

    trail: Trail
    fates: Sequence[LineFate]
    lines: Mapping[tuple[str, int], str | None]
    stamps: Mapping[TableDay, Stamp]
    statuses: Statuses
    """A report that is stale does not count the row as it is now, or not yet."""
    place: ObservedTimeline | None = None
    """The timeline that the row is traced on; None for main."""

    def own_day(self, found: Found) -> DayContent | None:
        """What the day holds if it is the timeline's own."""
        if self.place is None or found.day not in self.place.own(found.table):
            return None
        return self.place.view.states[TableDay(found.table, found.day)].content


@click.command(epilog=_EPILOG)
@click.argument("key")
@click.option(
    "--table",
    shell_complete=complete_table,
    metavar="TABLE",
    help="The table that KEY belongs to.  [default: every table with one row a key]",
)
@click.option(
    "--day", "day_text", shell_complete=complete_days, metavar="YYYY-MM-DD", help="Only the rows of this event day."
)
@click.option(
    "--personal",
    metavar="TEXT",
    prompt="Personal value",
    prompt_required=False,
    hide_input=True,
    help=f"The landed value for which {_PERSONAL} is written in KEY. Without TEXT, the command asks for it.",
)
@click.option(
    "--on", "name", shell_complete=complete_timeline, metavar="NAME", help="Follow the row as it is on this timeline."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def trace(
    key: str, table: str | None, day_text: str | None, personal: str | None, name: str | None, as_json: bool
) -> None:
    """Follow the row with KEY from its landed line through raw, bronze or quarantine and fact to each report.

    Reads all tables as of one entry of the publication log. KEY is the key of a bronze or fact table, with a slash
    between columns: B01/2016-02-15T00:30:00Z. Starts no Spark.

    Personal fields are shown as tokens, and are tokens in KEY. If you know the value and not the token, write @ for it
    in KEY and give the value with --personal.
    """
    from backfill_assets.landing.trace import trails
    from backfill_assets.published.snapshot import Snapshot

    day = parse_day(day_text) if day_text else None
    settings = current_settings()
    if personal is not None:
        key = _with_token(key, personal, settings)
    name = find_timeline(open_storage(settings), name) if name else None
    place = None if name is None else observe_timeline(settings, name)
    snapshot = Snapshot.newest(open_storage(settings)) if place is None else _snapshot_on(settings, place)
    found = trails(snapshot, current_catalog(), key, table, day)
    statuses = _statuses(snapshot, place)
    all_facts = [_trail_facts(settings, snapshot, trail, statuses, place) for trail in found]
    if as_json:
        on = {} if name is None else {"timeline": name}
        say_json({"key": key, "log_entry": snapshot.sequence, **on, "trails": [_as_json(each) for each in all_facts]})
        return
    show = short_ids(snapshot.storage)
    for each in all_facts:
        _say(each, show)
    where = "As of" if name is None else f"On the timeline {name}: its own days, and all others as of"
    say(f"{where} entry {snapshot.sequence} of the publication log.")


def _snapshot_on(settings: Settings, place: ObservedTimeline) -> Snapshot:
    from backfill_assets.timeline.opened import OpenedTimeline, TimelineSnapshot

    return TimelineSnapshot.of(OpenedTimeline(open_storage(settings), place.timeline))


def _with_token(key: str, personal: str, settings: Settings) -> str:
    from backfill_assets.landing.token_key import require_same_key
    from backfill_assets.landing.tokens import token_of
    from backfill_assets.landing.trace_keys import BETWEEN

    parts = key.split(BETWEEN)
    if _PERSONAL not in parts:
        raise InvalidRequest(
            f"The key has no {_PERSONAL} for --personal to replace.",
            hint=f"Write {_PERSONAL} where the token is in the key: {_PERSONAL}/2016-02-15T00:30:00Z",
        )
    require_same_key(open_storage(settings), settings.token_key_file)
    token = token_of(personal, settings.token_key_file)
    return BETWEEN.join(token if part == _PERSONAL else part for part in parts)


def _statuses(snapshot: Snapshot, place: ObservedTimeline | None) -> Statuses:
    from backfill_assets.plan.status import day_statuses
    from backfill_assets.published.observed import observe

    if place is not None:
        return day_statuses(place.view.with_current(current_catalog().steps), place.view)
    observed = observe(snapshot.storage, current_catalog().table_names)
    return day_statuses(observed.with_current(current_catalog().steps), observed)


def _trail_facts(
    settings: Settings, snapshot: Snapshot, trail: Trail, statuses: Statuses, place: ObservedTimeline | None
) -> _TrailFacts:
    from backfill_assets.landing.landed_lines import landed_line
    from backfill_assets.landing.landed_values import overtakes
    from backfill_assets.landing.trace import deleted_by
    from backfill_assets.landing.trace_outcomes import RECEIVED, fates
    from backfill_assets.landing.zone import LandingZone
    from backfill_assets.published.stamps import stamps

    landing, source = LandingZone(settings.landing), trail.origin.source
    received = [found.row for found in trail.raw if found.row["record_kind"] == RECEIVED]
    keys = {TableDay(found.table, found.day) for found in trail.rows}
    return _TrailFacts(
        trail=trail,
        fates=fates(
            [found.row for found in trail.raw],
            [found.row for found in trail.typed],
            [found.row for found in trail.quarantined],
            partial(overtakes, source),
            deleted_by(snapshot, trail),
        ),
        lines={(row["source_file"], row["source_line"]): landed_line(landing, source, row) for row in received},
        stamps=stamps(snapshot, {key for key in keys if place is None or key.day not in place.own(key.table)}),
        statuses=statuses,
        place=place,
    )


def _say(facts: _TrailFacts, show: Show) -> None:
    for fate in facts.fates:
        say(f"{format_place(fate.file, fate.line)}  {fate.outcome}: {fate.why}")
        as_in_raw = " (as raw has it)" if event_place(fate.file, fate.line) else ""
        say(f"  {facts.lines[fate.file, fate.line] or 'the line is no longer in the landing zone'}{as_in_raw}")
    rows = new_table("table", "day", "status", "row", "publication", "when", "code", "run", "git", drop=_LEFT_OUT_FIRST)
    for found in facts.trail.rows:
        rows.add_row(
            found.table,
            format_range(found.period),
            _status(facts, found),
            _in_words(found),
            *_stamp_cells(facts, found, show),
        )
    say(rows)
    for each in facts.trail.unnamed:
        columns, day = " and ".join(each.made_there), each.period.first
        say(
            f"{each.table} of {format_range(each.period)} counts it too. Its {columns} is made in the report: "
            f"backfill show {each.table} --day {day} has its rows"
        )


def _in_words(found: Found) -> str:
    """The values that identify a row: its key, or for landed rows its place, and its numbers."""

    row, table = found.row, current_catalog().table(found.table)
    if row.get("record_kind") == "supersession":
        return f"marker: a newer version belongs to {row['superseded_by_day']}"
    if row.get("record_kind") == DELETION:
        return (
            f"deletion of {format_place(row['source_file'], row['source_line'])}"
            if row["source_file"]
            else (f"deletion of the marker of {row['superseded_by_day']}")
        )
    if found.layer in ("raw", "quarantine"):
        return format_place(row["source_file"], row["source_line"])
    names = dict.fromkeys((*table.key, *table.totals))
    return ", ".join(f"{name} {row[name]}" for name in names if name in row)


def _status(facts: _TrailFacts, found: Found) -> str:
    status = facts.statuses[found.table].get(found.day)
    return status.value if status else ""


def _stamp_cells(facts: _TrailFacts, found: Found, show: Show) -> tuple[str, ...]:
    if (own := facts.own_day(found)) is not None:
        return (_OWN, "", own.code_version, "", "")
    stamp = facts.stamps.get(TableDay(found.table, found.day))
    if stamp is None:
        return ("",) * 5
    return (
        show(stamp.publication),
        moment(stamp.published_at),
        stamp.code_version,
        stamp.run[:8],
        short_commit(stamp.git_commit),
    )


def _as_json(facts: _TrailFacts) -> dict[str, Any]:
    trail = facts.trail
    return {
        "source": trail.origin.source.name,
        "landed": [
            {**asdict(fate), **place_values(fate.file, fate.line), "text": facts.lines[fate.file, fate.line]}
            for fate in facts.fates
        ],
        "rows": [_row_json(facts, found) for found in trail.rows],
        "unnamed": [{**asdict(each), "period": str(each.period)} for each in trail.unnamed],
    }


def _row_json(facts: _TrailFacts, found: Found) -> dict[str, Any]:
    own, stamp = facts.own_day(found), facts.stamps.get(TableDay(found.table, found.day))
    known = _stamp_json(stamp) if stamp else {}
    if own is not None:
        known = {"own": True, "code_version": own.code_version}
    return {
        "table": found.table,
        "layer": found.layer,
        "period": str(found.period),
        "day": found.day,
        "status": _status(facts, found),
        **known,
        "row": dict(found.row),
    }


def _stamp_json(stamp: Stamp) -> dict[str, Any]:
    lineage = stamp.lineage
    return {
        **{name: value for name, value in asdict(stamp).items() if name != "lineage"},
        "made_from": [read.model_dump() for read in lineage.reads] if lineage else [],
        "made_with": lineage.environment.model_dump() if lineage and lineage.environment else None,
    }
