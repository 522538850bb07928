"""Notices of a campaign: before it begins, with its publication, at a limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.campaign.approval import MovedDays, moved_sentence
from backfill_assets.difference.difference import TableDifference
from backfill_assets.difference.verdict import change_sentence
from backfill_assets.lakehouse.records import Notice
from backfill_assets.limits import Exceeded
from backfill_assets.model.graph import NO_DAYS, Days
from backfill_assets.plan.records import Plan, as_ranges
from backfill_assets.text import format_ranges


def begins(plan: Plan, reports: Sequence[str], dataset: str = "") -> Notice:
    tables = {table: as_ranges(days) for table, days in plan.rebuilds.items()}
    return Notice(
        title=f"{plan.asked.target} of {plan.asked.days} is going to be rebuilt ({plan.id})",
        lines=(
            *_purpose(plan),
            f"{plan.scope_of(tables)}: {', '.join(tables)}.",
            "Until it is approved, every table and report stays as it is.",
        ),
        reports=tuple(reports),
        dataset=dataset,
    )


def limit_reached(plan: Plan, exceeded: Exceeded, dataset: str = "") -> Notice:
    what = "was stopped by a limit" if exceeded.stops else "has spent most of a budget"
    ask = "Nothing was published. " if exceeded.stops else ""
    return Notice(
        title=f"{plan.asked.target} of {plan.asked.days} {what} ({plan.id})",
        lines=(f"{exceeded.limit}: {exceeded.sentence}", f"{ask}Look at it: backfill status {plan.id}"),
        severity="critical" if exceeded.stops else "warning",
        dataset=dataset,
    )


def completion(
    plan: Plan,
    changes: Sequence[TableDifference],
    reports: Sequence[str],
    approved_by: str,
    moved: MovedDays | None = None,
    stale: Days = NO_DAYS,
    dataset: str = "",
) -> Notice:
    """Written with the publication. ``reports``: changed tables that people read; ``moved``: days unlike what was
    approved; ``stale``: days outside that read it.
    """
    behind = (f"{table}: stale until built again: {format_ranges(days)}." for table, days in stale.items())
    again = [f"{moved_sentence(moved)} It was compared and judged again before it was published."] if moved else []
    return Notice(
        title=f"{plan.asked.target} of {plan.asked.days} was rebuilt ({plan.id})",
        lines=(
            *_purpose(plan),
            *(change_sentence(change, plan.cadence(change.table)) for change in changes),
            *again,
            *behind,
        ),
        reports=tuple(reports),
        approved_by=approved_by,
        undo=f"backfill rollback {plan.id}",
        dataset=dataset,
    )


def _purpose(plan: Plan) -> list[str]:
    said = ": ".join(filter(None, (plan.terms.title, plan.terms.reason)))
    return [said] if said else []
