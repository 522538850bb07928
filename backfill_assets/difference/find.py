from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.difference.compare import TableComparison
from backfill_assets.difference.difference import TableCompared
from backfill_assets.difference.letter import DeclaredOfTables
from backfill_assets.difference.verdict import Difference, SameTotal, difference_of
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.named_timelines import timeline_called
from backfill_assets.lakehouse.plans import PLANS
from backfill_assets.lakehouse.records import DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import step_by_table, steps_of
from backfill_assets.model.rules import TotalAgrees
from backfill_assets.plan.code_change import CodeChange, code_changes
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.keep import shadow_steps
from backfill_assets.plan.records import Plan
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import StagedDays, days_staged_in, with_days_that_stay
from backfill_assets.state.observed import observe
from backfill_assets.state.view import View, differing, find_moment, is_version, records_seen
from backfill_assets.text import format_count, format_range
from backfill_assets.timeline.view import find_place, is_of_campaign, stale_days, stale_lines


def declared_of(steps: Sequence[Step]) -> DeclaredOfTables:
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
    *,
    known: Sequence[TableCompared] = (),
    expectations: Sequence[Expectation] = (),
) -> tuple[list[TableCompared], int]:
    """Tables and log entry. Tables whose days are ``known`` are not read again."""
    observed = observe(lake.storage, [table.name for each in steps for table in each.step.tables])
    before = {table.table: table for table in known}
    found = []
    for each in steps:
        for table in each.step.tables:
            main = records_seen(observed, table.name, observed.files)
            after = staged.overlay.days.get(table.name, {})
            stay = {day: staged.why_it_stays(table.name, day) for day in each.days if day not in after}
            both = TableComparison(lake, table, each.step.cadence, each.days, progress, main, after, stay)
            only = [one.subject for one in expectations if one.only and one.table in ("", table.name)]
            found.append(both.compare(before.get(table.name), only))
    return found, observed.sequence


def find_difference(
    lake: Lake,
    plan: Plan,
    progress: Progress,
    *,
    staged: StagedDays | None = None,
    known: Sequence[TableCompared] = (),
) -> Difference:
    """Compares what a campaign (or only ``staged``) has staged, judges and keeps it. Raises :class:`InvalidRequest` if
    nothing is staged.
    """
    steps = shadow_steps(lake.catalog, plan)
    tables = [table.name for each in steps for table in each.step.tables]
    found_staged = staged or days_staged_in(lake.storage, campaign_of(plan.id), tables)
    if not any(found_staged.overlay.days.values()):
        raise InvalidRequest(f"Nothing of {plan.id} is staged.", hint=f"backfill run {plan.id} stages it.")
    if staged is None:
        found_staged = with_days_that_stay(lake, steps, found_staged)
    found, log_entry = compare(lake, steps, found_staged, progress, known=known, expectations=plan.expectations)
    difference = difference_of(plan, found, log_entry=log_entry, made_at=clock.now().replace(microsecond=0))
    keep_difference(lake.storage, difference)
    return difference


def last_difference(storage: Storage, plan: str) -> Difference | None:
    return _kept(storage).get(f"{plan}.difference")


def keep_difference(storage: Storage, difference: Difference) -> None:
    _kept(storage).replace(f"{difference.plan}.difference", difference)


def _kept(storage: Storage) -> Documents[Difference]:
    return Documents(storage, PLANS, Difference, "Remove it: backfill diff PLAN finds it again.")


# ------------------------------------------------------------------ any two states

MAIN = "main"


@dataclass(frozen=True)
class StatesRequest:
    left: str
    right: str
    tables: Sequence[str] = ()
    days: DayRange | None = None


def find_state(storage: Storage, text: str, now: datetime, table: str = "") -> View:
    """Raises :class:`InvalidRequest` for an unknown state, or a version without ``table``."""
    if text == MAIN:
        return View.newest(storage)
    found = find_place(storage, text, now) if is_of_campaign(text) else timeline_called(storage, text, now)
    if found is not None:
        return replace(View.of(storage, found), name=text)
    if is_version(text) and not table:
        raise InvalidRequest(
            f"{text} is a version of a table: of which one?", hint="backfill diff LEFT RIGHT --table TABLE"
        )
    return find_moment(storage, text, table)


def compare_states(lake: Lake, steps: Sequence[Step], asked: StatesRequest, progress: Progress) -> Difference:
    """Tables default to those of the timelines' days, or all; days to the timelines' own and those that differ."""
    now, first = clock.now(), next(iter(asked.tables), "")
    left, right = (find_state(lake.storage, text, now, first) for text in (asked.left, asked.right))
    own = {*left.over, *right.over}
    wanted = set(asked.tables) or own or {*left.versions, *right.versions}
    concerned = steps_of(steps, wanted)
    names = [table.name for step in concerned for table in step.tables if table.name in wanted]
    before, after = left.records(names), right.records(names)
    days = days_to_compare(left, right, before, after, asked.days)
    found = [
        TableComparison(
            lake, table, step.cadence, sorted(days[table.name]), progress, before[table.name], after[table.name]
        ).compare()
        for step in concerned
        for table in step.tables
        if days.get(table.name)
    ]
    stale = [line for view in (left, right) for line in _stale_lines(view, steps)]
    changes = code_changes(steps, _versions_of_days(concerned, before, after, found))
    return _difference(left, right, asked, found, stale, changes)


def _stale_lines(view: View, steps: Sequence[Step]) -> list[str]:
    """Days computed from others than the timeline shows."""
    if view.timeline is None:
        return []
    return stale_lines(view.timeline, stale_days(view.storage, view.timeline, steps))


def _versions_of_days(
    steps: Sequence[Step], before: DayRecords, after: DayRecords, compared: Sequence[TableCompared]
) -> Iterator[tuple[str, str, str]]:
    names = step_by_table(steps)
    for table in compared:
        for day in table.differing:
            left, right = (side[table.table].get(day.day) for side in (before, after))
            if left and right and left.content and right.content:
                yield names[table.table].name, left.content.code_version, right.content.code_version


def days_to_compare(
    left: View, right: View, before: DayRecords, after: DayRecords, chosen: DayRange | None
) -> dict[str, set[date]]:
    """In ``chosen``, else days that differ and timelines' own. Pure."""
    differ = differing(before, after)
    if chosen is not None:
        return {table: {day for day in {*before[table], *after[table]} if day in chosen} for table in differ}
    return {table: {*days, *left.over.get(table, ()), *right.over.get(table, ())} for table, days in differ.items()}


def _difference(
    left: View,
    right: View,
    asked: StatesRequest,
    found: Sequence[TableCompared],
    stale: Sequence[str],
    code: tuple[CodeChange, ...],
) -> Difference:
    shown = [day.day for table in found for day in table.days]
    days = asked.days or (DayRange(min(shown), max(shown)) if shown else None)
    return Difference(
        left=left.name,
        right=right.name,
        target=next(iter(asked.tables), "") or (found[0].table if found else ""),
        days=format_range(days) if days else format_count(0, "day"),
        log_entry=max(left.sequence, right.sequence),
        made_at=clock.now().replace(microsecond=0),
        tables=tuple(found),
        stale=tuple(dict.fromkeys(stale)),
        code=code,
    )
