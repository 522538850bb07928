"""The earlier days that a run looks back to and that were never built: the run builds them before its own days."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Reads, Step
from backfill_assets.plan.graph import earlier_days, later_readers, published_days
from backfill_assets.published.observed import observe


def missing_earlier_days(
    step: Step,
    steps: Sequence[Step],
    tables: Collection[str],
    days: Collection[date],
    storage: Storage,
    zone: LandingZone,
) -> list[date]:
    """The days of ``step`` that ``tables`` look back to from ``days``, that can be built and never were.

    ``steps`` are those of all datasets, in build order; ``tables`` are built together. Dagster's partitions know of no
    look back (see :func:`~backfill_assets.defs.partitions.partition_mapping`): a run is given its own days only.
    """
    if not later_readers(steps).get(step.name, {}).keys() & set(tables):
        return []
    building = [each for each in steps if any(table.name in tables for table in each.tables)]
    names = sorted({*_tables(building), *(read.table for each in building for read in _reads(each))})
    published = published_days(observe(storage, names))
    found = earlier_days(steps, tables, days, published, _landed(zone, building)).get(step.name, set())
    return sorted(day for day in found if (step.name, str(day)) not in published)


def _landed(zone: LandingZone, steps: Iterable[Step]) -> dict[str, set[date]]:
    today = datetime.now(UTC).date()
    return {
        step.name: {day for day, paths in zone.paths(step.source.name).items() if paths and day < today}
        for step in steps
        if step.source
    }


def _tables(steps: Iterable[Step]) -> Iterable[str]:
    return (table.name for step in steps for table in step.tables)


def _reads(step: Step) -> Iterable[Reads]:
    return () if step.source else step.version().reads
