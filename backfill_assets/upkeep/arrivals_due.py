"""Landed files that no schedule ingests: a new dataset's first days, and files that landed late. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.model.declaration import Dataset
from backfill_assets.upkeep.repair import first_ranges


@dataclass(frozen=True)
class Landed:
    """A dataset and what has landed for it: the files of each arrival day that has ended."""

    dataset: Dataset
    files: Mapping[date, Sequence[str]] = field(default_factory=dict)
    taken_in: Collection[str] = ()
    """Those of the files that raw has taken in."""
    published: bool = False
    targeted: bool = False
    """A backfill or run was asked for its raw table, with any outcome."""
    settled: bool = True
    """False if files landed since the last look: a delivery that is still arriving would be cut in two."""

    @property
    def raw(self) -> str:
        return next(step.name for step in self.dataset.steps if step.source)

    @property
    def fresh(self) -> bool:
        return bool(self.files) and not self.published and not self.targeted


@dataclass(frozen=True)
class Arrival:
    """One backfill. The same files give the same ``id``."""

    id: str
    title: str
    days: Mapping[str, tuple[date, ...]]


@dataclass(frozen=True)
class Due:
    """The backfills to launch now, and what the others wait for, in words."""

    launch: tuple[Arrival, ...] = ()
    waiting: tuple[str, ...] = ()


def arrivals_due(chains: Iterable[Sequence[Landed]], busy: Mapping[str, str], launched: Collection[str] = ()) -> Due:
    """Datasets of a chain begin together. A late file is tried once: ``launched`` has the ids of earlier backfills."""
    launch: list[Arrival] = []
    waiting: list[str] = []
    for chain in chains:
        begun, reasons = _first_days(chain)
        for arrival in [*begun, *(late for landed in chain if (late := _late(landed)))]:
            table = next((table for table in arrival.days if table in busy), None)
            if arrival.id in launched:
                reasons += [f"{arrival.title}: the backfill {arrival.id} did not take them in; see its run"]
            elif table:
                reasons += [f"{arrival.title}: waits for {busy[table]}"]
            else:
                launch.append(arrival)
        waiting += reasons
    return Due(tuple(launch), tuple(waiting))


def _first_days(chain: Sequence[Landed]) -> tuple[list[Arrival], list[str]]:
    """One backfill of all landed days, through all tables of the datasets that were never built."""
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


def _late(landed: Landed) -> Arrival | None:
    """Files that landed after their day was built: others of the day were ingested, so no run looks at it again."""
    taken = set(landed.taken_in)
    late = {
        day: [path for path in files if path not in taken] for day, files in landed.files.items() if taken & set(files)
    }
    paths = sorted(path for files in late.values() for path in files)
    if not paths:
        return None
    days = tuple(sorted(day for day, files in late.items() if files))
    title = f"Late files: {landed.raw} {first_ranges(days)}: {len(paths)} file(s)"
    return Arrival(f"late-{_digest([landed.raw, paths])}", title, {landed.raw: days})


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:20]
