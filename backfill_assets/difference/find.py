"""Finds the difference of a plan's campaign and keeps it with the plan: what the command and the UI ask for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from backfill_assets.difference.compare import compare
from backfill_assets.difference.kept import Difference, difference_of
from backfill_assets.difference.records import TableCompared
from backfill_assets.difference.table_comparison import SAMPLE_ROWS
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.lakehouse.plans import keep_difference, kept_difference
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.plan.records import Plan
from backfill_assets.plan.shadow_steps import shadow_steps
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.shadow import StagedDays, days_staged_in, with_days_that_stay


def find_difference(
    lake: Lake,
    plan: Plan,
    progress: Progress,
    sample_rows: int = SAMPLE_ROWS,
    *,
    staged: StagedDays | None = None,
    known: Sequence[TableCompared] = (),
) -> Difference:
    """Compare what the campaign of ``plan`` has staged with main, judge it, and keep it for others.

    With ``staged``, compare only that. ``known`` are earlier comparisons: only tables that moved since are read again.
    Raises :class:`InvalidRequest` when nothing is staged: before the campaign ran, and after it was cut over.
    """
    steps = shadow_steps(lake.catalog, plan)
    tables = [table.name for each in steps for table in each.step.tables]
    found_staged = staged or days_staged_in(lake.storage, campaign_of(plan.id), tables)
    if not any(found_staged.overlay.days.values()):
        raise InvalidRequest(f"Nothing of {plan.id} is staged.", hint=f"backfill run {plan.id} stages it.")
    if staged is None:
        found_staged = with_days_that_stay(lake.publisher, steps, found_staged)
    found, log_entry = compare(
        lake, steps, found_staged, progress, sample_rows, known=known, expectations=plan.expectations
    )
    difference = difference_of(plan, found, log_entry=log_entry, made_at=datetime.now(UTC).replace(microsecond=0))
    keep_difference(lake.storage, plan.id, difference.to_json())
    return difference


def last_difference(storage: Storage, plan: str) -> Difference | None:
    """The difference that was found last, without Spark; None if none was found yet."""
    kept = kept_difference(storage, plan)
    return None if kept is None else Difference.from_json(kept)
