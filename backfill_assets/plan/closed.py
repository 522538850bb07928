"""Days that a plan or a run leaves out because they are closed, and what it would have changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.plan.records import PlanFinding, PlannedStep, as_ranges, days_of
from backfill_assets.publish.closed_days import BookEntry, Books, how_to_reopen
from backfill_assets.state.diagnosis import Cause, in_a_word
from backfill_assets.text import format_are, format_ranges

_MOST_RANGES = 3
Whys = Mapping[date, Cause]
Closed = Mapping[date, BookEntry]


def closed_findings(
    name: str, whys: Whys, closed: Closed, waits: Mapping[TableDay, int], *, nothing_else: bool = False
) -> Iterator[PlanFinding]:
    """One for each closing. ``whys``: what would have built the days; ``waits``: rows of raw that wait for them."""
    for said in dict.fromkeys(closing.said for closing in closed.values()):
        days = sorted(day for day, closing in closed.items() if closing.said == said and day in whys)
        rows = sum(waits.get(TableDay(name, day), 0) for day in days)
        more = f"; {format_are(rows, 'row')} waiting in raw" if rows else ""
        is_closed = f"{name}: {format_ranges(days, _MOST_RANGES)} is {said}"
        yield PlanFinding(
            kind=Cause.CLOSED.value,
            severity="stops" if nothing_else else "warns",
            message=f"{is_closed}. Left as it is: {_changes(whys, days)}{more}.",
            next_step=how_to_reopen(closed[days[0]]),
            table=name,
            days=as_ranges(days),
        )


def _changes(whys: Whys, days: Iterable[date]) -> str:
    """``stale: late rows on 2017-03-04, an input is rebuilt on 2017-03-05``"""
    by: dict[Cause, list[date]] = {}
    for day in days:
        by.setdefault(whys[day], []).append(day)
    return ", ".join(f"{in_a_word(why)} on {format_ranges(own, _MOST_RANGES)}" for why, own in by.items())


def without_closed(
    step: PlannedStep, books: Books, waits: Mapping[TableDay, int]
) -> tuple[PlannedStep, list[PlanFinding]]:
    """``step`` without the closed ones of its days, and what is said of them."""
    closed = books.closings_of(step.tables, step.days) if step.kind == "rebuild" else {}
    if not closed:
        return step, []
    rebuild = {why: as_ranges(set(days_of(ranges)).difference(closed)) for why, ranges in step.rebuild.items()}
    left = {
        "rebuild": {why: ranges for why, ranges in rebuild.items() if ranges},
        "skipped": as_ranges([*days_of(step.skipped), *closed]),
    }
    return step.model_copy(update=left), list(closed_findings(step.name, step.why, closed, waits))
