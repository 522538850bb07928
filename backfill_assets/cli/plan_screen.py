"""What a plan is on a terminal: its steps, what it costs, what it reads, what was found, and what carries it out."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from backfill_assets.cli.ids import plans, short_ids, typed_storage
from backfill_assets.cli.output import say, screen
from backfill_assets.cli.output import table as new_table

if TYPE_CHECKING:
    from backfill_assets.plan.basis import PlanDrift
    from backfill_assets.plan.records import Plan

_LEFT_OUT_FIRST = ("skipped", "rows written", "rows read", "written", "read", "time")
_COLOURS = {"stops": "bold red", "warns": "yellow"}


def say_plan(found: Plan, now: datetime, moved: PlanDrift | None = None) -> None:
    from backfill_assets.plan.boundaries import boundary_lines
    from backfill_assets.plan.text import (
        after_line,
        as_of_lines,
        cost_line,
        expectation_lines,
        headline,
        scope_line,
        source_lines,
        terms_lines,
        time_lines,
    )

    say(headline(found))
    if found.steps:
        _say_steps(found)
    say(cost_line(found), *time_lines(found))
    if found.pinned:
        _say_pinned(found, now)
    of_days = (*source_lines(found), *boundary_lines(found), *as_of_lines(found), *expectation_lines(found))
    for line in (*of_days, *terms_lines(found)):
        say(line)
    for each in found.findings:
        say(Text.assemble((each.severity, _COLOURS[each.severity]), f"  {each.message}"), f"       -> {each.next_step}")
    if moved is not None:
        _say_moved(moved)
    say(scope_line(found), after_line(found), Text.assemble((short_ids(typed_storage(), plans)(found.id), "bold")))


def say_next(found: Plan, moved: PlanDrift | None = None) -> None:
    """What carries a plan out that was just made. The last line of a pipe is the plan's id, which a script takes."""
    if screen() and moved is None and found.steps and not found.stopped:
        say(f"Next: backfill run {short_ids(typed_storage(), plans)(found.id)}")


def _say_steps(found: Plan) -> None:
    from backfill_assets.plan.text import STEP_COLUMNS, STEP_NUMBERS, step_rows

    say(new_table(*STEP_COLUMNS, rows=step_rows(found), numbers=STEP_NUMBERS, drop=_LEFT_OUT_FIRST))


def _say_pinned(found: Plan, now: datetime) -> None:
    from backfill_assets.plan.text import PINNED_COLUMNS, pinned_rows

    say(new_table(*PINNED_COLUMNS, rows=pinned_rows(found, now), numbers=["version"]))


def _say_moved(moved: PlanDrift) -> None:
    if not moved:
        say(Text("Nothing of what it was computed from has moved.", "green"))
    for line in moved.lines():
        say(Text.assemble(("moved", "bold red"), f"  {line}"))
