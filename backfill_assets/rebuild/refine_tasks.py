"""Which days of raw one worker refines at once. Pure.

Small days share a task, for each has a cost of its own; a large day is cut by its keys, so that a task needs bounded
memory however many rows a day has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.lakehouse.delta_log import AddedFile

SHARED_ROWS, MOST_ROWS = 100_000, 2_500_000
"""Days of fewer rows share a task up to as many; a task with more is cut."""


@dataclass(frozen=True)
class Cut:
    """How a task looks at its days: past deletions, if they have some, and at ``part`` of ``parts`` of the keys."""

    has_deletions: bool = False
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class RefineTask:
    """The files of days of raw, and how they are looked at."""

    files: Mapping[date, Sequence[AddedFile]]
    cut: Cut = Cut()


def refine_tasks(files: Mapping[date, Sequence[AddedFile]], with_deletions: Collection[date]) -> list[RefineTask]:
    """Tasks for all days of ``files``, the largest first; days ``with_deletions`` are among themselves."""
    rows = {day: sum(file.rows for file in some) for day, some in files.items()}
    tasks: list[tuple[int, RefineTask]] = []
    for has_deletions in (False, True):
        days = sorted(day for day in files if (day in with_deletions) == has_deletions)
        for group in _groups(days, rows):
            count = sum(rows[day] for day in group)
            parts = -(-count // MOST_ROWS) if count > MOST_ROWS else 1
            own = {day: tuple(files[day]) for day in group}
            tasks += ((count, RefineTask(own, Cut(has_deletions, part, parts))) for part in range(parts))
    return [task for _, task in sorted(tasks, key=lambda each: -each[0])]


def _groups(days: Iterable[date], rows: Mapping[date, int]) -> list[list[date]]:
    """``days`` in their order, each group with at least :data:`SHARED_ROWS` rows, but for the last."""
    groups: list[list[date]] = []
    count = SHARED_ROWS
    for day in days:
        if count >= SHARED_ROWS or count + rows[day] > MOST_ROWS:
            groups.append([])
            count = 0
        groups[-1].append(day)
        count += rows[day]
    return groups
