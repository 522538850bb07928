"""What was published, rolled back or aborted, newest first: of which days, made of what, by whom, in place of what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.published.boundaries import boundary_value
from backfill_assets.published.history import InputSummary, PublicationRecord, history, inputs
from backfill_assets.published.stream_positions import PartitionRead
from backfill_assets.report.answer import Answer, Days, Grid, Id, Line, Tone, Toned, Worded
from backfill_assets.text import format_count, format_range, short_commit

_PUBLICATION = ("publication", "when", "kind", "outcome")
_PART = ("table", "days", "rows", "code", "version", "replaces")
_MADE_OF = ("made of", "landed", "offsets", "read up to")
_ABOUT = (*_MADE_OF, "by", "reason", "approved by", "campaign", "run", "git", "leaves stale", "made with")
_LEFT_OUT_FIRST = (
    *("made with", "run", "git", "version", "campaign", "approved by", "replaces", "rows", "leaves stale"),
    *("landed", "offsets", "read up to", "made of", "reason", "by", "code", "days"),
)
_TONES = {"done": Tone.GOOD, "aborted": Tone.BAD, "aborting": Tone.BAD, "open": Tone.WARN}
_RUN = 8


@dataclass(frozen=True)
class FoundHistory:
    """Publications, newest first, and what each was made of."""

    lakehouse: str
    table: str | None
    days: DayRange | None
    records: Sequence[PublicationRecord]
    made_of: Mapping[tuple[str, datetime], InputSummary]
    has_older: bool
    """Whether there are more than were asked for."""


def look_at_history(storage: Storage, table: str | None, days: DayRange | None, limit: int) -> FoundHistory:
    """The newest ``limit`` publications that changed ``table`` and one of ``days``. Reads the log only."""
    records = history(storage, table, days, most=limit + 1)
    shown = records[:limit]
    return FoundHistory(storage.root, table, days, shown, inputs(storage, shown), len(records) > limit)


def history_answer(found: FoundHistory) -> Answer:
    """A row for each table of each publication."""
    rows = [
        (*_publication(record), *part, *about)
        for record in found.records
        for about in [_about(record, found.made_of[record.publication, record.prepared_at])]
        for part in _parts(record)
    ]
    columns, groups = (*_PUBLICATION, *_PART, *_ABOUT), (*_PUBLICATION, *_ABOUT)
    table = Grid("publications", columns, rows, groups=groups, drop=_LEFT_OUT_FIRST, keep=("table",))
    if found.records:
        return Answer(parts=(table,), next=(_older(found),) if found.has_older else ())
    nothing = "No such publication in" if found.table or found.days else "Nothing was published yet in"
    return Answer(parts=(table, Line(f"{nothing} {found.lakehouse}.")))


def _older(found: FoundHistory) -> str:
    days = f"--days {format_range(found.days)}" if found.days else ""
    words = ("backfill history", found.table or "", days, f"--limit {5 * len(found.records)}")
    return " ".join(word for word in words if word)


def _publication(record: PublicationRecord) -> Sequence[object]:
    outcome = Toned(record.outcome, _TONES.get(record.outcome, Tone.PLAIN))
    return Id(record.publication), record.closed_at or record.prepared_at, record.kind, outcome


def _parts(record: PublicationRecord) -> Iterator[Sequence[object]]:
    """What became of each step whose current version was switched, and of each table."""
    for step, (former, version) in record.switches.items():
        words = f"switched to {version or 'the declared version'}"
        yield step, Days(), None, Worded({"from": former, "to": version}, words), None, []
    for name, part in sorted(record.tables.items()):
        counted = part.rows if record.outcome == "done" else None
        code = ", ".join(sorted(part.code_versions))
        yield name, Days.of(part.days), counted, code, part.version, [Id(each) for each in sorted(part.replaces)]


def _about(record: PublicationRecord, made: InputSummary) -> Sequence[object]:
    return (
        list(_made_of(record, made)),
        Worded(list(made.landed), format_count(len(made.landed), "landed file") if made.landed else ""),
        [_offsets(each) for each in made.partitions],
        [boundary_value(each) for each in made.boundaries],
        record.launched_by,
        record.reason,
        made.approved_by,
        Id(record.campaign),
        Worded(record.run, record.run[:_RUN]),
        Worded(record.git_commit, short_commit(record.git_commit)),
        {table: Days.of(days) for table, days in made.leaves_stale.items()},
        [environment.model_dump() for environment in made.environments],
    )


def _made_of(record: PublicationRecord, made: InputSummary) -> Iterator[Worded]:
    """Tables at a version, and days that the publication brings itself."""
    for (table, version), days in sorted(made.read.items(), key=str):
        words = f"{table} v{version}" if version is not None else f"{table}, never published"
        yield Worded({"table": table, "version": version, "days": Days.of(days), "same_publication": False}, words)
    for table, days in made.staged.items():
        own = {"table": table, "version": record.tables[table].version, "days": Days.of(days), "same_publication": True}
        yield Worded(own, f"{table} of the same publication")


def _offsets(read: PartitionRead) -> Worded:
    """``to`` is the next offset to read."""
    place = {"source": read.source, "topic": read.topic, "partition": read.partition}
    return Worded({**place, "from": read.first, "to": read.end}, str(read))
