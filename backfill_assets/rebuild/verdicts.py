"""Finds verdicts of reused days.

Days staged earlier are judged by today's rules, from metrics or, if rules need more, files. Published days show their
staging's verdict, until that timeline is reclaimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from backfill_assets.days import TableDay
from backfill_assets.judge.engine import DayFiles, files_by_day
from backfill_assets.judge.measure import fingerprint, measure_files
from backfill_assets.lakehouse.delta_log import newest_version, read_log
from backfill_assets.lakehouse.records import Prepared
from backfill_assets.lakehouse.rows import rows_and_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import TIMELINES, GateVerdict, StagedDay, Timeline
from backfill_assets.model.declaration import DayFacts, Metrics, RuleOutcome, Table
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.unreadable import Unreadable, read_or_say
from backfill_assets.quality import measures
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import BuiltDay
from backfill_assets.rebuild.stage import Chunk, StagedTableDay, as_facts, content_of, facts_of, judge, with_verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Held = Mapping[date, tuple[Timeline, StagedDay]]
Staged = Mapping[date, StagedTableDay]


def judged_now(
    lake: Lake, chunk: Chunk, staged: Mapping[str, Staged], held: Mapping[str, Held]
) -> Mapping[str, Staged]:
    """Adds today's verdicts to ``staged`` days, and records changed ones. Verdicts without a record of what was
    measured stay.
    """
    tables = chunk.step.tables
    days = [day for day in chunk.days if all(_verdict(held[table.name][day]).measured for table in tables)]
    if not days:
        return dict(staged)
    measured = {table.name: _metrics(lake, table, days, staged[table.name], held[table.name]) for table in tables}

    def files(name: str) -> DayFiles:
        return {day: [file.below(name) for file in held[name][day][1].files] for day in days}

    facts = facts_of(lake.storage, replace(chunk, days=days), measured, files)
    found = {name: dict(of_table) for name, of_table in staged.items()}
    for table in tables:
        verdicts = judge(lake.storage, table, facts[table.name], partial(files, table.name))
        for day, rules in verdicts.items():
            found[table.name][day] = _judged(staged[table.name][day], facts[table.name][day], rules)
        _record(fingerprint(table), {day: (*held[table.name][day], found[table.name][day]) for day in days})
    return found


def _verdict(held: tuple[Timeline, StagedDay]) -> GateVerdict:
    """Fails for a day that was never judged."""
    if held[1].verdict is None:
        raise LookupError(f"{held[0].table} {held[1].day} was never judged.")
    return held[1].verdict


def _metrics(lake: Lake, table: Table, days: Sequence[date], staged: Staged, held: Held) -> dict[date, Metrics]:
    """Measures days again whose metrics were measured for other rules."""
    other = {day for day in days if _verdict(held[day]).measured != fingerprint(table)}
    files = [file for day in other for file in staged[day].files]

    def rows() -> DataFrame:
        return rows_and_files(lake.spark(), lake.storage, table, files)

    anew = measure_files(lake.storage, table, files_by_day(table.name, files), rows) if files else {}
    zero = measures.zero_metrics(table)
    return {day: anew.get(day, zero) if day in other else as_facts(staged[day].content) for day in days}


def _judged(staged: StagedTableDay, facts: DayFacts, rules: tuple[RuleOutcome, ...]) -> StagedTableDay:
    content = staged.content
    measured = content_of(facts.own, content.code_version, content.inputs, {})
    known = replace(content, metrics={**content.metrics, **measured.metrics})
    return replace(staged, content=with_verdict(known, rules), rules=rules)


def _record(asked: str, days: Mapping[date, tuple[Timeline, StagedDay, StagedTableDay]]) -> None:
    timelines = {timeline.path: timeline for timeline, *_ in days.values()}
    verdicts: dict[str, dict[date, GateVerdict]] = {path: {} for path in timelines}
    for day, (timeline, staged, now) in days.items():
        before = _verdict((timeline, staged))
        if (before.rules, before.measured) != (now.rules, asked):
            changed = {"passed": now.passed, "content": now.content, "rules": now.rules, "measured": asked}
            verdicts[timeline.path][day] = before.model_copy(update=changed)
    for path, of_days in verdicts.items():
        if of_days:
            timelines[path].judge(of_days)


# ------------------------------------------------------------------ of published days

_AT_ONCE = 8
Verdicts = Mapping[date, GateVerdict]


def with_kept_rules(storage: Storage, log: PublicationLog, days: Sequence[BuiltDay]) -> list[BuiltDay]:
    reused = [day for day in days if day.reused and day.is_there and not day.rules]
    places = _places(storage, log, reused)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        timelines = sorted({place for of_day in places.values() for place in of_day})
        found = dict(zip(timelines, pool.map(lambda place: _verdicts(storage, *place), timelines), strict=True))
    return [_with_rules(day, [found[place] for place in places.get(TableDay(day.table, day.day), ())]) for day in days]


def _places(
    storage: Storage, log: PublicationLog, days: Sequence[BuiltDay]
) -> dict[TableDay, tuple[tuple[str, str], ...]]:
    """Each day's timelines as (table, name), newest first. A day without rows was staged beside others of its
    publication, or on the one named.
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
    """Empty for an unreadable table: its publications then tell the timelines."""
    version = newest_version(storage, table)
    if version is None:
        return {}
    state = read_or_say(storage, table, version, partial(read_log, storage, table, version))
    if isinstance(state, Unreadable):
        return {}
    return {day: [file.path for file in files] for day, files in state.of_days(set(days)).items()}


def _verdicts(storage: Storage, table: str, name: str) -> Verdicts:
    return Timeline(storage, table, name).verdicts()


def _with_rules(day: BuiltDay, verdicts: Sequence[Verdicts]) -> BuiltDay:
    """The verdict on this content; for a raw day of several deliveries, else the newest one."""
    said = [found[day.day] for found in verdicts if day.day in found]
    same = [each for each in said if each.content and each.content.checksum == day.checksum]
    kept = [*same, *(said if len(verdicts) > 1 else [])]
    return replace(day, rules=kept[0].rules) if kept and day.reused and not day.rules else day
