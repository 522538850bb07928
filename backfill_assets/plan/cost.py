"""Estimates rows, bytes, time and money of a plan. Pure.

Steps are timed by earlier campaigns here, scaled by size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import reduce
from itertools import accumulate, pairwise
from operator import add

from backfill_assets.days import Cadence, DayRange
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.model.declaration import AsOf, Step
from backfill_assets.plan.records import Cost, Estimate, Plan, PlannedStep, Span, about
from backfill_assets.plan.scope import RebuildScope
from backfill_assets.plan.situation import Machine, PlanContext
from backfill_assets.report.answer import Grid, Quantity, Special, seconds
from backfill_assets.text import format_count, format_duration

_NEWEST = 120
"""Most timed days in an estimate: older code and machines say little."""
Volume = Mapping[int, int]
"""Rows or bytes of each published day, by ordinal."""


class Volumes:
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
        return self._rows.get(table, {})

    def bytes(self, table: str) -> Volume:
        return self._bytes.get(table, {})

    def bytes_between(self, table: str) -> Callable[[int, int], int]:
        """Sums bytes over ordinals ``[first, end)``; equally fast for any span."""
        if table not in self._between:
            ordered = sorted(self.bytes(table).items())
            days, sums = [at for at, _ in ordered], [0, *accumulate(size for _, size in ordered)]
            self._between[table] = lambda first, end: sums[bisect_left(days, end)] - sums[bisect_left(days, first)]
        return self._between[table]

    def day_seconds(self, table: str) -> dict[date, float]:
        newest = sorted(self._timed.get(table, ()), reverse=True)[:_NEWEST]
        return {date.fromordinal(at): milliseconds / 1000 for _, at, milliseconds in newest}


def estimate(step: Step, chosen: RebuildScope, situation: PlanContext, volumes: Volumes) -> Estimate:
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
    busy = [step for step in steps if step.rebuild]
    timed = [step.estimate.time for step in busy if step.estimate.time is not None]
    return Cost(
        time=reduce(add, timed) if timed else None,
        cores=machine.cores,
        price_per_core_hour=machine.core_hour_price,
        unknown=tuple(sorted(step.name for step in busy if step.estimate.time is None)),
    )


def _read(step: Step, chosen: RebuildScope, volumes: Volumes, situation: PlanContext) -> tuple[int | None, int | None]:
    """An input day is read once, however many days look back at it. Rows of landed files are unknown."""
    if step.source:
        landed = situation.landed.get(step.name, {})
        return None, sum(landed[day].bytes for day in chosen.rebuilt_days(step) if day in landed)
    rows: list[int | None] = []
    bytes_read: list[int | None] = []
    for table, days in chosen.reads(step).items():
        built = set(chosen.rebuilt_days(situation.step_of(table)))
        rows.append(_volume_held(days, built, volumes.rows(table)))
        bytes_read.append(_volume_held(days, built, volumes.bytes(table)))
    return _sum(rows), _sum(bytes_read)


def _volume_held(days: Iterable[date], built: set[date], volume: Volume) -> int | None:
    """Days that the plan builds first count as the average day if they are not published; None if no day is."""
    if not volume and not built.isdisjoint(days):
        return None
    typical = round(sum(volume.values()) / len(volume)) if volume else 0
    return sum(volume.get(day.toordinal(), typical if day in built else 0) for day in days)


def _volume_written(days: Sequence[date], tables: Sequence[Volume]) -> int | None:
    total = 0
    for volume in tables:
        known = [volume[day.toordinal()] for day in days if day.toordinal() in volume]
        if not volume:
            return None
        total += sum(known) + (len(days) - len(known)) * round(sum(volume.values()) / len(volume))
    return total


def _time(step: Step, days: Sequence[date], samples: Mapping[date, float], volumes: Volumes) -> Span | None:
    """Scales each timed day by bytes read; days that read 0 bytes count as average."""
    sampled = list(_bytes_read(step, samples, volumes))
    typical = sum(sampled) / len(sampled) if any(sampled) else 1
    total = sum(found or typical for found in _bytes_read(step, days, volumes))
    return Span.of([spent / (found or typical) * total for spent, found in zip(samples.values(), sampled, strict=True)])


def _bytes_read(step: Step, days: Iterable[date], volumes: Volumes) -> Iterator[int]:
    reads = [read for read in step.reads if not isinstance(read, AsOf)]
    windows = [(volumes.bytes_between(read.table), read.first, read.last + 1) for read in reads]
    for day in days:
        first = day.toordinal()
        last = first if step.cadence is Cadence.DAILY else step.cadence.period(day).last.toordinal()
        yield sum(between(first + a, last + b) for between, a, b in windows)


SPARK = "spark_started"
"""Start of Spark in all processes of the campaign; part of no other step."""
TIMED = (SPARK, *(step.value for step in CampaignStep if step is not CampaignStep.DECOMMISSION))
"""Without the last step, which waits for the end of the rollback window."""
Journal = Sequence[JournalEntry]
Times = Mapping[str, Span | None]


def sizes(steps: Iterable[PlannedStep]) -> dict[str, int | None]:
    """What each step's time grows with; None if unknown."""
    busy = [step for step in steps if step.rebuild]
    read = _sum(step.estimate.rows_read for step in busy if step.kind == "rebuild")
    written = _sum(step.estimate.rows_written for step in busy)
    return {
        CampaignStep.VERIFY_SOURCE: read,
        CampaignStep.SHADOW: written,
        CampaignStep.VALIDATE: written,
        CampaignStep.CUT_OVER: sum(_days(step) * len(step.tables) for step in busy),
        CampaignStep.DOWNSTREAM: written,
    }


def estimate_times(steps: Sequence[PlannedStep], journals: Iterable[Journal]) -> dict[str, Span | None]:
    if not any(step.rebuild for step in steps):
        return {}
    known, now = [journal for journal in journals if journal], sizes(steps)
    return {step: Span.of([each for journal in known for each in _scaled(step, now, journal)]) for step in TIMED}


def _scaled(step: str, now: Mapping[str, int | None], journal: Journal) -> list[float]:
    by = CampaignStep.CUT_OVER.value if step == SPARK else step
    run = _run_that_did(by, journal)
    if not run:
        return []
    seconds = spent_by_step(run).get(step, 0.0)
    if step not in now:
        return [seconds]
    then = [entry.spent.size for entry in run if entry.kind == "step" and entry.step == by and entry.spent][-1]
    size = now[step]
    return [] if size is None or not then else [seconds * size / then]


def _days(step: PlannedStep) -> int:
    return sum(len(DayRange.parse(text)) for ranges in step.rebuild.values() for text in ranges)


def _run_that_did(step: str, journal: Journal) -> Journal:
    """The last run that completed ``step``; one after a rollback may only have begun."""
    did = (run for run in _runs(journal) if any(e.kind == "step" and e.step == step and e.spent for e in run))
    return next(did, [])


def _runs(journal: Journal) -> list[Journal]:
    """Newest first: a campaign that is resumed after a rollback begins a new run."""
    begins = [at for at, entry in enumerate(journal) if entry.again]
    return [journal[first:end] for first, end in pairwise([0, *begins, len(journal)])][::-1]


def _sum(found: Iterable[int | None]) -> int | None:
    values = list(found)
    return None if None in values else sum(value for value in values if value is not None)


# ------------------------------------------------------------------ what was spent


def spent_by_step(journal: Journal) -> dict[str, float]:
    """Seconds of each timed step, all attempts together; waves count as SHADOW. Only the last timed run counts."""
    found: dict[str, float] = {}
    timed = (run for run in _runs(journal) if any(entry.spent for entry in run))
    for entry in next(timed, []):
        if entry.spent is not None:
            step = entry.step if entry.kind in ("step", "stopped", "withdrawn") else CampaignStep.SHADOW.value
            found[step] = found.get(step, 0.0) + entry.spent.seconds - entry.spent.spark_start
            found[SPARK] = found.get(SPARK, 0.0) + entry.spent.spark_start
    return found


def together(times: Times) -> Span | None:
    known = [each for each in times.values() if each is not None]
    return reduce(add, known) if known and len(known) == len(times) else None


# ------------------------------------------------------------------ in words


@dataclass(frozen=True)
class Estimated(Special):
    time: Span | None

    def plain(self) -> object:
        return None if self.time is None else self.time.model_dump()

    def shown(self, *, short: bool) -> str:
        return about(self.time)


def times_table(plan: Plan, journal: Journal = ()) -> Grid:
    spent = spent_by_step(journal)
    names = dict.fromkeys((*plan.times, *(step for step in TIMED if step in spent)))
    rows = [(_step_name(step), Estimated(plan.times.get(step)), _spent(spent.get(step))) for step in names]
    rows.append(("together", Estimated(together(plan.times)), _spent(sum(spent.values()) if spent else None)))
    columns = ("step", "estimated", "spent") if journal else ("step", "estimated")
    return Grid("times", columns, [row[: len(columns)] for row in rows], title="As a campaign")


def _spent(found: float | None) -> Quantity | None:
    return None if found is None else seconds(round(found, 2))


def spent_words(plan: Plan, journal: Journal) -> str:
    """Empty before the start: ``125 s on 2 cores, estimated about 140 s``."""
    spent = spent_by_step(journal)
    if not spent:
        return ""
    seconds, expected = sum(spent.values()), together(plan.times)
    estimated = f", estimated {about(expected)}" if expected else ""
    return f"{cost_words(format_duration(seconds), plan.cost, plan.cost.price_of(seconds))}{estimated}"


def cost_words(time: str, cost: Cost, money: Decimal | None) -> str:
    """``0.0035 for 125 s on 2 cores``, in the unit of the price of a core hour."""
    on = f"{time} on {format_count(cost.cores, 'core')}"
    return on if money is None else f"{money} for {on}"


def step_line(plan: Plan, step: str, journal: Journal) -> str:
    """``source verified: spent 12 s, estimated about 14 s (8.0 s to 20 s)``"""
    spent, expected = format_duration(spent_by_step(journal)[step]), plan.times.get(step)
    return f"{_step_name(step)}: spent {spent}" + (f", estimated {about(expected)}" if expected else "")


def _step_name(step: str) -> str:
    return step.replace("_", " ")
