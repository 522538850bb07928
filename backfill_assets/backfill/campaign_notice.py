"""What people are told of a campaign: before it begins, with its publication, and when it is undone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backfill_assets.backfill.approval import Moved, moved_sentence
from backfill_assets.backfill.campaign import TableChange, change_sentence
from backfill_assets.backfill.plan import Plan
from backfill_assets.datasets import registry
from backfill_assets.lakehouse.publication import Notice


def begins(plan: Plan) -> Notice:
    """Nothing of it can be seen yet: the reports stay as they are until somebody approves."""
    days = plan.asked.days
    return Notice(
        title=f"{plan.asked.target} of {days} is going to be rebuilt ({plan.id})",
        lines=(
            *(f"{step.name}: {len(step.days)} periods" for step in plan.steps if step.days),
            "Until it is approved, every table and report stays as it is.",
        ),
        reports=reports(table for step in plan.steps if step.days for table in step.tables),
    )


def completed(plan: Plan, changes: Sequence[TableChange], approved_by: str, moved: Moved | None = None) -> Notice:
    """Written with the publication, so that there is one exactly when something was published.

    ``changes`` are those of the publication itself; ``moved`` are days of it that are not as they were approved.
    """
    again = [f"{moved_sentence(moved)} It was compared and judged again before it was published."] if moved else []
    return Notice(
        title=f"{plan.asked.target} of {plan.asked.days} was rebuilt ({plan.id})",
        lines=(*(change_sentence(change) for change in changes), *again),
        reports=reports(change.table for change in changes if change.changed),
        approved_by=approved_by,
        undo=f"backfill rollback {plan.id}",
    )


def reports(tables: Iterable[str]) -> tuple[str, ...]:
    """Those that people read."""
    return tuple(name for name in dict.fromkeys(tables) if registry.table(name).layer == "report")
