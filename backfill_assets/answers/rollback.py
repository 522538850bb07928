"""What a rollback would put back and what it leaves stale, and what it has put back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from backfill_assets.answers.run import stale_facts
from backfill_assets.campaign.undo import Undone, UndoPlan
from backfill_assets.campaign.undo_days import UndoAction, UndoneDay
from backfill_assets.lakehouse.records import Prepared, TableChange
from backfill_assets.publication.publisher import Published
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, seconds
from backfill_assets.text import format_are

Stale = Mapping[str, Sequence[date]]


def rollback_plan_answer(prepared: Prepared, leaves_stale: Stale) -> Answer:
    """Of a single publication: what each table gets back."""
    publication = prepared.publication
    columns = ("table", "days", "which days", "rows now", "rows then", "put back")
    rows = [_put_back(prepared, change) for change in publication.tables]
    switches = tuple(
        Line(f"{step}: from {switch.version or _DECLARED} back to {switch.former or _DECLARED}")
        for step, switch in publication.switches.items()
    )
    tables = (Grid("tables", columns, rows, drop=("put back", "which days")),) if rows else ()
    facts = (Fact("rolls back", Id(publication.id)), Fact("kind", publication.kind))
    return Answer("Putting back", (*facts, *tables, *switches, *stale_facts(leaves_stale)))


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
    """Of a campaign: what becomes of each day, and how long that takes."""
    groups: dict[tuple[str, UndoAction, str], list[UndoneDay]] = {}
    for each in sorted(plan.days, key=lambda day: (_order(plan, day), day.day)):
        groups.setdefault((each.step, each.way, each.reason), []).append(each)
    rows = [
        (step, way.value, len(days), Days.of(day.day for day in days), _versions(way, days), reason)
        for (step, way, reason), days in groups.items()
    ]
    facts = (
        Fact("campaign", Id(plan.campaign)),
        Fact("undoes", Id(plan.publication)),
        *([Fact("restores", True)] if plan.restores else []),
        Fact("seconds", seconds(plan.seconds)),
    )
    columns = ("table", "what", "days", "which days", "by", "why")
    days = Grid("days", columns, rows, drop=("which days", "by"))
    title = "Bringing back a campaign that was undone" if plan.restores else "Undoing a campaign"
    return Answer(title, (*facts, days, Line(_how_long(plan))))


def _order(plan: UndoPlan, day: UndoneDay) -> tuple[int, int]:
    """In build order, and of a table in the order of what is done."""
    steps = list(dict.fromkeys(each.step for each in plan.days))
    return steps.index(day.step), list(UndoAction).index(day.way)


def _versions(way: UndoAction, days: Sequence[UndoneDay]) -> str:
    return ", ".join(sorted({day.version for day in days} - {""})) if way is UndoAction.STAGE_AGAIN else ""


def _how_long(plan: UndoPlan) -> str:
    if not plan.again:
        return "It takes about a second: no day has to be staged again."
    timed = "an unknown time (none was measured yet)" if plan.seconds is None else f"about {plan.seconds:.0f} s"
    again = f"{format_are(len(plan.again), 'day')} staged again first, so that what has arrived since is kept"
    return f"{again}. It takes {timed} and the start of Spark."


def rolled_back_answer(published: Published, leaves_stale: Stale) -> Answer:
    return Answer("Rolled back", (*_published(published), *stale_facts(leaves_stale)), next=_undo(published))


def undone_answer(done: Undone) -> Answer:
    did = Fact("did", dict(done.tables))
    return Answer(
        "Rolled back",
        (*_published(done.published), did, *stale_facts(done.leaves_stale)),
        next=_undo(done.published),
    )


def _published(published: Published) -> tuple[Part, ...]:
    return Fact("publication", Id(published.publication)), Fact("versions", dict(sorted(published.versions.items())))


def _undo(published: Published) -> tuple[str, ...]:
    return (f"backfill rollback {published.publication}",)


NOT_DONE = Line("Nothing was done: --dry-run.", Tone.QUIET)
