"""What a run in the foreground builds: days, tables and reasons, decided before Spark starts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from backfill_assets.days import DayRange, TableDay, contiguous
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import DayState, is_adopted
from backfill_assets.landing.zone import LandedSource
from backfill_assets.model.current_versions import require_current
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, earlier_days, expand_tables, reading, steps_of, walk_downstream
from backfill_assets.plan.closed import without_closed
from backfill_assets.plan.preflight import edited_in_place, finding
from backfill_assets.plan.records import PlanFinding, PlannedStep, as_ranges
from backfill_assets.plan.scope import planned_step, worst_status
from backfill_assets.rebuild.decide import AS_PUBLISHED, published_days, rolled_back
from backfill_assets.state.closed import books_of, waiting_rows
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.edited_logic import EditedLogic
from backfill_assets.state.observed import LogView
from backfill_assets.state.rolled_back import NO_ROLLBACKS, Rollbacks
from backfill_assets.state.status import day_statuses, reading_as_published
from backfill_assets.text import days_options, format_count, format_range, format_ranges

LATEST_DAYS = 35
"""Files that land later than this after a run's days are not reported."""
_MOST_RANGES = 3
_MOST_NAMED = 2


@dataclass(frozen=True)
class RunRequest:
    """``version`` may be :data:`AS_PUBLISHED`."""

    tables: Sequence[str]
    days: Collection[date]
    upstream: bool = False
    downstream: bool = False
    version: str | None = None
    force: bool = False
    newest_first: bool = False


Landed = Callable[[str], LandedSource]
"""By raw table; called only if the run builds or reads it."""


def nothing_landed(_table: str) -> LandedSource:
    return LandedSource()


@dataclass(frozen=True)
class RunPlan:
    """Printed by a dry run, carried out by a run."""

    asked: RunRequest
    steps: tuple[PlannedStep, ...]
    findings: tuple[PlanFinding, ...] = ()
    left_out: tuple[str, ...] = ()
    """Raw tables, which timelines share: a run on a timeline does not build them."""

    def without_raw(self) -> RunPlan:
        kept = tuple(each for each in self.steps if each.kind == "rebuild")
        return replace(self, steps=kept, left_out=tuple(each.name for each in self.steps if each not in kept))


def plan_run(
    asked: RunRequest,
    steps: Sequence[Step],
    observed: LogView,
    today: date,
    *,
    landed: Landed = nothing_landed,
    rollbacks: Rollbacks = NO_ROLLBACKS,
    edited: Sequence[EditedLogic] = (),
) -> RunPlan:
    """``steps``: of all datasets, in build order. ``rollbacks``: those in force.

    Raises :class:`InvalidRequest` for days not over, an unknown version, or a current one that is not declared.
    """
    _require_ended(asked.days, today)
    tables = expand_tables(steps, asked.tables, upstream=asked.upstream, downstream=asked.downstream)
    later = later_days(steps, tables, asked.days, observed) if asked.downstream else {}
    earlier = _earlier_days(steps, tables, asked.days, observed, landed, today) if asked.upstream else {}
    every = {*asked.days, *(day for each in (earlier, later) for days in each.values() for day in days)}
    reached = DayRange(min(every), max(every))
    named = {step.name: _version(step, asked) for step in steps if asked.version not in (None, AS_PUBLISHED)}
    as_published = asked.version == AS_PUBLISHED
    current = day_statuses(steps, observed, reached, as_published=as_published, versions=named)
    published = day_statuses(steps, observed, reached, as_published=True) if later or earlier else current
    books = books_of(observed, steps, datetime(today.year, today.month, today.day, tzinfo=UTC))
    waits = waiting_rows(observed, steps, books)
    planned: list[PlannedStep] = []
    left: list[PlanFinding] = []
    rebuilt: dict[str, set[date]] = {}
    for step in steps_of(steps, tables):
        if asked.version is None:
            require_current(step, observed.switches)
        after, before = (set(days.get(step.name, ())) for days in (later, earlier))
        own = {day: worst_status(step, day, current) for day in step.cadence.starts(asked.days)}
        along = {day: worst_status(step, day, published) for day in after | before}
        again = _with_rebuilt_inputs(step, asked, observed, own, along, rebuilt)
        files = landed(step.name).waiting({*own, *along}) if step.source else {}
        update = {"later": as_ranges(after), "earlier": as_ranges(before)}
        each, said = without_closed(_plan_step(step, asked, observed, own, along, again, files), books, waits)
        planned.append(each.model_copy(update=update))
        left += said
        # Forced days give the same rows: their readers need no rebuild.
        changing = {day for day, why in planned[-1].why.items() if why is not Cause.ASKED_FOR}
        rebuilt |= dict.fromkeys(step.table_names, changing)
    findings = [
        *left,
        *edited_in_place(planned, edited),
        *rolled_back_before(planned, observed.states, rollbacks),
        *_not_taken_in(steps, tables, asked.days, landed, today),
    ]
    return RunPlan(asked, tuple(planned), tuple(findings))


def _plan_step(
    step: Step,
    asked: RunRequest,
    observed: LogView,
    own: Mapping[date, Cause | None],
    along: Mapping[date, Cause | None],
    again: Collection[date],
    files: dict[date, int],
) -> PlannedStep:
    """``own``: requested days; ``along``: days that come with them; ``again``: days with inputs that this run rebuilds.
    ``files``: how many wait, by day.

    Only requested days are forced, never raw, which is only appended to. Adopted days stay unless forced.
    """
    if step.external:
        return planned_step(step, dict.fromkeys((*own, *along)))
    otherwise: dict[date, Cause | None] = {
        **dict.fromkeys(again, Cause.INPUT_REBUILT),
        **dict.fromkeys(own if asked.force and not step.source else (), Cause.ASKED_FOR),
        **dict.fromkeys(files, Cause.LANDED),
    }
    for day in {**own, **along}:
        if is_adopted(observed.states, step.table_names, day):
            otherwise[day] = Cause.ADOPTED if asked.force and day in own else None
    reasons = {}
    for day, status in {**own, **along}.items():
        # Raw rows that a changed declaration assigns to other days stay until a refresh.
        waits = step.source is not None and status is Cause.CODE_CHANGED
        reasons[day] = otherwise.get(day) if waits else status or otherwise.get(day)
    return planned_step(step, reasons).model_copy(update={"version": _version(step, asked), "to_ingest": files})


def _with_rebuilt_inputs(
    step: Step, asked: RunRequest, observed: LogView, own: Collection[date], along: Collection[date], rebuilt: Days
) -> set[date]:
    as_published = reading_as_published(step, rebuilt, observed.states) if any(rebuilt.values()) else set()
    version = _version(step, asked)
    if step.source:
        return set()
    if version == AS_PUBLISHED:
        return as_published & {*own, *along}
    current = reading(step, rebuilt, step.version(version), observed.filled([step]))
    return (current & set(own)) | (as_published & set(along))


def _version(step: Step, asked: RunRequest) -> str:
    if asked.version == AS_PUBLISHED:
        return AS_PUBLISHED
    if asked.version is not None and not set(asked.tables).isdisjoint(step.table_names):
        return step.version(asked.version).name
    return step.current


def later_days(
    steps: Sequence[Step], tables: Collection[str], days: Collection[date], observed: LogView
) -> dict[str, set[date]]:
    """Published periods of ``tables`` that look back to ``days`` from outside, and their readers, by step."""
    building, published = steps_of(steps, tables), published_days(observed.states)
    asked = {step.name: set(step.cadence.starts(days)) for step in building}
    found: dict[str, set[date]] = {}

    def visit(step: Step, own: set[date], readers: set[date]) -> set[date]:
        if later := (readers - own).intersection(published.get(step.name, ())):
            found[step.name] = later
        return own | later

    walk_downstream(building, asked, visit, lambda step, built: reading_as_published(step, built, observed.states))
    return found


def _earlier_days(
    steps: Sequence[Step],
    tables: Collection[str],
    days: Collection[date],
    observed: LogView,
    landed: Landed,
    today: date,
) -> dict[str, set[date]]:
    there = {
        step.name: {day for day, found in landed(step.name).days.items() if found.files and day < today}
        for step in steps_of(steps, tables)
        if step.source
    }
    return earlier_days(steps, tables, days, published_days(observed.states), there)


def rolled_back_before(
    planned: Sequence[PlannedStep], states: Mapping[TableDay, DayState], rollbacks: Rollbacks
) -> Iterator[PlanFinding]:
    for each in planned:
        back = rolled_back([TableDay(table, day) for table in each.tables for day in each.days], states)
        for by in dict.fromkeys(back.values()):
            days = {key.day for key, publication in back.items() if publication == by}
            when = f"rolled back on {rollbacks.at(by):%Y-%m-%d %H:%M:%SZ} by {by}"
            message = f"{each.name}: {when}, would be built again: {format_ranges(days, _MOST_NAMED)}"
            yield finding("warns", Cause.ROLLED_BACK.value, message, "", each.name, days)


def _not_taken_in(
    steps: Sequence[Step], tables: Collection[str], days: Collection[date], landed: Landed, today: date
) -> Iterator[PlanFinding]:
    """Files on ended days around ``days`` that may have rows of these, for each raw table above ``tables``."""
    above = expand_tables(steps, tables, upstream=True)
    ended = today - timedelta(days=1)
    around = {day for day in DayRange(min(days), max(days)).widened(after=LATEST_DAYS) if day <= ended}
    for step in (step for step in steps_of(steps, above) if step.source):
        source, in_run = landed(step.name), step.name in tables
        files = source.waiting(around.difference(days if in_run else ()))
        if source.problem:
            yield finding("warns", "landed files unknown", f"{step.name}: {source.problem}", "", step.name)
        elif files:
            ranges = [format_range(each) for each in contiguous(files)]
            on = ", ".join(ranges[:_MOST_RANGES]) + (" and later" if ranges[_MOST_RANGES:] else "")
            counted = format_count(sum(files.values()), "file")
            message = f"{step.name}: landed on {on} and not ingested: {counted}."
            options = days_options(files, _MOST_RANGES)
            add = f"add {options}" if in_run else f"first backfill run {step.name} {options}"
            hint = f"If they may have rows of these days, {add}"
            yield finding("warns", Cause.LANDED.value, message, hint, step.name, files)


def _require_ended(days: Collection[date], today: date) -> None:
    if max(days) >= today:
        raise InvalidRequest(
            f"The days end with {max(days)}, which is not over; today is {today} in UTC.",
            hint="End them with yesterday at the latest: what arrives today is not complete.",
        )
