"""The publication history, and what a rollback puts back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from backfill_assets.answers.books import books_grid
from backfill_assets.answers.campaign import switched_fact
from backfill_assets.answers.run import stale_facts
from backfill_assets.campaign.later_decisions import SwitchedSince
from backfill_assets.campaign.undo import Undone, UndoPlan
from backfill_assets.campaign.undo_days import UndoAction, UndoneDay
from backfill_assets.days import DayRange
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.records import Prepared, TableChange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.publisher import Published
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, Toned, Worded, seconds
from backfill_assets.state.boundaries import boundary_value
from backfill_assets.state.history import InputSummary, PublicationRecord, books_written, history, inputs
from backfill_assets.state.stream_positions import PartitionRead
from backfill_assets.text import format_are, format_count, format_range, short_commit

_PUBLICATION = ("publication", "when", "kind", "outcome")
_PART = ("table", "days", "rows", "code", "version", "replaces")
_MADE_OF = ("made of", "landed", "offsets", "read up to")
_ABOUT = (*_MADE_OF, "by", "reason", "approved by", "campaign", "run", "git", "leaves stale", "made with")
_TONES = {"done": Tone.GOOD, "aborted": Tone.BAD, "aborting": Tone.BAD, "open": Tone.WARN}
_RUN = 8


def history_answer(storage: Storage, table: str | None, days: DayRange | None, limit: int) -> Answer:
    """The newest ``limit`` publications, one row for each table; reads only the log."""
    found = history(storage, table, days, most=limit + 1)
    made_of = inputs(storage, found[:limit])
    rows = [
        (*_publication(record), *part, *about)
        for record in found[:limit]
        for about in [_about(record, made_of[record.publication, record.prepared_at])]
        for part in _parts(record)
    ]
    columns, groups = (*_PUBLICATION, *_PART, *_ABOUT), (*_PUBLICATION, *_ABOUT)
    grid = Grid("publications", columns, rows, groups=groups)
    written = books_written(storage, table, days)[:limit]
    books = (books_grid(written),) if written else ()
    if not found and not written:
        nothing = "No such publication in" if table or days else "Nothing was published yet in"
        return Answer(parts=(grid, Line(f"{nothing} {storage.root}.")))
    asked = (table or "", f"--days {format_range(days)}" if days else "", f"--limit {5 * limit}")
    older = " ".join(filter(None, ("backfill history", *asked)))
    more = (older,) if len(found) > limit else ()
    brief = Answer(parts=(_one_a_row(found[:limit]), *books), next=more)
    return Answer(parts=(grid, *books), next=more, brief=brief)


def _one_a_row(found: Sequence[PublicationRecord]) -> Grid:
    rows = [
        (
            Id(each.publication),
            each.closed_at or each.prepared_at,
            Toned(_did(each), Tone.PLAIN if each.outcome == "done" else _TONES.get(each.outcome, Tone.PLAIN)),
            [each.launched_by, *([each.reason] if each.reason else [])],
        )
        for each in found
    ]
    return Grid("publications", ("publication", "when", "what", "by"), rows)


def _did(record: PublicationRecord) -> list[str]:
    done = record.outcome == "done"
    switches = [f"{step} becomes {version or _DECLARED}" for step, (_, version) in record.switches.items()]
    tables = [
        f"{name} {_span(part.days)}" + (f", {format_count(part.rows, 'row')}" if done else "")
        for name, part in sorted(record.tables.items())
    ]
    return [record.kind if done else f"{record.kind}, {record.outcome}", *switches, *tables]


def _publication(record: PublicationRecord) -> Sequence[object]:
    outcome = Toned(record.outcome, _TONES.get(record.outcome, Tone.PLAIN))
    return Id(record.publication), record.closed_at or record.prepared_at, record.kind, outcome


def _span(days: Sequence[date]) -> str:
    if not days:
        return "no day"
    found = DayRange(min(days), max(days))
    return format_range(found) if len(found) == len(days) else f"{format_count(len(days), 'day')} of {found}"


def _parts(record: PublicationRecord) -> Iterator[Sequence[object]]:
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
        Id(shown_name(record.campaign)),
        Worded(record.run, record.run[:_RUN]),
        Worded(record.git_commit, short_commit(record.git_commit)),
        {table: Days.of(days) for table, days in made.leaves_stale.items()},
        [environment.model_dump() for environment in made.environments],
    )


def _made_of(record: PublicationRecord, made: InputSummary) -> Iterator[Worded]:
    for (table, version), days in sorted(made.read.items(), key=str):
        words = f"{table} v{version}" if version is not None else f"{table}, never published"
        yield Worded({"table": table, "version": version, "days": Days.of(days), "same_publication": False}, words)
    for table, days in made.staged.items():
        own = {"table": table, "version": record.tables[table].version, "days": Days.of(days), "same_publication": True}
        yield Worded(own, f"{table} of the same publication")


def _offsets(read: PartitionRead) -> Worded:
    place = {"source": read.source, "topic": read.topic, "partition": read.partition}
    return Worded({**place, "from": read.first, "to": read.end}, str(read))


# ------------------------------------------------------------------ what a rollback puts back


Stale = Mapping[str, Sequence[date]]


def rollback_plan_answer(prepared: Prepared, leaves_stale: Stale, switched: Sequence[SwitchedSince] = ()) -> Answer:
    publication = prepared.publication
    columns = ("table", "days", "which days", "rows now", "rows then", "put back")
    rows = [_put_back(prepared, change) for change in publication.tables]
    switches = tuple(
        Line(f"{step}: from {switch.version or _DECLARED} back to {switch.former or _DECLARED}")
        for step, switch in publication.switches.items()
    )
    tables = (Grid("tables", columns, rows, drop=("put back",)),) if rows else ()
    facts = (Fact("rolls back", Id(publication.id)), Fact("kind", publication.kind))
    since = (switched_fact(switched),) if switched else ()
    return Answer("Putting back", (*facts, *tables, *switches, *since, *stale_facts(leaves_stale)))


_DECLARED = "the declared version"


def _put_back(prepared: Prepared, change: TableChange) -> tuple[object, ...]:
    before = prepared.before[change.table]
    results = [prepared.result(change.table, day.day) for day in change.days]
    now = sum(result.rows for result in results if result)
    then = sum(file.rows for day in before.values() for file in day.files)
    sources = [Id(each) for each in sorted({day.publication for day in before.values() if day.publication})]
    days = [day.day for day in change.days]
    return change.table, len(days), Days.of(days), now, then, sources or "nothing: never published"


def undo_plan_answer(plan: UndoPlan) -> Answer:
    groups: dict[tuple[str, UndoAction, str], list[UndoneDay]] = {}
    for each in sorted(plan.days, key=lambda day: (_order(plan, day), day.day)):
        groups.setdefault((each.step, each.action, each.reason), []).append(each)
    rows = [
        (step, action.value, len(days), Days.of(day.day for day in days), _versions(action, days), reason)
        for (step, action, reason), days in groups.items()
    ]
    facts = (
        Fact("plan", Id(shown_name(plan.campaign))),
        Fact("undoes", Id(plan.publication)),
        *([Fact("restores", True)] if plan.restores else []),
        Fact("seconds", seconds(plan.seconds)),
    )
    columns = ("table", "what", "days", "which days", "by", "why")
    days = Grid("days", columns, rows)
    title = "Bringing back a campaign that was undone" if plan.restores else "Undoing a campaign"
    switched = (switched_fact(plan.switched),) if plan.switched else ()
    return Answer(title, (*facts, days, *switched, Line(_how_long(plan))))


def _order(plan: UndoPlan, day: UndoneDay) -> tuple[int, int]:
    steps = list(dict.fromkeys(each.step for each in plan.days))
    return steps.index(day.step), list(UndoAction).index(day.action)


def _versions(action: UndoAction, days: Sequence[UndoneDay]) -> str:
    return ", ".join(sorted({day.version for day in days} - {""})) if action is UndoAction.RESTATE else ""


def _how_long(plan: UndoPlan) -> str:
    if not plan.restated:
        return "It takes about a second: no day has to be staged again."
    timed = "an unknown time (none was measured yet)" if plan.seconds is None else f"about {plan.seconds:.0f} s"
    again = f"{format_are(len(plan.restated), 'day')} staged again first, so that what has arrived since is kept"
    return f"{again}. It takes {timed} and the start of Spark."


def rolled_back_answer(published: Published) -> Answer:
    stale = published.leaves_stale
    return Answer("Rolled back", (*_published(published), *stale_facts(stale)), next=_next(stale))


def undone_answer(done: Undone, sentence: str) -> Answer:
    did = Fact("did", dict(done.tables))
    return Answer(
        sentence,
        (*_published(done.published), did, *stale_facts(done.published.leaves_stale)),
        next=_next(done.published.leaves_stale),
    )


def _published(published: Published) -> tuple[Part, ...]:
    return Fact("publication", Id(published.publication)), Fact("versions", dict(sorted(published.versions.items())))


def _next(leaves_stale: Stale) -> tuple[str, ...]:
    days = [day for of_table in leaves_stale.values() for day in of_table]
    if not days:
        return ()
    return (f"backfill run {' '.join(leaves_stale)} --days {format_range(DayRange(min(days), max(days)))}",)
