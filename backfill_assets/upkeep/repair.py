"""Which published days must be built again and why, and which a person must decide about. Pure: no clock, no data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, Presence, walk_downstream
from backfill_assets.plan.status import DayStatus, Statuses, day_statuses
from backfill_assets.state.readers import reading_as_published
from backfill_assets.text import days_options, format_count, format_ranges
from backfill_assets.upkeep.trouble import (
    HeldByGates,
    RepairContext,
    StaleDay,
    StaleReason,
    WriteUnderWay,
    by_table,
    digest,
    find_stale_days,
    in_words,
    left_to_streams,
)

MOST_ATTEMPTS = 3
_LONGEST_ID = 32
_SHORT: Mapping[StaleReason, str] = {
    StaleReason.FOREIGN_WRITE: "foreign_write",
    StaleReason.WATCHDOG: "watchdog",
    StaleReason.LATE_ROWS: "late_rows",
    StaleReason.INPUT_CHANGED: "new_input",
    StaleReason.MISSING: "never_built",
}
_LONGEST_TITLE = 100
_MOST_RANGES = 4
Busy = Mapping[str, Sequence[WriteUnderWay]]
"""What is under way, by table."""


@dataclass(frozen=True)
class Repair:
    """One backfill of stale days and everything downstream of them. The same evidence gives the same ``id``."""

    id: str
    title: str
    troubles: tuple[StaleDay, ...]
    days: Mapping[str, tuple[date, ...]]
    force: bool
    """The inputs are those that the days were published from: without it, they would be found unchanged."""
    versions: Mapping[str, Mapping[str, tuple[date, ...]]] = field(default_factory=dict)
    """By step, the days that were published with another version than the current one: that one builds them again."""

    @property
    def description(self) -> str:
        """Each day with its evidence, and the versions that are not the current ones."""
        older = "; ".join(
            f"{step} {first_ranges(days)} by {version}"
            for step, days_by_version in self.versions.items()
            for version, days in days_by_version.items()
        )
        versions = [f"By the version that they were published with: {older}."] if older else []
        return "\n".join([*map(str, self.troubles), *versions])


@dataclass(frozen=True)
class ManualAction:
    """Days that no backfill puts right by itself, and what a person does about them."""

    table: str
    days: tuple[date, ...]
    why: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.table} {first_ranges(self.days)}: {self.why} -> {self.next_step}"


@dataclass(frozen=True)
class RepairDecision:
    """What to launch now, what waits for something that is under way, and what waits for a person."""

    launch: tuple[Repair, ...] = ()
    waiting: tuple[str, ...] = ()
    for_people: tuple[ManualAction, ...] = ()


def repairs_needed(seen: RepairContext) -> RepairDecision:
    """One backfill for all days with the same reason. Days that a running backfill may write wait for the next look.

    A person must decide about raw days with a foreign write, days that failed :data:`MOST_ATTEMPTS` times, days that
    their gates would hold back again, days that a person has rolled back, and days whose version is no longer declared.
    Days that are made of such a day wait with it. Days that a running stream follows are left to it. A repair builds
    each day with the version that it was published with. Days that a plan is rebuilding are left to that, and to the
    person who approves it.
    """
    statuses = day_statuses(seen.steps, seen.observed, as_published=True)
    raw, found = find_stale_days(seen, statuses)
    left = set(left_to_streams(seen, found))
    stale = [trouble for trouble in found if trouble not in left]
    if not raw and not stale:
        quiet = RepairDecision(waiting=tuple(in_words(left)), for_people=tuple(_other_code(seen, statuses)))
        return _left_to_plans(seen, quiet)
    nowhere = [trouble for trouble in stale if not seen.has_partition(trouble.table, trouble.day)]
    back = [trouble for trouble in stale if seen.is_rolled_back(trouble.table, trouble.day)]
    free_to_build = [trouble for trouble in stale if trouble not in nowhere and trouble not in back]
    gone = [trouble for trouble in free_to_build if seen.version(trouble.table, trouble.day) is None]
    there = [trouble for trouble in free_to_build if trouble not in gone]
    held = _downstream(seen, raw)
    free = [trouble for trouble in there if trouble.day not in held.get(trouble.table, ())]
    gates = {trouble: gate for trouble in free if (gate := seen.fails_again(trouble))}
    open_to_repair = [trouble for trouble in free if trouble not in gates]
    tried = [trouble for trouble in open_to_repair if seen.attempts.get(trouble.evidence, 0) >= MOST_ATTEMPTS]
    launch, waiting = _launches(seen, _roots(seen, [trouble for trouble in open_to_repair if trouble not in tried]))
    if len(free) < len(there):
        waiting += (f"{format_count(len(there) - len(free), 'day')} made of raw days that wait for a person",)
    waiting += tuple(in_words(left))
    later = [trouble for trouble in nowhere if _is_after_partitions(seen, trouble)]
    waiting += tuple(_after_partitions(later))
    people = (
        *_raw(raw),
        *_held_back(seen, gates),
        *_after_most_attempts(tried),
        *_before_partitions(trouble for trouble in nowhere if trouble not in later),
        *_rolled_back(back),
        *_of_gone_versions(seen, gone),
    )
    return _left_to_plans(seen, RepairDecision(launch, waiting, (*people, *_other_code(seen, statuses))))


def first_ranges(days: Iterable[date]) -> str:
    """Days as ranges, the first few of them: ``2017-03-04..2017-03-05, 2017-03-09..2017-03-09``."""
    return format_ranges(days, _MOST_RANGES)


# ---------------------------------------------------------------- what is launched


def _downstream(seen: RepairContext, troubles: Iterable[StaleDay], *, strictly: bool = False) -> dict[str, set[date]]:
    """The days of ``troubles`` and those made of them that are published or can be built; ``strictly``: only these.

    Tables that are built together come together. A published day is made of what the version reads that it was
    published with.
    """
    there = Presence(seen.published)
    made: dict[str, set[date]] = {}

    def visit(step: Step, given: set[date], readers: set[date]) -> set[date]:
        reached = there.obtainable(step, {day for day in readers if seen.may_build(step.name, day)})
        there.add(step, given | reached)
        made.update(dict.fromkeys(step.table_names, reached))
        return given | reached

    def readers(step: Step, changed: Days) -> set[date]:
        return reading_as_published(step, changed, seen.observed.states)

    everything = walk_downstream(seen.steps, by_table(troubles), visit, readers)
    return made if strictly else everything


def _roots(seen: RepairContext, troubles: Sequence[StaleDay]) -> list[StaleDay]:
    """The stale days that the rebuild of another one does not include."""
    reached = _downstream(seen, troubles, strictly=True)
    return [trouble for trouble in troubles if trouble.day not in reached.get(trouble.table, ())]


def _launches(seen: RepairContext, roots: Sequence[StaleDay]) -> tuple[tuple[Repair, ...], tuple[str, ...]]:
    launch: list[Repair] = []
    waiting: list[str] = []
    busy = {table: list(writes) for table, writes in seen.busy.items()}
    for group in _groups(seen, roots):
        for part in _apart(seen, group, busy):
            repair = _repair(seen, part)
            if first := _met(busy, repair):
                waiting.append(f"{repair.title}: waits for {first.name}")
            else:
                launch.append(repair)
                for table, days in repair.days.items():
                    busy.setdefault(table, []).append(WriteUnderWay(f"the repair {repair.id}", frozenset(days)))
    return tuple(launch), tuple(waiting)


def _apart(seen: RepairContext, group: list[StaleDay], busy: Busy) -> list[list[StaleDay]]:
    """``group``; if some of its days must wait, first those that need not and then those that must."""
    if not _met(busy, _repair(seen, group)):
        return [group]
    must_wait = {trouble for trouble in group if _met(busy, _repair(seen, [trouble]))}
    parts = ([each for each in group if each not in must_wait], [each for each in group if each in must_wait])
    return [part for part in parts if part]


def _met(busy: Busy, repair: Repair) -> WriteUnderWay | None:
    """The first write under way that may touch days of ``repair``."""
    writes = (
        each for table in sorted(repair.days) for each in busy.get(table, ()) if each.may_write(repair.days[table])
    )
    return next(writes, None)


def _groups(seen: RepairContext, roots: Sequence[StaleDay]) -> list[list[StaleDay]]:
    """By reason; on a second attempt, the days that failed their gates go by themselves, after the others."""
    groups: dict[tuple[StaleReason, bool], list[StaleDay]] = {}
    for root in roots:
        again = seen.attempts.get(root.evidence, 0) > 0
        groups.setdefault((root.reason, again and (root.table, root.day) in seen.failed_gates), []).append(root)
    order = list(StaleReason)
    return [groups[key] for key in sorted(groups, key=lambda key: (order.index(key[0]), key[1]))]


def _repair(seen: RepairContext, group: Sequence[StaleDay]) -> Repair:
    days = _downstream(seen, group)
    attempts = sorted((trouble.evidence, seen.attempts.get(trouble.evidence, 0)) for trouble in group)
    again = max(attempt for _, attempt in attempts)
    return Repair(
        id=_id(group, attempts),
        title=_title(group, again + 1),
        troubles=tuple(group),
        days={table: tuple(sorted(dates)) for table, dates in days.items()},
        force=group[0].reason is StaleReason.WATCHDOG,
        versions=_older_versions(seen, days),
    )


def _id(group: Sequence[StaleDay], attempts: object) -> str:
    """``late_rows_20170304_<hash>``: the reason and the first day. The UI shows an id up to its first hyphen."""
    named = f"{_SHORT[group[0].reason]}_{min(each.day for each in group):%Y%m%d}_"
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


def _title(group: Sequence[StaleDay], attempt: int) -> str:
    """Every range if there is room for it; else from the first day to the last, of the first table."""
    days = by_table(group)
    listed = "; ".join(f"{table} {first_ranges(dates)}" for table, dates in days.items())
    first, *others = days
    spanned = f"{min(each.day for each in group)}..{max(each.day for each in group)}"
    counted = f"{first}{f' and {len(others)} more' if others else ''}, {len(group)} days of {spanned}"
    reason = group[0].reason.value + (f" (attempt {attempt})" if attempt > 1 else "")
    title = f"Repair: {listed}: {reason}"
    return title if len(title) <= _LONGEST_TITLE else f"Repair: {counted}: {reason}"


# ---------------------------------------------------------------- what is for people


def _left_to_plans(seen: RepairContext, decision: RepairDecision) -> RepairDecision:
    """Days that a plan is rebuilding are left to it: a person who launched them would do its work twice."""
    people: list[ManualAction] = []
    waiting = list(decision.waiting)
    for action in decision.for_people:
        by_plan = _by_plan(seen, action.table, action.days)
        if free := by_plan.pop("", []):
            people.append(replace(action, days=tuple(free)))
        waiting += [
            f"{action.table} {first_ranges(days)}: {action.why}; {plan} is rebuilding these days"
            for plan, days in sorted(by_plan.items())
        ]
    return replace(decision, waiting=tuple(waiting), for_people=tuple(people))


def _by_plan(seen: RepairContext, table: str, days: Iterable[date]) -> dict[str, list[date]]:
    """``days`` by the plan that is rebuilding them; under an empty name those that none is."""
    found: dict[str, list[date]] = {}
    for day in days:
        found.setdefault(seen.rebuilt_by.get(TableDay(table, day), ""), []).append(day)
    return found


def _raw(troubles: Sequence[StaleDay]) -> list[ManualAction]:
    next_step = (
        "landed files count once, so it cannot be built again: put the published files back, see Foreign writes in "
        "docs/operations.md"
    )
    return _manual_actions(troubles, "raw is not what was published", next_step)


def _after_most_attempts(troubles: Sequence[StaleDay]) -> list[ManualAction]:
    next_step = "read the gates of these partitions, fix the cause (data, code or threshold), and launch them by hand"
    return _manual_actions(troubles, f"{MOST_ATTEMPTS} repairs did not put it right", next_step)


def _held_back(seen: RepairContext, gates: Mapping[StaleDay, HeldByGates]) -> Iterator[ManualAction]:
    """At once, in the gate's own words: from the same inputs, the same logic makes the same rows."""
    for table, days in by_table(gates).items():
        first = min(trouble for trouble in gates if trouble.table == table)
        why = f"its gates hold it back, and would again ({first.day}: {gates[first].words})"
        launch = _run_downstream(seen.step_of[table], days)
        yield ManualAction(table, tuple(sorted(days)), why, f"put the source or the logic right, then {launch}")


def _is_after_partitions(seen: RepairContext, trouble: StaleDay) -> bool:
    """Partitions of data that has ended end with it: a day that is newer has none until they are loaded again."""
    earlier = (day for day in seen.published.get(trouble.table, ()) if day < trouble.day)
    return any(seen.has_partition(trouble.table, day) for day in earlier)


def _after_partitions(troubles: Iterable[StaleDay]) -> Iterator[str]:
    for table, days in by_table(troubles).items():
        yield (
            f"{table} {first_ranges(days)}: later than the last partition, which moves when the code location is "
            "loaded again: by the sensor `dagster_shows_what_is`, or by Reload under Deployment"
        )


def _before_partitions(troubles: Iterable[StaleDay]) -> list[ManualAction]:
    next_step = "look at its rows (backfill show); if they are right, give the dataset an earlier first_day"
    return _manual_actions(troubles, "Dagster has no such partition", next_step)


def _rolled_back(troubles: Sequence[StaleDay]) -> list[ManualAction]:
    return _manual_actions(troubles, "a person has rolled it back", "launch it when it is to be built again")


def _of_gone_versions(seen: RepairContext, troubles: Sequence[StaleDay]) -> list[ManualAction]:
    """The logic that built these days is not there any more; the current one would change what they say."""
    by_version: dict[tuple[str, StaleReason, str, str], list[date]] = {}
    for trouble in troubles:
        plan = seen.rebuilt_by.get(TableDay(trouble.table, trouble.day), "")
        key = (trouble.table, trouble.reason, seen.version_name(trouble.table, trouble.day), plan)
        by_version.setdefault(key, []).append(trouble.day)
    return [
        ManualAction(
            table,
            tuple(sorted(days)),
            f"{reason.value}, and it was published with {version}, which is not declared any more",
            _declare_or_build(seen.step_of[table], version, days),
        )
        for (table, reason, version, _), days in by_version.items()
    ]


def _declare_or_build(step: Step, version: str, days: Iterable[date]) -> str:
    return (
        f"declare {version} again, or build it with {step.current} if that is to count: {_run_downstream(step, days)}"
    )


def _run_downstream(step: Step, days: Iterable[date]) -> str:
    """For just the first ranges of ``days``: one range over a gap would build what is between, too."""
    covered = (each for day in days for each in step.cadence.period(day))
    return f"backfill run {step.name} --downstream {days_options(covered, _MOST_RANGES)}"


def _manual_actions(troubles: Iterable[StaleDay], why: str, next_step: str) -> list[ManualAction]:
    return [ManualAction(table, tuple(sorted(days)), why, next_step) for table, days in by_table(troubles).items()]


def _other_code(seen: RepairContext, statuses: Statuses) -> list[ManualAction]:
    """New logic over history is a decision, not a repair."""
    actions = []
    for table, days in statuses.items():
        gone = tuple(day for day, status in days.items() if status is DayStatus.CODE_CHANGED)
        older = _by_plan(seen, table, _of_older_version(seen, table, days))
        launch = "launch these days if they are to have the current version"
        for own in older.values():
            keep = f"repairs keep that version, also where both make the same rows; {launch}"
            command = _run_downstream(seen.step_of[table], own)
            actions.append(ManualAction(table, tuple(own), "built by other code", f"{keep}: {command}"))
        if gone and seen.step_of[table].source:
            actions.append(
                ManualAction(table, gone, "other event days are possible now", "launch these days to move rows")
            )
        elif gone:
            actions.append(ManualAction(table, gone, "built by code that is not declared any more", launch))
    return actions


def _of_older_version(seen: RepairContext, table: str, statuses: Mapping[date, DayStatus]) -> Iterable[date]:
    step = seen.step_of[table]
    for day, status in () if step.source else statuses.items():
        if status in (DayStatus.FRESH, DayStatus.INPUT_CHANGED):
            state = seen.observed.states.get(TableDay(table, day))
            if state is not None and state.content is not None and state.content.code_version != step.current:
                yield day
