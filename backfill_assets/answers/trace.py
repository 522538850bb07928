"""One row from its landed line to each report that counts it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.lakehouse.records import DayLineage
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.landed_lines import event_place, format_place, landed_line, place_values
from backfill_assets.landing.token_key import require_same_key, token_of
from backfill_assets.landing.trace import BETWEEN, PERSONAL, Found, Trail, deleted_by, trails
from backfill_assets.landing.trace_outcomes import RECEIVED, LineFate, fates
from backfill_assets.landing.typed_texts import overtaking
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Table
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.landed_format import record_word
from backfill_assets.publish.log import PublicationLog, lineages
from backfill_assets.publish.past import Brought, brought_days
from backfill_assets.publish.publisher import Publisher
from backfill_assets.report.answer import Answer, Datum, Fact, Grid, Id, Worded
from backfill_assets.state.diagnosis import in_a_word
from backfill_assets.state.observed import observe_each
from backfill_assets.state.status import Statuses, day_statuses
from backfill_assets.state.view import View
from backfill_assets.text import format_range, short_commit
from backfill_assets.timeline.view import observe_timeline


def stamps(view: View, of: Collection[TableDay]) -> dict[TableDay, Brought]:
    tables, days = {table for table, _ in of}, {day for _, day in of}
    found: dict[TableDay, Brought] = {}
    for each in brought_days(PublicationLog(view.storage).files(), tables, days, until=view.sequence) if of else ():
        if each.key in of:
            found.setdefault(each.key, each)
        if len(found) == len(of):
            break
    return {key: found[key] for key in of if key in found}


def lineages_of(view: View, found: Mapping[TableDay, Brought]) -> dict[TableDay, DayLineage]:
    """Leaves out days without recorded lineage."""
    made = lineages(view.storage, {stamp.publication for stamp in found.values()})
    by_id = {publication: days for (publication, _), days in made.items()}
    all_made = {key: by_id.get(stamp.publication, {}).get(key) for key, stamp in found.items()}
    return {key: lineage for key, lineage in all_made.items() if lineage}


# ------------------------------------------------------------------ who made which day

_LEFT_OUT_FIRST = (
    "made with",
    "made from",
    "day",
    "layer",
    "kind",
    "version",
    "by",
    "git",
    "run",
    "when",
    "code",
    "status",
)
_RUN = 8


@dataclass(frozen=True)
class FoundTrail:
    """``lines``: landed texts by file and line, or partition and offset."""

    trail: Trail
    fates: Sequence[LineFate]
    lines: Mapping[tuple[str, int], str | None]
    stamps: Mapping[TableDay, Brought]
    lineages: Mapping[TableDay, DayLineage]


@dataclass(frozen=True)
class FoundTrace:
    key: str
    log_entry: int
    tables: Mapping[str, Table]
    trails: Sequence[FoundTrail]
    statuses: Statuses
    """A stale report does not count the row as it is now."""
    timeline: NamedTimeline | None = None


def with_token(key: str, personal: str, storage: Storage, token_key_file: Path) -> str:
    """Replaces ``@`` with the token of ``personal``."""
    parts = key.split(BETWEEN)
    require_same_key(storage, token_key_file)
    token = token_of(personal, token_key_file)
    return BETWEEN.join(token if part == PERSONAL else part for part in parts)


def look_at_row(
    publisher: Publisher,
    landing: LandingZone,
    catalog: Catalog,
    key: str,
    table: str | None,
    day: date | None,
    on: str | None = None,
) -> FoundTrace:
    """Reads all tables as of one log entry, or as on the timeline ``on``."""
    storage, tables = publisher.storage, {each.name: each for each in catalog.tables}
    timeline, seen = observe_timeline(publisher, tables, on) if on else (None, None)
    snapshot = View.of(storage, timeline) if timeline else View.newest(storage)
    found = [_look(snapshot, landing, trail) for trail in trails(snapshot, catalog, key, table, day)]
    observed = seen or observe_each(storage, tables)
    statuses = day_statuses(observed.with_current(catalog.steps), observed)
    return FoundTrace(key, snapshot.sequence, tables, found, statuses, timeline)


def _look(snapshot: View, landing: LandingZone, trail: Trail) -> FoundTrail:
    source, raw = trail.origin.source, [found.row for found in trail.raw]
    typed, rejected = [found.row for found in trail.typed], [found.row for found in trail.quarantined]
    received = [row for row in raw if row["record_kind"] == RECEIVED]
    keys = {TableDay(found.table, found.day) for found in trail.rows}
    stamped = stamps(snapshot, {key for key in keys if key.day not in snapshot.over.get(key.table, ())})
    return FoundTrail(
        trail=trail,
        fates=fates(raw, typed, rejected, overtaking(source, received), deleted_by(snapshot, trail)),
        lines={(row["source_file"], row["source_line"]): landed_line(landing, source, row) for row in received},
        stamps=stamped,
        lineages=lineages_of(snapshot, stamped),
    )


# ------------------------------------------------------------------ the answer


def trace_answer(found: FoundTrace) -> Answer:
    facts = (
        Fact("key", found.key),
        Fact("timeline", shown_name(found.timeline.name) if found.timeline else ""),
        Fact("log entry", found.log_entry),
    )
    landed = [row for each in found.trails for row in _landed(each)]
    rows = [_row(found, each, row) for each in found.trails for row in each.trail.rows]
    unnamed = [unnamed for each in found.trails for unnamed in each.trail.unnamed]
    counted = [(each.table, format_range(each.period), each.made_there) for each in unnamed]
    columns = (
        *("table", "layer", "period", "day", "status", "row", "publication", "when", "kind", "version", "code"),
        *("by", "run", "git", "made from", "made with"),
    )
    tables = (
        Grid("landed", ("source", "at", "day", "outcome", "why", "text"), landed, one_by_one=True),
        Grid("rows", columns, rows, drop=_LEFT_OUT_FIRST),
        Grid("counted in", ("table", "period", "made there"), counted, title="Counted in rows that have no such key"),
    )
    return Answer(
        parts=(*facts, *tables), next=tuple(f"backfill show {each.table} {each.period.first}" for each in unnamed)
    )


def _landed(found: FoundTrail) -> Iterator[Sequence[object]]:
    for fate in found.fates:
        at = Worded(place_values(fate.file, fate.line), format_place(fate.file, fate.line))
        text = found.lines[fate.file, fate.line]
        as_in_raw = " (as raw has it)" if event_place(fate.file, fate.line) else ""
        words = f"{text or f'the {record_word(fate.file)} is no longer in the landing zone'}{as_in_raw}"
        yield found.trail.origin.source.name, at, fate.day, fate.outcome, fate.why, Worded(text, words)


def _row(found: FoundTrace, of: FoundTrail, row: Found) -> Sequence[object]:
    statuses = found.statuses[row.table]
    values = {name: Datum(value) for name, value in row.row.items()}
    words = Worded(values, _in_words(row, found.tables[row.table]))
    return (
        row.table,
        row.layer,
        format_range(row.period),
        row.day,
        in_a_word(statuses[row.day]) if row.day in statuses else "",
        words,
        *_stamp(found, of, row),
    )


def _stamp(found: FoundTrace, of: FoundTrail, about: Found) -> Sequence[object]:
    key = TableDay(about.table, about.day)
    if found.timeline is not None and about.day in (held := found.timeline.held(about.table)):
        content = held[about.day].content
        return "of its own", None, "", None, content.code_version if content else "", "", "", "", [], None
    stamp = of.stamps.get(key)
    if stamp is None:
        return "", None, "", None, "", "", "", "", [], None
    made = of.lineages.get(key)
    run, commit = stamp.run or "", stamp.git_commit or ""
    return (
        Id(stamp.publication),
        *(stamp.at, stamp.kind, stamp.table_version),
        *(stamp.code_version or "", stamp.launched_by or ""),
        Worded(run, run[:_RUN]),
        Worded(commit, short_commit(commit)),
        [read.model_dump() for read in made.reads] if made else [],
        made.environment.model_dump() if made and made.environment else None,
    )


def _in_words(found: Found, table: Table) -> str:
    row = found.row
    if row.get("record_kind") == "supersession":
        return f"marker: a newer version belongs to {row['superseded_by_day']}"
    if row.get("record_kind") == DELETION:
        marker = f"the marker of {row['superseded_by_day']}"
        return f"deletion of {format_place(row['source_file'], row['source_line']) if row['source_file'] else marker}"
    if found.layer in ("raw", "quarantine"):
        return format_place(row["source_file"], row["source_line"])
    names = dict.fromkeys((*table.key, *table.totals))
    return ", ".join(f"{name} {row[name]}" for name in names if name in row)
