"""Landed files that no schedule ingests: a new dataset's first days, late files and late days. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.model.dataset import Dataset
from backfill_assets.model.landed_format import arrival_day_of
from backfill_assets.text import format_count
from backfill_assets.upkeep.for_people import first_ranges


@dataclass(frozen=True)
class Landed:
    """Landed files of a dataset by arrival day; only days that have ended."""

    dataset: Dataset
    files: Mapping[date, Sequence[str]] = field(default_factory=dict)
    taken_in: Collection[str] = ()
    given_back: Collection[str] = ()
    """Their ingest was rolled back: only a person may ingest them again."""
    published: bool = False
    targeted: bool = False
    """A backfill or run was requested, with any outcome."""
    restored: str = ""
    settled: bool = True
    """No file landed since the last look: a delivery is whole."""
    begins: date = date.min

    @property
    def raw(self) -> str:
        return next(step.name for step in self.dataset.steps if step.source)

    def arrival_day(self, path: str) -> date | None:
        source = next(step.source for step in self.dataset.steps if step.source)
        return arrival_day_of(source, path)

    @property
    def fresh(self) -> bool:
        return bool(self.files) and not self.published and not self.targeted


@dataclass(frozen=True)
class Arrival:
    id: str
    title: str
    days: Mapping[str, tuple[date, ...]]


@dataclass(frozen=True)
class Due:
    launch: tuple[Arrival, ...] = ()
    waiting: tuple[str, ...] = ()


def arrivals_due(chains: Iterable[Sequence[Landed]], busy: Mapping[str, str], launched: Collection[str] = ()) -> Due:
    """Datasets of a chain begin together. A late file is tried once, then once after each restore of its table."""
    launch: list[Arrival] = []
    waiting: list[str] = []
    for chain in chains:
        begun, reasons = _first_days(chain)
        pending = [(landed, _pending(landed)) for landed in chain]
        for arrival in [*begun, *(late for landed, files in pending if (late := _late(landed, files)))]:
            table = next((table for table in arrival.days if table in busy), None)
            if arrival.id in launched:
                reasons += [f"{arrival.title}: the backfill {arrival.id} did not take them in; see its run"]
            elif table:
                reasons += [f"{arrival.title}: waits for {busy[table]}"]
            else:
                launch.append(arrival)
        waiting += [*reasons, *(line for landed, files in pending for line in _left_alone(landed, files))]
    return Due(tuple(launch), tuple(waiting))


def _first_days(chain: Sequence[Landed]) -> tuple[list[Arrival], list[str]]:
    fresh = [landed for landed in chain if landed.fresh]
    names = ", ".join(landed.dataset.name for landed in fresh)
    absent = [landed.dataset.name for landed in chain if not landed.files and not landed.published]
    if not fresh:
        return [], []
    if absent:
        return [], [f"{names} landed, and reads what has not: waits for {', '.join(absent)}"]
    if not all(landed.settled for landed in fresh):
        return [], [f"{names}: files are still landing"]
    days = {day for landed in fresh for day in landed.files}
    targets = {table: found for landed in fresh for table, found in _through(landed).items()}
    title = f"First days of {names}: {min(days)}..{max(days)}"
    return [Arrival(f"initial-{_digest([names, str(min(days)), str(max(days))])}", title, targets)], []


def _through(landed: Landed) -> dict[str, tuple[date, ...]]:
    return {
        table.name: tuple(step.cadence.starts(landed.files)) for step in landed.dataset.steps for table in step.tables
    }


@dataclass(frozen=True)
class _Pending:
    late: Mapping[date, Sequence[str]] = field(default_factory=dict)
    given_back: Mapping[date, Sequence[str]] = field(default_factory=dict)
    """All waiting files of such a day: a run ingests whole days."""
    earlier: Mapping[date, Sequence[str]] = field(default_factory=dict)
    newest: Mapping[date, Sequence[str]] = field(default_factory=dict)


def _pending(landed: Landed) -> _Pending:
    """A day without ingested files is late once a later day was ingested."""
    if not landed.published:
        return _Pending()
    taken, given_back = set(landed.taken_in), set(landed.given_back)
    ingested = {day for path in taken if (day := landed.arrival_day(path))}
    found: dict[str, dict[date, Sequence[str]]] = {kind: {} for kind in ("late", "given_back", "earlier", "newest")}
    for day, files in landed.files.items():
        if paths := [path for path in files if path not in taken]:
            # First: a run of the day takes in all of its files, and would undo what a person has rolled back.
            if given_back.intersection(paths):
                kind = "given_back"
            elif day in ingested:
                kind = "late"
            elif not ingested or day > max(ingested):
                kind = "newest"
            else:
                kind = "late" if day > min(ingested) else "earlier"
            if kind != "earlier" or day >= landed.begins:
                found[kind][day] = paths
    return _Pending(**found)


def left_to_daily_job(landed: Landed) -> Mapping[date, Sequence[str]]:
    return _pending(landed).newest


def waiting_files(landed: Landed, *, daily_job: bool = True) -> list[str]:
    """One line for each kind of waiting files, of those left to the daily job too if ``daily_job``."""
    pending = _pending(landed)
    return _left_alone(landed, pending if daily_job else replace(pending, newest={}))


def _late(landed: Landed, pending: _Pending) -> Arrival | None:
    begun = {landed.arrival_day(path) for path in landed.taken_in}
    late = {day: files for day, files in pending.late.items() if landed.settled or day in begun}
    if not late:
        return None
    paths = sorted(path for files in late.values() for path in files)
    title = f"Late files: {landed.raw} {first_ranges(late)}: {format_count(len(paths), 'file')}"
    evidence = [landed.raw, paths, *filter(None, [landed.restored])]
    return Arrival(f"late-{_digest(evidence)}", title, {landed.raw: tuple(sorted(late))})


def _left_alone(landed: Landed, pending: _Pending) -> list[str]:
    whys = (
        (pending.newest, "left to the daily job"),
        (pending.earlier, "from before the first ingested day; backfill run ingests them"),
        (pending.given_back, "given back by a rollback or an abort; backfill run ingests them again"),
    )
    return [
        f"{landed.raw} {first_ranges(days)}: {format_count(sum(map(len, days.values())), 'file')} {why}"
        for days, why in whys
        if days
    ]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:20]
