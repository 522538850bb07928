"""The first and last day of data of a chain, by names of landed files and the publication log alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from backfill_assets.days import by_table
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import chains
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import build_order
from backfill_assets.publish.log import PublicationLog

QUIET = timedelta(days=35)
"""Data that is older has ended: no month is longer."""
_RESULTS = {"fact", "report"}


class DataDays(NamedTuple):
    """``last`` is None while data goes on."""

    first: date | None = None
    last: date | None = None


def data_days(datasets: Sequence[Dataset], zone: LandingZone, storage: Storage, today: date) -> dict[str, DataDays]:
    published = _published_days(storage, [table for dataset in datasets for table in _raw_tables(dataset)])
    found: dict[str, DataDays] = {}
    for chain in chains(datasets):
        begins, steps = chain[0].first_day, [step for dataset in chain for step in dataset.steps]
        days = {step.name: _days_of(step, zone, published) for step in steps if step.is_origin}
        own = [day for name in leading(steps) for day in days[name]]
        end = end_of((day for of_table in days.values() for day in of_table), begins, today)
        known = DataDays(beginning_of(own, begins, today), end)
        found |= {dataset.name: known for dataset in chain if known != DataDays()}
    return found


def end_of(days: Iterable[date], first: date, today: date) -> date | None:
    newest = max((day for day in days if day >= first), default=None)
    return newest if newest is not None and today - newest > QUIET else None


def beginning_of(days: Iterable[date], first: date, today: date) -> date | None:
    return min((day for day in days if first <= day < today), default=None)


def leading(steps: Sequence[Step]) -> set[str]:
    """Raw tables whose days begin a chain, without those only looked back to, as rates before the first sale. Pure."""
    reached = {step.name for step in steps if any(table.layer in _RESULTS for table in step.tables)}
    for step in reversed(build_order(steps)):
        if step.name in reached:
            reads = (read for version in step.versions for read in version.reads if read.first == 0)
            own_days = {read.table for read in reads}
            reached |= {other.name for other in steps if not own_days.isdisjoint(other.table_names)}
    origins = {step.name for step in steps if step.is_origin}
    return origins & reached or origins


def _days_of(step: Step, zone: LandingZone, published: Mapping[str, set[date]]) -> set[date]:
    landed = zone.paths(step.source) if step.source else {}
    return {day for day, paths in landed.items() if paths} | published.get(step.name, set())


def _raw_tables(dataset: Dataset) -> list[str]:
    return [step.name for step in dataset.steps if step.is_origin]


def _published_days(storage: Storage, tables: Sequence[str]) -> Mapping[str, set[date]]:
    log = PublicationLog(storage)
    return by_table(log.day_states(log.head(), set(tables)))
