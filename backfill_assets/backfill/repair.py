"""Which published days have to be built again, why, and what is for a person instead. Pure: no clock, no data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.backfill.downstream import downstream
from backfill_assets.backfill.status import DayStatus, Statuses, day_statuses
from backfill_assets.backfill.trouble import Reason, Seen, Trouble, by_table, digest, troubles
from backfill_assets.days import contiguous

MOST_ATTEMPTS = 3
_ID = "repair-"
_LONGEST_TITLE = 100


@dataclass(frozen=True)
class Repair:
    """One backfill: what is wrong, and with it everything downstream. The same evidence gives the same ``id``."""

    id: str
    title: str
    troubles: tuple[Trouble, ...]
    days: Mapping[str, tuple[date, ...]]
    force: bool
    """The inputs are those that the days were published from: without it, they would be found unchanged."""


@dataclass(frozen=True)
class ForPeople:
    """Days that no backfill puts right by itself, and what a person does about them."""

    table: str
    days: tuple[date, ...]
    why: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.table} {named(self.days)}: {self.why} -> {self.next_step}"


@dataclass(frozen=True)
class Decision:
    """What to launch now, what waits for something that is under way, and what waits for a person."""

    launch: tuple[Repair, ...] = ()
    waiting: tuple[str, ...] = ()
    for_people: tuple[ForPeople, ...] = ()


def repairs_needed(seen: Seen) -> Decision:
    """One backfill for all days with the same reason; what touches tables that are busy waits for the next look.

    Days that somebody wrote past the protocol into raw, that failed :data:`MOST_ATTEMPTS` times, that a person has
    rolled back, or that other code built, are for people. What is made of a day that waits for a person waits with it.
    """
    statuses = day_statuses(seen.steps, seen.observed)
    raw, found = troubles(seen, statuses)
    if not raw and not found:
        return Decision(for_people=tuple(_other_code(statuses)))
    nowhere = [trouble for trouble in found if not seen.has_partition(trouble.table, trouble.day)]
    back = [trouble for trouble in found if (trouble.table, trouble.day) in seen.rolled_back]
    there = [trouble for trouble in found if trouble not in nowhere and trouble not in back]
    held = downstream(seen.steps, seen.observed, by_table(raw), seen.may_build)
    free = [trouble for trouble in there if trouble.day not in held.get(trouble.table, ())]
    tried = [trouble for trouble in free if seen.attempts.get(trouble.evidence, 0) >= MOST_ATTEMPTS]
    launch, waiting = _launches(seen, _roots(seen, [trouble for trouble in free if trouble not in tried]))
    if len(free) < len(there):
        waiting += (f"{len(there) - len(free)} day(s) made of raw days that wait for a person",)
    people = (*_raw(raw), *_exhausted(tried), *_nowhere(nowhere), *_rolled_back(back), *_other_code(statuses))
    return Decision(launch, waiting, people)


def named(days: Iterable[date]) -> str:
    """Days as ranges, the first few of them: ``2017-03-04..2017-03-05, 2017-03-09..2017-03-09``."""
    ranges = contiguous(days)
    texts = [str(part.first) if len(part) == 1 else str(part) for part in ranges[:4]]
    return ", ".join(texts) + (f" and {len(ranges) - 4} more" if len(ranges) > 4 else "")


# ---------------------------------------------------------------- what is launched


def _roots(seen: Seen, troubles: Sequence[Trouble]) -> list[Trouble]:
    """Those that no other one's rebuild comes by anyway."""
    reached = downstream(seen.steps, seen.observed, by_table(troubles), seen.may_build, strictly=True)
    return [trouble for trouble in troubles if trouble.day not in reached.get(trouble.table, ())]


def _launches(seen: Seen, roots: Sequence[Trouble]) -> tuple[tuple[Repair, ...], tuple[str, ...]]:
    launch: list[Repair] = []
    waiting: list[str] = []
    busy = dict(seen.busy)
    for group in _groups(seen, roots):
        repair = _repair(seen, group)
        touched = sorted(busy.keys() & repair.days.keys())
        if touched:
            waiting.append(f"{repair.title}: waits for {busy[touched[0]]}")
        else:
            launch.append(repair)
            busy.update(dict.fromkeys(repair.days, f"the repair {repair.id}"))
    return tuple(launch), tuple(waiting)


def _groups(seen: Seen, roots: Sequence[Trouble]) -> list[list[Trouble]]:
    """By reason; on a second attempt, the days that failed their gates go by themselves, after the others."""
    groups: dict[tuple[Reason, bool], list[Trouble]] = {}
    for root in roots:
        again = seen.attempts.get(root.evidence, 0) > 0
        groups.setdefault((root.reason, again and (root.table, root.day) in seen.failed_gates), []).append(root)
    order = list(Reason)
    return [groups[key] for key in sorted(groups, key=lambda key: (order.index(key[0]), key[1]))]


def _repair(seen: Seen, group: Sequence[Trouble]) -> Repair:
    days = downstream(seen.steps, seen.observed, by_table(group), seen.may_build)
    attempts = sorted((trouble.evidence, seen.attempts.get(trouble.evidence, 0)) for trouble in group)
    again = max(attempt for _, attempt in attempts)
    return Repair(
        id=_ID + digest(attempts, 20),
        title=_title(group, again + 1),
        troubles=tuple(group),
        days={table: tuple(sorted(found)) for table, found in days.items()},
        force=group[0].reason is Reason.WATCHDOG,
    )


def _title(group: Sequence[Trouble], attempt: int) -> str:
    """Every range if there is room for it; else from the first day to the last, of the first table."""
    days = by_table(group)
    listed = "; ".join(f"{table} {named(found)}" for table, found in days.items())
    first, *others = days
    spanned = f"{min(each.day for each in group)}..{max(each.day for each in group)}"
    counted = f"{first}{f' and {len(others)} more' if others else ''}, {len(group)} days of {spanned}"
    reason = group[0].reason.value + (f" (attempt {attempt})" if attempt > 1 else "")
    title = f"Repair: {listed}: {reason}"
    return title if len(title) <= _LONGEST_TITLE else f"Repair: {counted}: {reason}"


# ---------------------------------------------------------------- what is for people


def _raw(troubles: Sequence[Trouble]) -> list[ForPeople]:
    next_step = (
        "landed files count once, so it cannot be built again: put the published files back, see `foreign write` in "
        "docs/runbook.md"
    )
    return _told(troubles, "raw is not what was published", next_step)


def _exhausted(troubles: Sequence[Trouble]) -> list[ForPeople]:
    next_step = "read the gates of these partitions, mend the cause (data, code or threshold), and launch them by hand"
    return _told(troubles, f"{MOST_ATTEMPTS} repairs did not put it right", next_step)


def _nowhere(troubles: Sequence[Trouble]) -> list[ForPeople]:
    next_step = "look at its rows (backfill show); if they are right, give the dataset an earlier first_day"
    return _told(troubles, "Dagster has no such partition", next_step)


def _rolled_back(troubles: Sequence[Trouble]) -> list[ForPeople]:
    return _told(troubles, "a person has rolled it back", "launch it when it is to be built again")


def _told(troubles: Sequence[Trouble], why: str, next_step: str) -> list[ForPeople]:
    return [ForPeople(table, tuple(sorted(days)), why, next_step) for table, days in by_table(troubles).items()]


def _other_code(statuses: Statuses) -> list[ForPeople]:
    """New logic over history is a decision, not a repair."""
    found = {
        table: tuple(day for day, status in days.items() if status is DayStatus.CODE_CHANGED)
        for table, days in statuses.items()
    }
    return [
        ForPeople(table, days, "built by other code", "launch these days if they are to have the current version")
        for table, days in found.items()
        if days
    ]
