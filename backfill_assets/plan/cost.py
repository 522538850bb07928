"""Rows, bytes, time and money of a plan, from what its days hold now and from how long staging took before. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import reduce
from itertools import accumulate
from operator import add

from backfill_assets.days import Cadence
from backfill_assets.model.declaration import Step
from backfill_assets.plan.records import Cost, Estimate, PlannedStep, Span
from backfill_assets.plan.scope import RebuildScope
from backfill_assets.plan.situation import Machine, PlanContext

_NEWEST = 120
"""An estimate uses at most so many timed days, the newest: older code and machines say little."""
Volume = Mapping[int, int]
"""How much each published day of a table holds, by the ordinal of the day."""


class Volumes:
    """What days hold now; for a day that is not there yet, what the table's days hold on average."""

    def __init__(self, situation: PlanContext) -> None:
        self._rows: dict[str, dict[int, int]] = {}
        self._bytes: dict[str, dict[int, int]] = {}
        self._timed: dict[str, list[tuple[int, int, int]]] = {}
        self._between: dict[str, Callable[[int, int], int]] = {}
        for (table, day), state in situation.observed.states.items():
            if state.content is not None:
                at = day.toordinal()
                self._rows.setdefault(table, {})[at] = state.content.rows
                self._bytes.setdefault(table, {})[at] = situation.bytes.get(table, {}).get(day, 0)
                if state.content.staged_ms is not None:
                    self._timed.setdefault(table, []).append((state.sequence, at, state.content.staged_ms))

    def rows(self, table: str) -> Volume:
        """Rows by the ordinal of the day."""
        return self._rows.get(table, {})

    def bytes(self, table: str) -> Volume:
        return self._bytes.get(table, {})

    def bytes_between(self, table: str) -> Callable[[int, int], int]:
        """A function that sums the bytes from one ordinal up to, but without, another; equally fast for any span."""
        if table not in self._between:
            ordered = sorted(self.bytes(table).items())
            days, sums = [at for at, _ in ordered], [0, *accumulate(size for _, size in ordered)]
            self._between[table] = lambda first, end: sums[bisect_left(days, end)] - sums[bisect_left(days, first)]
        return self._between[table]

    def day_seconds(self, table: str) -> dict[date, float]:
        """Seconds of the newest days that were timed."""
        newest = sorted(self._timed.get(table, ()), reverse=True)[:_NEWEST]
        return {date.fromordinal(at): milliseconds / 1000 for _, at, milliseconds in newest}


def estimate(step: Step, chosen: RebuildScope, situation: PlanContext, volumes: Volumes) -> Estimate:
    """What building the step's days will read, write and take."""
    days = chosen.rebuilt_days(step)
    if not days:
        return Estimate()
    samples = volumes.day_seconds(step.name)
    rows_read, bytes_read = _read(step, chosen, volumes, situation)
    return Estimate(
        rows_read=rows_read,
        bytes_read=bytes_read,
        rows_written=_volume_written(days, [volumes.rows(table.name) for table in step.tables]),
        bytes_written=_volume_written(days, [volumes.bytes(table.name) for table in step.tables]),
        time=_time(step, days, samples, volumes),
    )


def cost(steps: Iterable[PlannedStep], machine: Machine) -> Cost:
    """All steps that have something to rebuild; they run one after the other."""
    busy = [step for step in steps if step.rebuild]
    timed = [step.estimate.time for step in busy if step.estimate.time is not None]
    return Cost(
        time=reduce(add, timed) if timed else None,
        cores=machine.cores,
        price_per_core_hour=machine.core_hour_price,
        unknown=tuple(sorted(step.name for step in busy if step.estimate.time is None)),
    )


def _read(step: Step, chosen: RebuildScope, volumes: Volumes, situation: PlanContext) -> tuple[int | None, int | None]:
    """Each input day is read once, however many days look back at it. The rows of landed files are unknown."""
    if step.source:
        landed = situation.landed.get(step.name, {})
        return None, sum(landed[day].bytes for day in chosen.rebuilt_days(step) if day in landed)
    rows: list[int | None] = []
    bytes_read: list[int | None] = []
    for table, days in chosen.reads(step).items():
        built = set(chosen.rebuilt_days(situation.step_of(table)))
        rows.append(_volume_held(days, built, volumes.rows(table)))
        bytes_read.append(_volume_held(days, built, volumes.bytes(table)))
    return together(rows), together(bytes_read)


def together(found: Iterable[int | None]) -> int | None:
    """The sum; None if one of them is unknown."""
    values = list(found)
    return None if None in values else sum(value for value in values if value is not None)


def _volume_held(days: Iterable[date], built: set[date], volume: Volume) -> int | None:
    """What days hold; of those that the plan builds first, what such days hold on average if they are not there yet.

    None if the plan builds days of a table of which nothing was ever published.
    """
    if not volume and not built.isdisjoint(days):
        return None
    typical = round(sum(volume.values()) / len(volume)) if volume else 0
    return sum(volume.get(day.toordinal(), typical if day in built else 0) for day in days)


def _volume_written(days: Sequence[date], tables: Sequence[Volume]) -> int | None:
    """None if nothing was ever published that a day could be compared with."""
    total = 0
    for volume in tables:
        known = [volume[day.toordinal()] for day in days if day.toordinal() in volume]
        if not volume:
            return None
        total += sum(known) + (len(days) - len(known)) * round(sum(volume.values()) / len(volume))
    return total


def _time(step: Step, days: Sequence[date], samples: Mapping[date, float], volumes: Volumes) -> Span | None:
    """All ``days`` as each timed day would take them, by the bytes that are read; on average where that is 0."""
    sampled = list(_bytes_read(step, samples, volumes))
    typical = sum(sampled) / len(sampled) if any(sampled) else 1
    total = sum(found or typical for found in _bytes_read(step, days, volumes))
    return Span.of([spent / (found or typical) * total for spent, found in zip(samples.values(), sampled, strict=True)])


def _bytes_read(step: Step, days: Iterable[date], volumes: Volumes) -> Iterator[int]:
    """The bytes that each day reads, by itself."""
    windows = [(volumes.bytes_between(read.table), read.first, read.last + 1) for read in step.reads]
    for day in days:
        first = day.toordinal()
        last = first if step.cadence is Cadence.DAILY else step.cadence.period(day).last.toordinal()
        yield sum(between(first + a, last + b) for between, a, b in windows)
