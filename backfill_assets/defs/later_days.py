"""What Dagster shows about later days that use a table's rows: in its description, and after a run that changed it.

Dagster's dialog takes the range that a person writes, and follows no look back (see ``partition_mapping``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.plan.graph import reading_as_published, stale_later_days
from backfill_assets.published.observed import observe
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import BuiltDay
from backfill_assets.text import days_options, format_ranges

LATER_DAYS, STALE_LATER_DAYS = "later_days", "stale_later_days"


def later_days_text(table: str, readers: Mapping[str, int]) -> str:
    """What a person reads before a range of ``table`` is launched; ``readers`` are the days by step, at least one."""
    named = " and ".join(f"`{name}`" for name in readers)
    return (
        f"Days up to {max(readers.values())} days later use these rows as well: {named} "
        f"look{'s' if len(readers) == 1 else ''} back. A backfill of a range does not include those days. The sensor "
        f"`repairs` builds the ones that are stale within a minute or two of its end. To build them at once: "
        f"`backfill run {table} --downstream --days A..B`."
    )


def later_days_metadata(
    storage: Storage, readers: Sequence[Step], built: Iterable[BuiltDay], built_too: Mapping[str, Collection[date]]
) -> dict[tuple[str, date], str]:
    """By table and day of ``built``, which days of ``readers`` use its rows and are stale now; reads logs only."""
    changed: dict[str, set[date]] = {}
    for each in built:
        if not each.reused:
            changed.setdefault(each.table, set()).add(each.day)
    if not changed or not readers:
        return {}
    tables = {table.name for step in readers for table in step.tables}
    reads = {read.table for step in readers for version in step.versions for read in version.reads}
    observed = observe(storage, sorted(tables | reads))
    stale = stale_later_days(readers, observed, changed, built_too)
    told: dict[tuple[str, date], str] = {}
    for step in (step for step in readers if step.name in stale):
        for table, days in changed.items():
            for day in sorted(days):
                found = reading_as_published(step, {table: [day]}, observed) & set(stale[step.name])
                if found:
                    told[table, day] = f"{told.get((table, day), '')} {_stale_text(step.name, found)}".strip()
    return told


def _stale_text(step: str, days: Collection[date]) -> str:
    return (
        f"{step} {format_ranges(days)} use the rows of this day and are stale now. The sensor `repairs` builds them; "
        f'at once: backfill run {step} --downstream --version "{AS_PUBLISHED}" {days_options(days)}.'
    )
