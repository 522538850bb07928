"""Which published days must be built again and why, and which a person must decide about. Pure: no clock, no data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal

from backfill_assets.days import TableDay
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, Presence, walk_downstream
from backfill_assets.plan.status import DayStatus, Statuses, day_statuses
from backfill_assets.state.readers import reading_as_published
from backfill_assets.text import days_options, format_count, format_ranges
from backfill_assets.upkeep.bounds import why_beyond
from backfill_assets.upkeep.diagnosis import Action, Cause, Diagnosis, Symptoms, diagnose
from backfill_assets.upkeep.trouble import (
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
    core_seconds: Decimal = Decimal(0)
    """What it takes at most, as far as days were timed."""
    restores: bool = False
    """It is no backfill: rows that raw has lost are read from their landed files once more."""

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
    diagnosis: Diagnosis | None = None
    """None where nothing is wrong with the days, and a person chooses."""
    too_large: bool = False
    """It is beyond the bounds of repairs: a plan of it can wait for an approval."""

    def __str__(self) -> str:
        return f"{self.table} {first_ranges(self.days)}: {self.why} -> {self.next_step}"


@dataclass(frozen=True)
class RepairDecision:
    """What to launch now, what waits for something that is under way, and what waits for a person."""

    launch: tuple[Repair, ...] = ()
    waiting: tuple[str, ...] = ()
    for_people: tuple[ManualAction, ...] = ()
    later: tuple[StaleDay, ...] = ()
    """Days that are repaired by themselves, after a pause or when nothing comes in any more."""
    diagnoses: Mapping[StaleDay, Diagnosis] = field(default_factory=dict)
    """Of all that is wrong, by day."""


def repairs_needed(seen: RepairContext) -> RepairDecision:
    """One backfill for all days with the same reason. Days that a running backfill may write wait for the next look.

    The diagnosis says what is repaired and what a person must decide; so does a person about days that failed as often
    as the bounds allow, and about a repair beyond them. Days that are made of a raw day that waits for a person wait
    with it. Days that a running stream follows are left to it, and days of an open plan to that. A repair builds each
    day with the version that it was published with.
    """
    statuses = day_statuses(seen.steps, seen.observed, as_published=True)
    raw, found = find_stale_days(seen, statuses)
    left = set(left_to_streams(seen, found))
    stale = [trouble for trouble in found if trouble not in left]
    other_code = tuple(_other_code(seen, statuses))
    if not raw and not stale:
        return _left_to_plans(seen, _with_suspicions(seen, RepairDecision((), tuple(in_words(left)), other_code)))
    nowhere = [trouble for trouble in stale if not seen.has_partition(trouble.table, trouble.day)]
    diagnoses = {trouble: seen.diagnose(trouble) for trouble in (*raw, *stale) if trouble not in nowhere}
    restored = [each for each in raw if diagnoses[each].action is Action.RESTORE and _may_try(seen, each)]
    held = _downstream(seen, raw)
    with_raw = [each for each in diagnoses if each not in raw and each.day in held.get(each.table, ())]
    rebuilt = [
        each for each, found in diagnoses.items() if found.action is Action.REBUILD and each not in {*raw, *with_raw}
    ]
    by_plan = {each for each in rebuilt if TableDay(each.table, each.day) in seen.rebuilt_by}
    tried = [each for each in rebuilt if each not in by_plan and not _may_try(seen, each)]
    roots = _roots(seen, [each for each in rebuilt if each not in by_plan and each not in tried])
    later = _later(seen, roots)
    launch, waiting, beyond = _launches(seen, [each for each in roots if each not in later])
    after = [each for each in nowhere if _is_after_partitions(seen, each)]
    waiting += (
        *_in_words(later),
        *_of_plans(seen, by_plan),
        *([f"{format_count(len(with_raw), 'day')} made of raw days that wait for a person"] if with_raw else ()),
        *in_words(left),
        *_after_partitions(after),
    )
    people = (
        *_for_people(
            seen,
            {
                each: found
                for each, found in diagnoses.items()
                if found.action is not Action.REBUILD and each not in {*with_raw, *restored}
            },
        ),
        *_after_most_attempts(seen, tried, diagnoses),
        *beyond,
        *_before_partitions(trouble for trouble in nowhere if trouble not in after),
        *other_code,
    )
    restores = _restores(seen, [each for each in restored if not seen.pause(each)])
    decision = RepairDecision((*launch, *restores), waiting, people, (*later, *restored), diagnoses)
    return _left_to_plans(seen, _with_suspicions(seen, decision))


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


def _launches(
    seen: RepairContext, roots: Sequence[StaleDay]
) -> tuple[tuple[Repair, ...], tuple[str, ...], tuple[ManualAction, ...]]:
    """What is launched, what waits for something under way, and what is beyond the bounds."""
    launch: list[Repair] = []
    waiting: list[str] = []
    beyond: list[ManualAction] = []
    busy = {table: list(writes) for table, writes in seen.busy.items()}
    spent = seen.spent_lately
    for group in _groups(seen, roots):
        for part in _apart(seen, group, busy):
            repair = _repair(seen, part)
            if first := _met(busy, repair):
                waiting.append(f"{repair.title}: waits for {first.name}")
                continue
            days = sum(map(len, repair.days.values()))
            if why := why_beyond(seen.bounds, days, repair.core_seconds, spent, seen.core_hour_price):
                beyond += _beyond(seen, part, why)
                continue
            spent += repair.core_seconds
            launch.append(repair)
            for table, dates in repair.days.items():
                busy.setdefault(table, []).append(WriteUnderWay(f"the repair {repair.id}", frozenset(dates)))
    return tuple(launch), tuple(waiting), tuple(beyond)


def _may_try(seen: RepairContext, stale: StaleDay) -> bool:
    return seen.tries(stale) < seen.bounds.attempts


def _restores(seen: RepairContext, troubles: Sequence[StaleDay]) -> Iterator[Repair]:
    """One for each table, for days that nothing else reads again meanwhile."""
    for table, days in by_table(troubles).items():
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
    diagnoses = {trouble: seen.diagnose(trouble) for trouble in group}
    for found, days in _by_diagnosis(diagnoses):
        table = days[0].table
        own = tuple(sorted(each.day for each in days))
        words = f"{found.cause}, and its repair is beyond the bounds of repairs: {why}"
        yield ManualAction(table, own, words, _run_downstream(seen.step_of[table], own), found, too_large=True)


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
        again = seen.tries(root) > 0
        groups.setdefault((root.reason, again and (root.table, root.day) in seen.failed_gates), []).append(root)
    order = list(StaleReason)
    return [groups[key] for key in sorted(groups, key=lambda key: (order.index(key[0]), key[1]))]


def _repair(seen: RepairContext, group: Sequence[StaleDay]) -> Repair:
    days = _downstream(seen, group)
    attempts = sorted((trouble.evidence, seen.tries(trouble)) for trouble in group)
    again = max(attempt for _, attempt in attempts)
    return Repair(
        id=_id(group, attempts),
        title=_title(group, again + 1),
        troubles=tuple(group),
        days={table: tuple(sorted(dates)) for table, dates in days.items()},
        force=group[0].reason is StaleReason.WATCHDOG,
        versions=_older_versions(seen, days),
        core_seconds=_core_seconds(seen, days),
    )


def _core_seconds(seen: RepairContext, days: Days) -> Decimal:
    """At most, as the days were staged before: on all cores. A day that was never timed counts for nothing."""
    steps = {seen.step_of[table].name for table in days}
    states = (seen.observed.states.get(TableDay(name, day)) for name in steps for day in days.get(name, ()))
    timed = (state.content.staged_ms for state in states if state and state.content and state.content.staged_ms)
    return Decimal(sum(timed)) / 1000 * seen.cores


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


_RESTORE = (
    "landed files count once, so it cannot be built again: put the published files back, see Foreign writes in "
    "docs/operations.md"
)
_NEXT_STEPS: Mapping[Cause, str] = {
    Cause.LOST_RAW: "backfill raw restore --dry-run says what its landed files lack; put these back, or the lost files",
    Cause.FOREIGN_RAW: _RESTORE,
    Cause.ROLLED_BACK: "launch it when it is to be built again",
    Cause.DISAGREES: "find out which table is wrong (backfill trace), and put its logic or its source right",
    Cause.TOO_LATE: "look at the rows (backfill trace); to take them in, launch the days",
    Cause.INCOMPLETE: "wait for the delivery, or ask the source for it; a repeated delivery is taken in by itself",
    Cause.DRIFT: "declare the field, or tell the source (backfill status names fields and since when)",
    Cause.UNUSUAL: "look at the day (backfill show); if it is right, backfill incident close",
}
_WORDS: Mapping[Cause, str] = {
    Cause.FOREIGN_RAW: "raw is not what was published",
    Cause.LOST_RAW: "raw lost files",
    Cause.ROLLED_BACK: "a person has rolled it back",
}


def _by_diagnosis(diagnoses: Mapping[StaleDay, Diagnosis]) -> Iterator[tuple[Diagnosis, list[StaleDay]]]:
    """Days of one table with one cause, with the diagnosis of the first."""
    groups: dict[tuple[str, Cause], list[StaleDay]] = {}
    for trouble, found in sorted(diagnoses.items(), key=lambda each: each[0].day):
        groups.setdefault((trouble.table, found.cause), []).append(trouble)
    order = list(Cause)
    for days in sorted(groups.values(), key=lambda each: order.index(diagnoses[each[0]].cause)):
        yield diagnoses[days[0]], days


def _for_people(seen: RepairContext, diagnoses: Mapping[StaleDay, Diagnosis]) -> Iterator[ManualAction]:
    """In the words of what was seen, with what to do next."""
    for found, troubles in _by_diagnosis(diagnoses):
        table, days = troubles[0].table, tuple(sorted(each.day for each in troubles))
        if found.cause is Cause.GONE_VERSION:
            yield from _of_gone_versions(seen, troubles, found)
            continue
        why = _WORDS.get(found.cause, found.words)
        next_step = _NEXT_STEPS.get(found.cause, "")
        if found.cause is Cause.HELD_BACK:
            # At once, in the gate's own words: from the same inputs, the same logic makes the same rows.
            why = f"its gates hold it back, and would again ({days[0]}: {found.words})"
            next_step = f"put the source or the logic right, then {_run_downstream(seen.step_of[table], days)}"
        yield ManualAction(table, days, why, next_step or _run_downstream(seen.step_of[table], days), found)


def _after_most_attempts(
    seen: RepairContext, troubles: Collection[StaleDay], diagnoses: Mapping[StaleDay, Diagnosis]
) -> Iterator[ManualAction]:
    next_step = "read the gates of these partitions, fix the cause (data, code or threshold), and launch them by hand"
    why = f"{seen.bounds.attempts} repairs did not put it right"
    for found, days in _by_diagnosis({each: diagnoses[each] for each in troubles}):
        yield ManualAction(days[0].table, tuple(sorted(each.day for each in days)), why, next_step, found)


def _later(seen: RepairContext, roots: Iterable[StaleDay]) -> dict[StaleDay, str]:
    """Why some are repaired, but not now. While rows come in to one day of a table, its others wait with it."""
    coming = {(each.table, each.reason) for each in roots if seen.comes_in(each)}
    later: dict[StaleDay, str] = {}
    for each in roots:
        if until := seen.pause(each):
            later[each] = f"attempt {seen.tries(each) + 1} not before {until:%H:%M:%S} UTC"
        elif (each.table, each.reason) in coming:
            later[each] = f"until nothing came for {seen.bounds.settle:.0f} s"
    return later


def _in_words(later: Mapping[StaleDay, str]) -> Iterator[str]:
    """What is repaired by itself and not now, by the reason why."""
    groups: dict[tuple[str, StaleReason, str], list[date]] = {}
    for each, why in later.items():
        groups.setdefault((each.table, each.reason, why), []).append(each.day)
    for (table, reason, why), days in groups.items():
        yield f"{table} {first_ranges(days)}: {reason}: {why}"


def _of_plans(seen: RepairContext, troubles: Iterable[StaleDay]) -> Iterator[str]:
    groups: dict[tuple[str, StaleReason, str], list[date]] = {}
    for each in sorted(troubles):
        plan = seen.rebuilt_by[TableDay(each.table, each.day)]
        groups.setdefault((each.table, each.reason, plan), []).append(each.day)
    for (table, reason, plan), days in groups.items():
        yield f"{table} {first_ranges(days)}: {reason}; {plan} is rebuilding these days"


_CAUSES: Mapping[str, Callable[[str], Symptoms]] = {
    "delivered": lambda words: Symptoms(incomplete=words),
    "as_sent": lambda words: Symptoms(incomplete=words),
    "as_declared": lambda words: Symptoms(drifted=words),
    "as_usual": lambda words: Symptoms(unusual=words),
}


def cause_of(check: str) -> Cause:
    """What a failing check that needs no rows points to."""
    return diagnose(_CAUSES[check](check)).cause


def _with_suspicions(seen: RepairContext, decision: RepairDecision) -> RepairDecision:
    """With what the checks say that need no rows: of a day only about the earliest table that is wrong."""
    wrong = {(each.table, each.day) for each in decision.diagnoses}
    found: dict[tuple[str, Diagnosis], list[date]] = {}
    for step in seen.steps:
        for key, check, words in _suspicions_of(seen, step):
            above = {(read.table, day) for read in step.reads for day in read.days(step.cadence.period(key.day))}
            if wrong.isdisjoint(above):
                diagnosis = diagnose(_CAUSES[check](words))
                group = next(
                    (each for each in found if each[0] == key.table and each[1].cause is diagnosis.cause), None
                )
                found.setdefault(group or (key.table, diagnosis), []).append(key.day)
            wrong.add((key.table, key.day))
    people = tuple(
        ManualAction(table, tuple(sorted(set(days))), each.words, _NEXT_STEPS[each.cause], each)
        for (table, each), days in found.items()
    )
    return replace(decision, for_people=(*decision.for_people, *people))


def _suspicions_of(seen: RepairContext, step: Step) -> Iterator[tuple[TableDay, str, str]]:
    for key, said in sorted(seen.suspicions.items()):
        if key.table in step.table_names:
            yield from ((key, check, words) for check, words in said.items())


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


def _of_gone_versions(seen: RepairContext, troubles: Sequence[StaleDay], diagnosis: Diagnosis) -> list[ManualAction]:
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
            diagnosis,
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
