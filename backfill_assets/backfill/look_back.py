"""Which earlier days a run looks back to, and which later days look back to what it builds. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta

from backfill_assets.backfill.downstream import Days, obtainable, reading_as_published
from backfill_assets.backfill.status import DayStatus, day_statuses
from backfill_assets.datasets.dataset import Step
from backfill_assets.days import DayRange
from backfill_assets.lakehouse.observed import Observed


def later_readers(steps: Sequence[Step]) -> dict[str, dict[str, int]]:
    """By table, the steps that look back to it or to what is computed from it, and for how many days at most.

    ``steps`` are in build order. A step that looks back twice on its way has the sum of both.
    """
    found: dict[str, dict[str, int]] = {}
    for step in reversed(steps):
        beyond = {name: days for table in step.tables for name, days in found.get(table.name, {}).items()}
        for read in () if step.source else step.version().reads:
            readers = found.setdefault(read.table, {})
            reached = {name: days - read.first for name, days in beyond.items()}
            for name, days in (reached | ({step.name: -read.first} if read.first < 0 else {})).items():
                readers[name] = max(days, readers.get(name, 0))
    return {table: dict(sorted(readers.items())) for table, readers in found.items() if readers}


def looks_back_to(step: Step, tables: Collection[str]) -> bool:
    """Does a version of ``step`` read earlier days of one of ``tables``?"""
    return any(read.first < 0 and read.table in tables for version in step.versions for read in version.reads)


def earlier_days(
    steps: Sequence[Step],
    tables: Collection[str],
    days: Collection[date],
    published: Collection[tuple[str, str]],
    landed: Days,
) -> dict[str, set[date]]:
    """The days before ``days`` that ``tables`` look back to, of those tables themselves, by step.

    Only those that there can be: raw days with files (``landed``, by raw table), and days whose inputs are published or
    come along; back to the first gap, since a gap in a look back holds back what looks over it. ``steps`` are in build
    order. Without them the first days of a range have no rates to be converted by.
    """
    building = [step for step in steps if any(table.name in tables for table in step.tables)]
    asked = {step.name: set(step.cadence.starts(days)) for step in building}
    there = {
        *published,
        *((table.name, str(day)) for step in building for table in step.tables for day in asked[step.name]),
    }
    found: dict[str, set[date]] = {}
    for step, wanted in _looked_back_to(building, asked):
        possible = wanted & set(landed.get(step.name, ())) if step.source else obtainable(step, wanted, there)
        possible = _unbroken(step, asked[step.name], possible, there)
        there |= {(table.name, str(day)) for table in step.tables for day in possible}
        if possible:
            found[step.name] = possible
    return found


def _unbroken(
    step: Step, asked: Collection[date], possible: Collection[date], published: Collection[tuple[str, str]]
) -> set[date]:
    """Those of ``possible`` that no day lies behind which can neither be built nor is published."""
    found: set[date] = set()
    for start in asked:
        day = step.cadence.start(start - timedelta(days=1))
        while day in possible or (step.name, str(day)) in published:
            found.add(day)
            day = step.cadence.start(day - timedelta(days=1))
    return found & set(possible)


def _looked_back_to(building: Sequence[Step], asked: Days) -> list[tuple[Step, set[date]]]:
    """Each step with the days of it that a look back from the ``asked`` days reaches, in build order."""
    needed: dict[str, set[date]] = {}
    found: list[tuple[Step, set[date]]] = []
    for step in reversed(building):
        reached = set().union(*(needed.get(table.name, ()) for table in step.tables))
        more = set(step.cadence.starts(reached)) - set(asked[step.name])
        found.append((step, more))
        for read in () if step.source else step.version().reads:
            before = {
                day
                for period in map(step.cadence.period, asked[step.name])
                for day in (read.days(period) if read.first < 0 else ())
                if day < period.first
            }
            whole = {day for start in more for day in read.days(step.cadence.period(start))}
            needed.setdefault(read.table, set()).update(before | whole)
    return found[::-1]


def stale_later_days(
    steps: Sequence[Step], observed: Observed, changed: Days, built_too: Mapping[str, Collection[date]]
) -> dict[str, list[date]]:
    """The published days of ``steps`` that read one of the ``changed`` days and are stale now, by step.

    Without those that the same run builds anyway (``built_too``, by step). A day is stale by the version that it was
    published with. ``observed`` has the tables of ``steps`` and what they read.
    """
    found = {}
    for step in steps:
        around = reading_as_published(step, changed, observed) - set(built_too.get(step.name, ()))
        if not around:
            continue
        statuses = day_statuses([step], observed, DayRange(min(around), max(around)), as_published=True)[step.name]
        stale = [day for day in sorted(around) if statuses.get(day) is DayStatus.INPUT_CHANGED]
        if stale:
            found[step.name] = stale
    return found
