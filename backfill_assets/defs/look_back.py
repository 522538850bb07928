"""What a look back means for a run: earlier days that it builds first, and later days that use its rows.

Dagster's dialog takes the range that a person writes, and follows no look back (see ``partition_mapping``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.current_versions import with_current
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import earlier_days, later_readers, steps_of
from backfill_assets.rebuild.decide import published_days
from backfill_assets.state.observed import observe
from backfill_assets.state.reading import read_switches
from backfill_assets.text import format_count

LATER_DAYS = "later_days"


def missing_earlier_days(
    step: Step,
    steps: Sequence[Step],
    tables: Collection[str],
    days: Collection[date],
    storage: Storage,
    zone: LandingZone,
    version: str = "",
) -> list[date]:
    """The days of ``step`` that ``tables`` look back to from ``days``, that can be built and never were.

    ``steps`` are those of all datasets, in build order; ``tables`` are built together. Dagster's partitions know of no
    look back (see :func:`~backfill_assets.defs.partitions.partition_mapping`): a run is given its own days only.
    Steps that have ``version`` are built by it, and look back as it does.
    """
    if not later_readers(steps).get(step.name, {}).keys() & set(tables):
        return []
    steps = [_by_version(each, version) for each in with_current(steps, read_switches(storage))]
    building = steps_of(steps, tables)
    names = {name for each in building for name in (*each.table_names, *(read.table for read in each.reads))}
    published = published_days(observe(storage, sorted(names)).states)
    needed = earlier_days(steps, tables, days, published, _landed_days(zone, building)).get(step.name, set())
    return sorted(needed.difference(published.get(step.name, ())))


def _by_version(step: Step, version: str) -> Step:
    return replace(step, current=version) if any(each.name == version for each in step.versions) else step


def _landed_days(zone: LandingZone, steps: Iterable[Step]) -> dict[str, set[date]]:
    today = datetime.now(UTC).date()
    return {
        step.name: {day for day, paths in zone.paths(step.source.name).items() if paths and day < today}
        for step in steps
        if step.source
    }


def later_days_text(table: str, readers: Mapping[str, int]) -> str:
    """What a person reads before a range of ``table`` is launched; ``readers`` are the days by step, at least one."""
    names = " and ".join(f"`{name}`" for name in readers)
    return (
        f"Days up to {format_count(max(readers.values()), 'day')} later use these rows as well: {names} "
        f"look{'s' if len(readers) == 1 else ''} back. A backfill of a range does not include those days. The sensor "
        f"`repairs` builds the ones that are stale within a minute or two of its end. To build them at once: "
        f"`backfill run {table} --downstream --days A..B`."
    )
