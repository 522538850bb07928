"""Divides days of raw among workers: small days share a task, large ones are cut by keys to bound memory. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.lakehouse.delta_log import AddedFile

SHARED_ROWS, MOST_ROWS = 100_000, 2_500_000
"""Days share a task up to the first; a task of more rows than the second is cut."""


@dataclass(frozen=True)
class Cut:
    has_deletions: bool = False
    part: int = 0
    parts: int = 1


@dataclass(frozen=True)
class RefineTask:
    files: Mapping[date, Sequence[AddedFile]]
    cut: Cut = Cut()


def refine_tasks(files: Mapping[date, Sequence[AddedFile]], with_deletions: Collection[date]) -> list[RefineTask]:
    """Largest first; days ``with_deletions`` get tasks of their own."""
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
    groups: list[list[date]] = []
    count = SHARED_ROWS
    for day in days:
        if count >= SHARED_ROWS or count + rows[day] > MOST_ROWS:
            groups.append([])
            count = 0
        groups[-1].append(day)
        count += rows[day]
    return groups
