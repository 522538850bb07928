"""The earlier days that a run looks back to and that were never built: the run builds them before its own days."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import earlier_days, later_readers, steps_of
from backfill_assets.published.observed import observe
from backfill_assets.rebuild.decide import published_days


def missing_earlier_days(
    step: Step,
    steps: Sequence[Step],
    tables: Collection[str],
    days: Collection[date],
    lakehouse: str,
    zone: LandingZone,
) -> list[date]:
    """The days of ``step`` that ``tables`` look back to from ``days``, that can be built and never were.

    ``steps`` are those of all datasets, in build order; ``tables`` are built together. Dagster's partitions know of no
    look back (see :func:`~backfill_assets.defs.partitions.partition_mapping`): a run is given its own days only.
    """
    if not later_readers(steps).get(step.name, {}).keys() & set(tables):
        return []
    building = steps_of(steps, tables)
    names = {name for each in building for name in (*each.table_names, *(read.table for read in each.reads))}
    published = published_days(observe(Storage(lakehouse), sorted(names)).states)
    found = earlier_days(steps, tables, days, published, _landed(zone, building)).get(step.name, set())
    return sorted(found.difference(published.get(step.name, ())))


def _landed(zone: LandingZone, steps: Iterable[Step]) -> dict[str, set[date]]:
    today = datetime.now(UTC).date()
    return {
        step.name: {day for day, paths in zone.paths(step.source.name).items() if paths and day < today}
        for step in steps
        if step.source
    }
