"""What the gates said of a published day when it was staged: a run that finds it unchanged shows that again.

The timeline that has a day's rows keeps the verdict on them until these are reclaimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.delta_log import newest_version, read_log
from backfill_assets.lakehouse.records import Prepared
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import TIMELINES, GateVerdict, Timeline
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.outcome import BuiltDay

_AT_ONCE = 8
Verdicts = Mapping[date, GateVerdict]


def with_kept_rules(storage: Storage, log: PublicationLog, days: Sequence[BuiltDay]) -> list[BuiltDay]:
    """``days`` with the rules of those that were reused, as they were judged; without them where nothing was kept."""
    reused = [day for day in days if day.reused and not day.rules]
    places = _places(storage, log, reused)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        timelines = sorted({place for of_day in places.values() for place in of_day})
        found = dict(zip(timelines, pool.map(lambda place: _verdicts(storage, *place), timelines), strict=True))
    return [_with_rules(day, [found[place] for place in places.get(TableDay(day.table, day.day), ())]) for day in days]


def _places(
    storage: Storage, log: PublicationLog, days: Sequence[BuiltDay]
) -> dict[TableDay, tuple[tuple[str, str], ...]]:
    """The timelines that have the rows of each day, as (table, name), newest first.

    A day without rows has no file: what was published with it was staged beside it, or its publication says where.
    """
    places: dict[TableDay, tuple[tuple[str, str], ...]] = {}
    for table in {day.table for day in days}:
        files = _files(storage, table, [day.day for day in days if day.table == table])
        for date_, paths in files.items():
            names = {Timeline.holding(storage, table, path).name for path in paths if path.startswith(f"{TIMELINES}/")}
            places[TableDay(table, date_)] = tuple((table, name) for name in sorted(names, reverse=True))
    empty = [day for day in days if not places.get(TableDay(day.table, day.day))]
    beside = {day.publication: found[0][1] for day in days if (found := places.get(TableDay(day.table, day.day)))}
    alone = [day for day in empty if day.publication not in beside]
    named = beside | {each.publication.id: each.publication.provenance.timeline for each in _prepared(log, alone)}
    for day in empty:
        if name := named.get(day.publication):
            places[TableDay(day.table, day.day)] = ((day.table, name),)
    return places


def _prepared(log: PublicationLog, days: Iterable[BuiltDay]) -> Iterable[Prepared]:
    publications = {day.publication for day in days}
    return log.prepared_of(publications) if publications else ()


def _files(storage: Storage, table: str, days: Sequence[date]) -> dict[date, list[str]]:
    version = newest_version(storage, table)
    if version is None:
        return {}
    return {
        day: [file.path for file in files]
        for day, files in read_log(storage, table, version).of_days(set(days)).items()
    }


def _verdicts(storage: Storage, table: str, name: str) -> Verdicts:
    return Timeline(storage, table, name).verdicts()


def _with_rules(day: BuiltDay, verdicts: Sequence[Verdicts]) -> BuiltDay:
    """The verdict on just this content; of a raw day that came in several deliveries, the newest one."""
    said = [found[day.day] for found in verdicts if day.day in found]
    same = [each for each in said if each.content and each.content.checksum == day.checksum]
    kept = [*same, *(said if len(verdicts) > 1 else [])]
    return replace(day, rules=kept[0].rules) if kept and day.reused and not day.rules else day
