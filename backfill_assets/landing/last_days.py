"""The last day that a chain of datasets has data of: what has landed, and what was published, by a stream for example.

By names and the publication log alone. A chain whose data goes on has no last day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import chains
from backfill_assets.model.dataset import Dataset
from backfill_assets.publish.log import PublicationLog

QUIET = timedelta(days=35)
"""Data that has been quiet for longer than any month has ended; younger data is taken to go on."""


def last_days(datasets: Sequence[Dataset], zone: LandingZone, storage: Storage, today: date) -> dict[str, date]:
    """By dataset, the last day of those whose data has ended; datasets of one chain have the same last day.

    A dataset without any data is not named: its first day may land at any time.
    """
    published = _published_days(storage, [table for dataset in datasets for table in _raw_tables(dataset)])
    found: dict[str, date] = {}
    for chain in chains(datasets):
        raw = {table for dataset in chain for table in _raw_tables(dataset)}
        days = [day for table, day in published if table in raw]
        days += (day for dataset in chain for source in _sources(dataset) for day in _landed_days(zone, source))
        last = end_of(days, chain[0].first_day, today)
        found |= {dataset.name: last for dataset in chain if last}
    return found


def end_of(days: Iterable[date], first: date, today: date) -> date | None:
    """The newest of ``days`` from ``first`` on if it is old enough to be the end; None if data goes on. Pure."""
    newest = max((day for day in days if day >= first), default=None)
    return newest if newest is not None and today - newest > QUIET else None


def _raw_tables(dataset: Dataset) -> list[str]:
    return [step.name for step in dataset.steps if step.source]


def _sources(dataset: Dataset) -> list[str]:
    return [step.source.name for step in dataset.steps if step.source]


def _landed_days(zone: LandingZone, source: str) -> list[date]:
    return [day for day, paths in zone.paths(source).items() if paths]


def _published_days(storage: Storage, tables: Sequence[str]) -> list[tuple[str, date]]:
    log = PublicationLog(storage)
    return [(key.table, key.day) for key in log.day_states(log.head(), set(tables))]
