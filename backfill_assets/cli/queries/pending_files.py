"""Landed files that a run would not ingest, though they may have rows of the days that it builds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from backfill_assets.cli.wiring import open_storage
from backfill_assets.days import DayRange, contiguous
from backfill_assets.errors import SourceUnreadable
from backfill_assets.text import days_options, format_range

if TYPE_CHECKING:
    from backfill_assets.model.declaration import Source, Step
    from backfill_assets.plan.foreground import StepRun
    from backfill_assets.settings import Settings

LATEST_DAYS = 35
"""The check ignores rows that arrive more days than this after their own day."""
_MOST_RANGES = 3


@dataclass(frozen=True)
class NotTakenIn:
    """Files that the raw table ``table`` has not ingested, by arrival day; ``problem`` says why they are not known."""

    table: str
    in_run: bool
    files: Mapping[date, int]
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.table}: {self.problem}"
        found = contiguous(self.files)
        days = days_options(self.files, _MOST_RANGES)
        ranges = ", ".join(map(format_range, found[:_MOST_RANGES])) + (" and later" if found[_MOST_RANGES:] else "")
        add = f"add {days}" if self.in_run else f"first backfill run {self.table} {days}"
        return (
            f"{self.table}: landed on {ranges} and not ingested: {sum(self.files.values())} file(s). "
            f"If they may have rows of these days, {add}"
        )


def not_taken_in(settings: Settings, plan: Sequence[StepRun], days: Sequence[date]) -> list[NotTakenIn]:
    """For each raw table that ``plan`` builds or reads from; by names alone, no file is opened."""
    from backfill_assets.datasets import registry
    from backfill_assets.model.graph import expand_tables

    chosen = [each.step.tables[0].name for each in plan]
    above = expand_tables(registry.steps(), chosen, upstream=True)
    raw = [step for step in registry.steps() if step.name in above and step.source is not None]
    found = [_waiting(settings, step.name, step.source, step.name in chosen, days) for step in raw if step.source]
    return [each for each in found if each.files or each.problem]


def files_to_ingest(settings: Settings, steps: Iterable[Step], days: Collection[date]) -> dict[str, dict[date, int]]:
    """How many landed files a run of ``days`` ingests, by raw table of ``steps`` and arrival day; by names alone.

    Nothing of a source that cannot be listed: the run itself refuses it, and says why.
    """
    found: dict[str, dict[date, int]] = {}
    for step in steps:
        if step.source is not None:
            try:
                found[step.name] = _pending(settings, step.name, step.source, days)
            except SourceUnreadable:
                continue
    return found


def landed_on(settings: Settings, steps: Iterable[Step]) -> dict[str, set[date]]:
    """The ended days that files have landed on, by raw table of ``steps``; a source that cannot be listed has none."""
    from backfill_assets.landing.zone import LandingZone

    zone, today = LandingZone(settings.landing), datetime.now(UTC).date()
    found: dict[str, set[date]] = {}
    for step in steps:
        if step.source is not None:
            try:
                found[step.name] = {day for day, paths in zone.paths(step.source.name).items() if paths and day < today}
            except SourceUnreadable:
                continue
    return found


def _waiting(settings: Settings, table: str, source: Source, in_run: bool, days: Sequence[date]) -> NotTakenIn:
    try:
        return NotTakenIn(table, in_run, _pending(settings, table, source, _arrivals(days, in_run)))
    except SourceUnreadable as error:
        return NotTakenIn(table, in_run, {}, str(error))


def _pending(settings: Settings, table: str, source: Source, days: Collection[date]) -> dict[date, int]:
    """The number of files that landed on each of ``days`` and are not ingested."""
    from backfill_assets.landing.landed_days import files_taken_in
    from backfill_assets.landing.zone import LandingZone

    landed = LandingZone(settings.landing).paths(source.name)
    taken = files_taken_in(open_storage(settings), source.name, table)
    counts = {day: sum(path not in taken for path in paths) for day, paths in landed.items() if day in days}
    return {day: count for day, count in counts.items() if count}


def _arrivals(days: Sequence[date], in_run: bool) -> set[date]:
    """Ended days on which rows of ``days`` may arrive; the run itself ingests those of its own days."""
    ended = datetime.now(UTC).date() - timedelta(days=1)
    around = DayRange(min(days), max(days)).widened(after=LATEST_DAYS)
    return {day for day in around if day <= ended and not (in_run and day in set(days))}
