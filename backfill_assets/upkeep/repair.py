"""Which published days to rebuild, and what a person decides. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal

from backfill_assets.days import TableDay, by_table
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, Presence, walk_downstream
from backfill_assets.state.diagnosis import Action, Cause
from backfill_assets.state.status import day_statuses, reading_as_published
from backfill_assets.text import format_count
from backfill_assets.upkeep.beside_streams import in_words, left_to_streams
from backfill_assets.upkeep.bounds import why_beyond
from backfill_assets.upkeep.findings import SUSPECTED, Lineage, WrongDay, findings_of
from backfill_assets.upkeep.for_people import (
    ManualAction,
    after_most_attempts,
    after_partitions,
    before_partitions,
    by_diagnoses,
    by_diagnosis,
    first_ranges,
    is_after_partitions,
    left_to_plans,
    of_edited_logic,
    of_suspicions,
    of_unreadable,
    other_code,
    run_downstream,
)
from backfill_assets.upkeep.trouble import (
    RepairContext,
    StaleDay,
    WriteUnderWay,
    digest,
    find_stale_days,
)

_LONGEST_ID = 32
_ONE_BACKFILL: Mapping[str, frozenset[Cause]] = {
    "foreign_write": frozenset({Cause.FOREIGN_WRITE}),
    "damaged": frozenset({Cause.LOST_RAW, Cause.LOST_FILES, Cause.CONTENT}),
    "late_rows": frozenset({Cause.LATE, Cause.CORRECTED}),
    "new_input": frozenset({Cause.REFERENCE, Cause.INPUT}),
    "missing": frozenset({Cause.MISSING, Cause.FAILED_RUN}),
}
"""Causes that one backfill repairs, in this order; names begin its id."""
_LONGEST_TITLE = 100
Busy = Mapping[str, Sequence[WriteUnderWay]]


@dataclass(frozen=True)
class Repair:
    """One backfill of stale days and everything downstream; the same evidence gives the same ``id``."""

    id: str
    title: str
    troubles: tuple[StaleDay, ...]
    days: Mapping[str, tuple[date, ...]]
    force: bool
    """Inputs are as published: unforced, the days would be skipped."""
    versions: Mapping[str, Mapping[str, tuple[date, ...]]] = field(default_factory=dict)
    """Days by step that an older version rebuilds, since it published them."""
    undone: Mapping[str, tuple[date, ...]] = field(default_factory=dict)
    """Days by step that a person rolled back and whose inputs changed since."""
    core_seconds: Decimal = Decimal(0)
    """Upper bound by earlier builds on all cores; days never timed count 0."""
    restores: bool = False

    @property
    def description(self) -> str:
        older = "; ".join(
            f"{step} {first_ranges(days)} by {version}"
            for step, days_by_version in self.versions.items()
            for version, days in days_by_version.items()
        )
        versions = [f"By the version that they were published with: {older}."] if older else []
        undone = "; ".join(f"{step} {first_ranges(days)}" for step, days in self.undone.items())
        over = [f"A person had put these back, and what they are made of changes: {undone}."] if undone else []
        return "\n".join([*map(str, self.troubles), *versions, *over])


@dataclass(frozen=True)
class RepairDecision:
    lineage: Lineage
    launch: tuple[Repair, ...] = ()
    waiting: tuple[str, ...] = ()
    for_people: tuple[ManualAction, ...] = ()
    later: tuple[StaleDay, ...] = ()
    left_to: Mapping[StaleDay, str] = field(default_factory=dict)
    stale: tuple[StaleDay, ...] = ()
    findings: tuple[WrongDay, ...] = ()
    under_way: frozenset[TableDay] = frozenset()
    """Days being written or in a running plan: nothing new is said of them."""
    unsettled: frozenset[TableDay] = frozenset()
    """Days that cannot be judged now: their incidents stay."""
    unreadable: tuple[ManualAction, ...] = ()
    undecided: frozenset[str] = frozenset()
    """Unreadable tables and all built with or from them: their incidents stay."""


def repairs_needed(seen: RepairContext) -> RepairDecision:
    """One backfill for all days of a reason, each with its published version.

    - Days that a running backfill may write wait.
    - Days downstream of a raw day that waits for a person wait with it.
    - Days of a running stream or an open plan are left to it.
    - A person decides other diagnoses, days that failed too often, and repairs beyond the bounds.
    - Nothing is decided of an unreadable table and downstream.
    """
    undecided, unreadable = seen.observed.undecided(seen.steps), tuple(of_unreadable(seen))
    seen = replace(seen, steps=seen.observed.readable(seen.steps)) if undecided else seen
    statuses = day_statuses(seen.steps, seen.observed, as_published=True)
    raw, found = find_stale_days(seen, statuses)
    left = set(left_to_streams(seen, found))
    stale = [trouble for trouble in found if trouble not in left]
    code = other_code(seen, statuses)
    nowhere = [trouble for trouble in stale if not _has_place(seen, trouble)]
    wrong = [each for each in (*raw, *stale) if each not in nowhere]
    restored = [each for each in raw if each.diagnosis.helps is Action.RESTORE and _may_try(seen, each)]
    held = _downstream(seen, raw) if raw else {}
    with_raw = [each for each in wrong if each not in raw and each.day in held.get(each.table, ())]
    findings = findings_of(seen, wrong)
    accepted = {each.key for each in findings if each.accepted and each.cause not in SUSPECTED}
    apart = {*with_raw, *restored, *(each for each in wrong if each.key in accepted)}
    open_ = [each for each in wrong if each not in apart]
    rebuilt = [each for each in open_ if each.diagnosis.helps is Action.REBUILD and each not in raw]
    by_plan = {each: plan for each in rebuilt if (plan := seen.rebuilt_by.get(each.key))}
    tried = [each for each in rebuilt if each not in by_plan and not _may_try(seen, each)]
    roots = _roots(seen, [each for each in rebuilt if each not in by_plan and each not in tried])
    later = _later(seen, roots)
    launch, met, beyond = _launches(seen, [each for each in roots if each not in later])
    after = [each for each in nowhere if is_after_partitions(seen, each)]
    actions = (
        *by_diagnoses(seen, (each for each in open_ if each.diagnosis.helps is not Action.REBUILD)),
        *after_most_attempts(seen, tried),
        *beyond,
        *before_partitions(seen, (trouble for trouble in nowhere if trouble not in after)),
        *code,
        *of_edited_logic(seen, wrong),
        *of_suspicions(seen, findings),
    )
    people, of_plans = left_to_plans(seen, actions)
    waiting = (
        *met.values(),
        *_with_why(later),
        *_with_why({each: f"{plan} is rebuilding these days" for each, plan in by_plan.items()}),
        *([f"{format_count(len(with_raw), 'day')} made of raw days that wait for a person"] if with_raw else ()),
        *in_words(left),
        *after_partitions(after),
        *of_plans,
    )
    due = [each for each in restored if not (seen.pause(each) or seen.is_tried_now(each) or each.key in accepted)]
    return RepairDecision(
        Lineage(seen),
        (*launch, *_restores(seen, due)),
        waiting,
        (*unreadable, *people),
        (*later, *restored),
        by_plan,
        tuple(wrong),
        findings,
        frozenset({*(each.key for troubles in met for each in troubles), *seen.rebuilt_by}),
        frozenset({*(each.key for each in (*left, *nowhere) if not seen.was_held_back(each.key)), *_written_now(seen)}),
        unreadable,
        frozenset(undecided),
    )


def _has_place(seen: RepairContext, trouble: StaleDay) -> bool:
    return seen.is_built(trouble.table, trouble.day) or seen.held_by_stream(trouble.key) is not None


def _written_now(seen: RepairContext) -> Iterator[TableDay]:
    for key in seen.incidents:
        if any(write.days is not None and key.day in write.days for write in seen.busy.get(key.table, ())):
            yield key


# ---------------------------------------------------------------- what is launched


def _downstream(seen: RepairContext, troubles: Iterable[StaleDay], *, strictly: bool = False) -> dict[str, set[date]]:
    """``troubles`` and what is published or buildable downstream, each by the version that published it; ``strictly``:
    without ``troubles``.
    """
    there = Presence(seen.published)
    made: dict[str, set[date]] = {}

    def visit(step: Step, given: set[date], readers: set[date]) -> set[date]:
        buildable = {
            day for day in readers if seen.may_build(step.name, day) and not seen.edited_version(step.name, day)
        }
        reached = there.obtainable(step, buildable)
        there.add(step, given | reached)
        made.update(dict.fromkeys(step.table_names, reached))
        return given | reached

    def readers(step: Step, changed: Days) -> set[date]:
        return reading_as_published(step, changed, seen.observed.states)

    everything = walk_downstream(seen.steps, by_table(each.key for each in troubles), visit, readers)
    return made if strictly else everything


def _roots(seen: RepairContext, troubles: Sequence[StaleDay]) -> list[StaleDay]:
    reached = _downstream(seen, troubles, strictly=True)
    return [trouble for trouble in troubles if trouble.day not in reached.get(trouble.table, ())]


def _launches(
    seen: RepairContext, roots: Sequence[StaleDay]
) -> tuple[tuple[Repair, ...], dict[tuple[StaleDay, ...], str], tuple[ManualAction, ...]]:
    launch: list[Repair] = []
    waiting: dict[tuple[StaleDay, ...], str] = {}
    beyond: list[ManualAction] = []
    busy = {table: list(writes) for table, writes in seen.busy.items()}
    spent = seen.spending.lately
    for group in _groups(seen, roots):
        for part in _apart(seen, group, busy):
            repair = _repair(seen, part)
            if first := _met(busy, repair):
                waiting[repair.troubles] = f"{repair.title}: waits for {first.name}"
                continue
            days = sum(map(len, repair.days.values()))
            if why := why_beyond(seen.bounds, days, repair.core_seconds, spent, seen.spending.core_hour_price):
                beyond += _beyond(seen, part, why)
                continue
            spent += repair.core_seconds
            launch.append(repair)
            for table, dates in repair.days.items():
                busy.setdefault(table, []).append(WriteUnderWay(f"the repair {repair.id}", frozenset(dates)))
    return tuple(launch), waiting, tuple(beyond)


def _may_try(seen: RepairContext, stale: StaleDay) -> bool:
    return seen.tries(stale) < seen.bounds.attempts


def _restores(seen: RepairContext, troubles: Sequence[StaleDay]) -> Iterator[Repair]:
    for table, days in by_table(each.key for each in troubles).items():
        group = [each for each in troubles if each.table == table]
        attempts = sorted((each.evidence, seen.tries(each)) for each in group)
        repair = Repair(
            id=_id(group, attempts),
            title=f"Restore: {table} {first_ranges(days)}: lost files of raw",
            troubles=tuple(group),
            days={table: tuple(sorted(days))},
            force=False,
            restores=True,
        )
        if not _met(seen.busy, repair):
            yield repair


def _beyond(seen: RepairContext, group: Sequence[StaleDay], why: str) -> Iterator[ManualAction]:
    for found, days in by_diagnosis(group):
        table = days[0].table
        own = tuple(sorted(each.day for each in days))
        words = f"{found.words}. Its repair waits for a person: {why}"
        yield ManualAction(table, own, words, run_downstream(seen.step_of[table], own), found, too_large=True)


def _apart(seen: RepairContext, group: list[StaleDay], busy: Busy) -> list[list[StaleDay]]:
    if not _met(busy, _repair(seen, group)):
        return [group]
    must_wait = {trouble for trouble in group if _met(busy, _repair(seen, [trouble]))}
    parts = ([each for each in group if each not in must_wait], [each for each in group if each in must_wait])
    return [part for part in parts if part]


def _met(busy: Busy, repair: Repair) -> WriteUnderWay | None:
    writes = (
        each for table in sorted(repair.days) for each in busy.get(table, ()) if each.may_write(repair.days[table])
    )
    return next(writes, None)


def _groups(seen: RepairContext, roots: Sequence[StaleDay]) -> list[list[StaleDay]]:
    """Days that failed their gates are tried again last and apart, so that they hold no others back."""
    groups: dict[tuple[str, bool], list[StaleDay]] = {}
    for root in roots:
        again = seen.tries(root) > 0
        groups.setdefault((_kind(root), again and (root.table, root.day) in seen.failed_gates), []).append(root)
    order = list(_ONE_BACKFILL)
    return [groups[key] for key in sorted(groups, key=lambda key: (order.index(key[0]), key[1]))]


def _kind(stale: StaleDay) -> str:
    return next(name for name, causes in _ONE_BACKFILL.items() if stale.cause in causes)


def _repair(seen: RepairContext, group: Sequence[StaleDay]) -> Repair:
    days = _downstream(seen, group)
    attempts = sorted((trouble.evidence, seen.tries(trouble)) for trouble in group)
    again = max(attempt for _, attempt in attempts)
    return Repair(
        id=_id(group, attempts),
        title=_title(group, again + 1, is_undone=any(seen.undo(each.table, each.day) for each in group)),
        troubles=tuple(group),
        days={table: tuple(sorted(dates)) for table, dates in days.items()},
        undone=_undone(seen, days),
        force=_kind(group[0]) == "damaged",
        versions=_older_versions(seen, days),
        core_seconds=_core_seconds(seen, days),
    )


def _core_seconds(seen: RepairContext, days: Days) -> Decimal:
    steps = {seen.step_of[table].name for table in days}
    contents = (seen.observed.content(TableDay(name, day)) for name in steps for day in days.get(name, ()))
    return Decimal(sum(each.staged_ms or 0 for each in contents if each)) / 1000 * seen.spending.cores


def _id(group: Sequence[StaleDay], attempts: object) -> str:
    named = f"{_kind(group[0])}_{min(each.day for each in group):%Y%m%d}_"
    return named + digest(attempts, _LONGEST_ID - len(named))


def _older_versions(seen: RepairContext, days: Mapping[str, Iterable[date]]) -> dict[str, dict[str, tuple[date, ...]]]:
    older: dict[str, dict[str, tuple[date, ...]]] = {}
    for step in (step for step in seen.steps if step.name in days):
        for day in sorted(days[step.name]):
            version = seen.version_name(step.name, day)
            if version != step.current:
                of_step = older.setdefault(step.name, {})
                of_step[version] = (*of_step.get(version, ()), day)
    return older


def _undone(seen: RepairContext, days: Mapping[str, Iterable[date]]) -> dict[str, tuple[date, ...]]:
    steps = (step for step in seen.steps if step.versions and step.name in days)
    found = {step.name: tuple(day for day in sorted(days[step.name]) if seen.undo(step.name, day)) for step in steps}
    return {step: back for step, back in found.items() if back}


def _title(group: Sequence[StaleDay], attempt: int, *, is_undone: bool = False) -> str:
    days = by_table(each.key for each in group)
    listed = "; ".join(f"{table} {first_ranges(dates)}" for table, dates in days.items())
    first, *others = days
    spanned = f"{min(each.day for each in group)}..{max(each.day for each in group)}"
    counted = f"{first}{f' and {len(others)} more' if others else ''}, {len(group)} days of {spanned}"
    causes = ", ".join(each for each in Cause if each in {stale.cause for stale in group})
    why = causes + " since an undo" * is_undone + (f" (attempt {attempt})" if attempt > 1 else "")
    title = f"Repair: {listed}: {why}"
    return title if len(title) <= _LONGEST_TITLE else f"Repair: {counted}: {why}"


def _later(seen: RepairContext, roots: Iterable[StaleDay]) -> dict[StaleDay, str]:
    """While rows come in to one day of a table, its other days wait too."""
    coming = {(each.table, _kind(each)) for each in roots if seen.comes_in(each)}
    later: dict[StaleDay, str] = {}
    for each in roots:
        if until := seen.pause(each):
            later[each] = f"attempt {seen.tries(each) + 1} not before {until:%H:%M:%S} UTC"
        elif (each.table, _kind(each)) in coming:
            later[each] = f"until nothing came for {seen.bounds.settle:.0f} s"
    return later


def _with_why(whys: Mapping[StaleDay, str]) -> Iterator[str]:
    groups: dict[tuple[str, Cause, str], list[date]] = {}
    for each, why in sorted(whys.items()):
        groups.setdefault((each.table, each.cause, why), []).append(each.day)
    for (table, cause, why), days in groups.items():
        yield f"{table} {first_ranges(days)}: {cause}; {why}"
