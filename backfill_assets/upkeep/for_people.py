"""What no repair puts right: in words, with what a person does about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.days import DayRange, TableDay, by_table
from backfill_assets.model.declaration import ADOPTED, Step
from backfill_assets.publish.unreadable import GivenBack
from backfill_assets.state.diagnosis import INPUT_CHANGED, OTHER_CODE, Cause, Diagnosis, diagnose
from backfill_assets.state.status import Statuses
from backfill_assets.text import days_options, format_range, format_ranges
from backfill_assets.upkeep.failed_checks import HeldByStream
from backfill_assets.upkeep.findings import SUSPECTED, WrongDay, saying
from backfill_assets.upkeep.trouble import RepairContext, StaleDay

_MOST_RANGES = 4


@dataclass(frozen=True)
class ManualAction:
    table: str
    days: tuple[date, ...]
    why: str
    next_step: str
    diagnosis: Diagnosis | None = None
    too_large: bool = False
    plan: DayRange | None = None

    def __str__(self) -> str:
        return f"{self.table} {first_ranges(self.days)}: {self.why} -> {self.next_step}"


def first_ranges(days: Iterable[date]) -> str:
    return format_ranges(days, _MOST_RANGES)


def left_to_plans(seen: RepairContext, actions: Iterable[ManualAction]) -> tuple[list[ManualAction], list[str]]:
    """``actions`` without days that a plan is rebuilding, and these in words."""
    people: list[ManualAction] = []
    waiting: list[str] = []
    for action in actions:
        by_plan = _by_plan(seen, action.table, action.days)
        if free := by_plan.pop("", []):
            people.append(replace(action, days=tuple(free)))
        waiting += [
            f"{action.table} {first_ranges(days)}: {action.why}; {plan} is rebuilding these days"
            for plan, days in sorted(by_plan.items())
        ]
    return people, waiting


def _by_plan(seen: RepairContext, table: str, days: Iterable[date]) -> dict[str, list[date]]:
    found: dict[str, list[date]] = {}
    for day in days:
        found.setdefault(seen.rebuilt_by.get(TableDay(table, day), ""), []).append(day)
    return found


_RESTORE = (
    'put the published files back, see backfill docs operations "Foreign writes"; landed files count once, so it '
    "cannot be built again"
)
_NEXT_STEPS: Mapping[Cause, str] = {
    Cause.LOST_RAW: "backfill raw restore --dry-run says what its landed files lack; put these back, or the lost files",
    Cause.FOREIGN_RAW: _RESTORE,
    Cause.ROLLED_BACK: "it is built again when one of its inputs changes; to build it now, launch its days",
    Cause.CLOSED: "backfill reopen opens it again; what waits is then built",
    Cause.UNDONE_WITH_RAW: "it was undone with its rows of raw; to build it from what raw has now, launch its days",
    Cause.DISAGREES: "find out which table is wrong (backfill trace), and put its logic or its source right",
    Cause.TOO_LATE: "look at the rows (backfill trace); to take them in, launch the days",
    Cause.INCOMPLETE: "wait for the delivery, or ask the source for it; a repeated delivery is taken in by itself",
    Cause.OVERDUE: "ask the source for it, or land an empty file if the day really has no rows",
    Cause.DRIFT: "declare the field, or tell the source (backfill status names fields and since when)",
    Cause.UNUSUAL: "look at the day (backfill show); if it is right, backfill incident close",
}


def of_unreadable(seen: RepairContext) -> Iterator[ManualAction]:
    for table, each in sorted(seen.observed.unreadable.items()):
        if each.kind is GivenBack:
            continue
        days = tuple(sorted(key.day for key, state in seen.observed.states.items() if key.table == table))
        yield ManualAction(
            table, days or (seen.today,), each.why, each.next_step, diagnose({Cause.UNREADABLE: each.why})
        )


def by_diagnosis(wrong: Iterable[StaleDay]) -> Iterator[tuple[Diagnosis, list[StaleDay]]]:
    groups: dict[tuple[str, Cause, str], list[StaleDay]] = {}
    for each in sorted(wrong, key=lambda each: each.day):
        groups.setdefault((each.table, each.cause, saying(each.diagnosis.words)), []).append(each)
    order = list(Cause)
    for days in sorted(groups.values(), key=lambda each: order.index(each[0].cause)):
        yield days[0].diagnosis, days


def by_diagnoses(seen: RepairContext, wrong: Iterable[StaleDay]) -> Iterator[ManualAction]:
    for found, troubles in by_diagnosis(wrong):
        table, days = troubles[0].table, tuple(sorted(each.day for each in troubles))
        if found.no_version:
            yield from _of_gone_versions(seen, troubles, found)
            continue
        why, next_step = found.words, _NEXT_STEPS.get(found.cause, "")
        if found.cause is Cause.HELD_BACK:
            why, next_step = _held_back(seen, table, days, found.words)
        if edited := seen.edited_version(table, days[0]) if Cause.EDITED_LOGIC in (found.cause, found.beside) else None:
            next_step = edited.next_step
        yield ManualAction(table, days, why, next_step or run_downstream(seen.step_of[table], days), found)


def _held_back(seen: RepairContext, table: str, days: Sequence[date], words: str) -> tuple[str, str]:
    """An equal build fails equal gates. Of a stream, the words stay as first told: events grow by the second."""
    again = f"put the source or the logic right, then {run_downstream(seen.step_of[table], days)}"
    keys = [TableDay(table, day) for day in days]
    held = [hold for key in keys if (hold := seen.held_by_stream(key))]
    if not held:
        return f"its gates hold it back, and would again ({days[0]}: {words})", again
    known = (each for key in keys for each in seen.incidents.get(key, ()) if each.cause is Cause.HELD_BACK)
    told = next((each.words for each in known if saying(each.words) == saying(words)), words)
    return told, "; ".join(filter(None, map(_release, held))) or again


def _release(held: HeldByStream) -> str:
    look = f"look at the rows ({held.shown_by}); " if held.shown_by else ""
    return f"{look}to publish the day without them: {held.release}" if held.release else ""


def after_most_attempts(seen: RepairContext, wrong: Iterable[StaleDay]) -> Iterator[ManualAction]:
    next_step = "read the gates of these partitions, fix the cause (data, code or threshold), and launch them by hand"
    why = f"{seen.bounds.attempts} repairs did not put it right"
    for found, days in by_diagnosis(wrong):
        yield ManualAction(days[0].table, tuple(sorted(each.day for each in days)), why, next_step, found)


def of_suspicions(seen: RepairContext, found: Iterable[WrongDay]) -> Iterator[ManualAction]:
    stale, wrong = set[TableDay](), set[TableDay]()
    groups: dict[tuple[str, Cause, str], list[WrongDay]] = {}
    for each in found:
        step = seen.step_of[each.table]
        above = set(seen.inputs.days_read(step, step.version() if step.versions else None, each.day))
        if each.cause not in SUSPECTED:
            stale.add(each.key)
        elif wrong.isdisjoint(above) and each.key not in stale and not each.silent:
            groups.setdefault(each.fault, []).append(each)
        wrong.add(each.key)
    for (table, cause, _), days in groups.items():
        first = days[0].diagnosis
        yield ManualAction(table, tuple(sorted({each.day for each in days})), first.words, _NEXT_STEPS[cause], first)


def is_after_partitions(seen: RepairContext, trouble: StaleDay) -> bool:
    """Partitions of data that has ended are fixed at load: a newer day has none yet."""
    earlier = (day for day in seen.published.get(trouble.table, ()) if day < trouble.day)
    return any(seen.is_built(trouble.table, day) for day in earlier)


def after_partitions(troubles: Iterable[StaleDay]) -> Iterator[str]:
    for table, days in by_table(each.key for each in troubles).items():
        yield (
            f"{table} {first_ranges(days)}: later than the last partition, which moves when the code location is "
            "loaded again: by the sensor dagster_shows_what_is, or by Reload under Deployment"
        )


def before_partitions(seen: RepairContext, troubles: Iterable[StaleDay]) -> Iterator[ManualAction]:
    why = "earlier than the first partition and than what it looks back to, so no backfill builds it"
    for table, days in by_table(each.key for each in troubles).items():
        next_step = "look at its rows (backfill show); if they are right: " + run_downstream(seen.step_of[table], days)
        yield ManualAction(table, tuple(sorted(days)), why, next_step)


def _of_gone_versions(seen: RepairContext, troubles: Sequence[StaleDay], diagnosis: Diagnosis) -> list[ManualAction]:
    by_version: dict[tuple[str, Cause, str, str], list[date]] = {}
    for trouble in troubles:
        plan = seen.rebuilt_by.get(trouble.key, "")
        key = (trouble.table, trouble.shows, seen.version_name(trouble.table, trouble.day), plan)
        by_version.setdefault(key, []).append(trouble.day)
    return [
        _to_plan(
            seen,
            ManualAction(
                table,
                tuple(sorted(days)),
                f"{cause}, and it was {_gone(version)}",
                f"see what {seen.step_of[table].current} makes of it:",
                diagnosis,
            ),
        )
        for (table, cause, version, _), days in by_version.items()
    ]


def _gone(version: str) -> str:
    if version == ADOPTED:
        return "adopted with its table: nothing here makes it again as it was"
    return f"published with {version}, which is not declared any more; declare it again to keep it"


def _to_plan(seen: RepairContext, action: ManualAction) -> ManualAction:
    """Adds a plan from the first day, if it would rebuild no other day; plans leave days of the current version."""
    step = seen.step_of[action.table]
    first, *others = action.days
    last = first
    for day in others:
        between = set(step.cadence.starts(DayRange(last, day))) - {last, day}
        if any(_made_by(seen, action.table, each) != step.current for each in between):
            break
        last = day
    whole = DayRange(first, step.cadence.period(last).last)
    return replace(
        action, next_step=f"{action.next_step} backfill plan {step.name} --days {format_range(whole)}", plan=whole
    )


def run_downstream(step: Step, days: Iterable[date]) -> str:
    """A command by separate ranges: one over a gap would build the gap too."""
    covered = (each for day in days for each in step.cadence.period(day))
    return f"backfill run {step.name}+ {days_options(covered, _MOST_RANGES)}"


def of_edited_logic(seen: RepairContext, wrong: Iterable[StaleDay]) -> Iterator[ManualAction]:
    stale = {each.key for each in wrong}
    for each in seen.edited:
        if days := tuple(day for day in each.days if all(TableDay(name, day) not in stale for name in each.tables)):
            yield ManualAction(each.step, days, each.why, each.next_step)


def other_code(seen: RepairContext, statuses: Statuses) -> list[ManualAction]:
    """New logic over history is a decision, not a repair."""
    actions = []
    for table, days in statuses.items():
        step = seen.step_of[table]
        gone = tuple(day for day, status in days.items() if status in OTHER_CODE)
        compare = f"compare {step.current} with it:"
        older = _by_plan(seen, table, _of_older_version(seen, table, days))
        for own in older.values():
            made_by = ", ".join(sorted({_made_by(seen, table, day) for day in own}))
            why = f"made by {made_by}, which repairs keep, and {step.current} is current"
            actions.append(_to_plan(seen, ManualAction(table, tuple(own), why, compare)))
        if gone and step.source:
            move = f"move rows: {run_downstream(step, gone)}"
            actions.append(ManualAction(table, gone, "other event days are possible now", move))
        elif gone:
            why = "made by a version that is not declared any more"
            actions.append(_to_plan(seen, ManualAction(table, gone, why, compare)))
    return actions


def _of_older_version(seen: RepairContext, table: str, statuses: Mapping[date, Cause | None]) -> Iterable[date]:
    step = seen.step_of[table]
    for day, status in () if step.source else statuses.items():
        if status is None or status in INPUT_CHANGED:
            version = _made_by(seen, table, day)
            if version and version != step.current:
                yield day


def _made_by(seen: RepairContext, table: str, day: date) -> str:
    content = seen.observed.content(TableDay(table, day))
    return content.code_version if content and not content.is_adopted else ""
