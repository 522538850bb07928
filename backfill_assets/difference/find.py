"""Finds the difference of a plan's campaign and keeps it with the plan: what the command and the UI ask for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from backfill_assets.difference.agreement import SameTotal
from backfill_assets.difference.kept import Difference, difference_of
from backfill_assets.difference.letter import DeclaredOfTables
from backfill_assets.difference.records import TableCompared
from backfill_assets.difference.table_comparison import SAMPLE_ROWS, TableComparison
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.lakehouse.delta_log import newest_version
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.plans import PLANS
from backfill_assets.lakehouse.records import DayRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.rules import TotalAgrees
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.keep import shadow_steps
from backfill_assets.plan.records import Plan
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.step_build import StepRequest
from backfill_assets.rebuild.walk import StagedDays, days_staged_in, with_days_that_stay
from backfill_assets.state.observed import LogView, observe
from backfill_assets.state.view import records_of_version


def declared_of(steps: Sequence[Step]) -> DeclaredOfTables:
    """What the answer about a difference has to know of the declared tables."""
    tables = [table for step in steps for table in step.tables]
    totals = (
        SameTotal(table.name, rule.column, rule.fact, rule.fact_total)
        for table in tables
        for rule in table.rules
        if isinstance(rule, TotalAgrees)
    )
    return DeclaredOfTables(frozenset(each.name for each in tables if each.layer == "report"), tuple(totals))


def compare(
    lake: Lake,
    steps: Sequence[StepRequest],
    staged: StagedDays,
    progress: Progress,
    sample_rows: int = SAMPLE_ROWS,
    *,
    known: Sequence[TableCompared] = (),
    expectations: Sequence[Expectation] = (),
) -> tuple[list[TableCompared], int]:
    """What publishing ``staged`` of ``steps`` would change, table by table, as of which entry of the publication log.

    ``known`` are comparisons from before: a table is not read again if both sides of its days are as they were. Where
    one of ``expectations`` says that only one column changes, the others are compared.
    """
    observed = observe(lake.storage, [table.name for each in steps for table in each.step.tables])
    before = {table.table: table for table in known}
    found = []
    for each in steps:
        for table in each.step.tables:
            main, after = _main_now(lake.storage, table.name, observed), staged.overlay.days.get(table.name, {})
            stay = {day: staged.why_it_stays(table.name, day) for day in each.days if day not in after}
            both = TableComparison(lake, table, each.step.cadence, each.days, progress, main, after, stay)
            only = [one.subject for one in expectations if one.only and one.table in ("", table.name)]
            found.append(both.compare(sample_rows, before.get(table.name), only))
    return found, observed.sequence


def _main_now(storage: Storage, table: str, observed: LogView) -> dict[date, DayRecord]:
    """What main holds as compare-and-swap compares it; while it is published to, as of the last closed entry."""
    under_way = any(table in tables for tables in observed.writing.values())
    version = observed.versions.get(table) if under_way else newest_version(storage, table)
    states = {day: state for (name, day), state in observed.states.items() if name == table}
    return records_of_version(storage, table, version, states)


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
        found_staged = with_days_that_stay(lake, steps, found_staged)
    found, log_entry = compare(
        lake, steps, found_staged, progress, sample_rows, known=known, expectations=plan.expectations
    )
    difference = difference_of(plan, found, log_entry=log_entry, made_at=datetime.now(UTC).replace(microsecond=0))
    keep_difference(lake.storage, difference)
    return difference


def last_difference(storage: Storage, plan: str) -> Difference | None:
    """The difference that was found last, without Spark; None if none was found yet."""
    return _kept(storage).get(f"{plan}.difference")


def keep_difference(storage: Storage, difference: Difference) -> None:
    """Keep the newest difference of a plan; what was kept before is replaced."""
    _kept(storage).replace(f"{difference.plan}.difference", difference)


def _kept(storage: Storage) -> Documents[Difference]:
    return Documents(storage, PLANS, Difference, "Remove it: backfill diff PLAN finds it again.")
