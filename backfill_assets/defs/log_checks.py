"""Checks of the publication log and of names of landed files, without rows.

The sensor ``dagster_shows_what_is`` evaluates them, once a day is published, and delivered or due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache, cached_property, partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import dagster as dg

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay, parse_day
from backfill_assets.defs.checks import (
    AS_DECLARED,
    AS_SENT,
    AS_USUAL,
    DELIVERED,
    DELIVERED_AS_USUAL,
    check_key,
    of_rule,
)
from backfill_assets.defs.dagster_internals import CheckStatus, ShownCheck, report_checks, shown_checks, targets
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.sensors.shows_what_is import Page, ReportedUpTo
from backfill_assets.errors import SourceUnreadable
from backfill_assets.lakehouse.records import DayState
from backfill_assets.landing import control_totals
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model import drift
from backfill_assets.model.declaration import Metrics, RuleOutcome, Source, Step, Table
from backfill_assets.publish.log import PublicationLog
from backfill_assets.quality import as_usual, deliveries
from backfill_assets.quality.as_usual import DaysMetrics
from backfill_assets.text import format_count

_Found = TypeVar("_Found")
_Landed = tuple[str, TableDay, Source, Sequence[str]]
LogJudge = Callable[[DaysMetrics, date], RuleOutcome | None]
LOG_CHECK_DESCRIPTIONS: Mapping[str, str] = {
    AS_USUAL: (
        "The volume, the totals and the counts of a day beside those of the recent past: medians of the same weekday, "
        "and how far days usually lie from them. A day that is unusual is a warning."
    ),
    AS_DECLARED: (
        "Fields that land and are not declared, that are declared and missing, or that are of another type: since "
        "when, in which share of the rows, with an example. A day that has any is a warning."
    ),
    AS_SENT: f"What landed is what the source says in `{control_totals.CONTROL}` that it sent: rows, sums of fields.",
    DELIVERED: "The files of the day landed by the time that the dataset declares. It passes as soon as they land.",
    DELIVERED_AS_USUAL: (
        "The first file of the day landed by the time by which it has on the same weekdays before, as far as that can "
        "be learned from the files that are there. A warning, which passes as soon as it lands."
    ),
}
_NEVER, _OPEN, _UNDER_WAY, _PASSED, _FAILED = "never", "open", "under way", "passed", "failed"
_LATELY = timedelta(days=7)
_MOST_JUDGED, _MOST_READ = 4_000, 60
"""In one tick: verdicts, and days whose landed files are read."""


def log_judges(table: Table, step: Step) -> Mapping[str, LogJudge]:
    found: dict[str, LogJudge] = {}
    if table.unusual_beyond is not None:
        found[AS_USUAL] = partial(as_usual.judge, table, step)
    if table.typed and step.source:
        found[AS_DECLARED] = partial(drift.judge, step.source)
    return found


def log_checks(table: Table, step: Step) -> list[str]:
    found = [*log_judges(table, step)]
    if step.source is not None:
        found += [AS_SENT] * step.sends_totals
        if not step.source.replaced_whole:
            found += [DELIVERED if step.delivered_within is not None else DELIVERED_AS_USUAL]
    return found


def log_checks_page(tables: PartitionedTables) -> Page:
    def evaluate(context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any) -> tuple[str, Any]:
        if (log := backfill.publications()) is None:
            return "", seen
        zone = LandingZone(backfill.settings.landing)
        return LogChecks(context.instance, log, zone, tables).evaluate(seen, clock.now())

    return evaluate


class _Verdict(NamedTuple):
    of: TableDay
    rule: RuleOutcome
    publication: str = ""


@dataclass(frozen=True)
class LogChecks:
    instance: dg.DagsterInstance
    log: PublicationLog
    zone: LandingZone
    tables: PartitionedTables
    unreadable: dict[str, SourceUnreadable] = field(default_factory=dict, init=False)

    def evaluate(self, seen: Any, now: datetime) -> tuple[str, Any]:
        # Days without a partition were passed over: with new partitions, start anew.
        log, today = ReportedUpTo.of(None, self.tables.by_table, self.log.identity).world, now.date()
        _, settled, ended, landed = seen if seen and seen[0] == log else (log, -1, str(date.min), {})
        since: Mapping[str, str] = (
            landed if isinstance(landed, dict) else {}
        )  # cursors of old versions have one time for all sources
        states = self.log.day_states(self.log.head(), self.tables.by_table)
        due = sorted(self._due(states, settled, date.fromisoformat(ended), today), key=lambda each: each[0].sequence)
        newest = max((state.sequence for state in states.values()), default=-1)
        last = due[_MOST_JUDGED - 1][0].sequence if len(due) > _MOST_JUDGED else newest
        judged = [each for each in due if each[0].sequence <= last]
        read = sorted(self._of_sources(partial(self._landed, since, today)), key=lambda each: each[0])[:_MOST_READ]
        found = [
            *self._judged(states, judged),
            *self._not_published(states),
            *self._of_sources(partial(self._delivered, now)),
            *self._of_sources(partial(self._delivered_as_usual, now)),
            *(_Verdict(key, self._compared(source, key.day, files)) for _, key, source, files in read),
        ]
        # A publication is judged whole: those left are later. Each source has its own position.
        newest_read = {source.name: max(since.get(source.name, ""), came) for came, _, source, _ in read}
        place = [log, last, str(today), {**since, **newest_read}]
        count = self._report(found)
        said = [f"Evaluated {format_count(count, 'check')} of the log and of what landed."] * bool(count)
        return "\n".join([*said, *map(str, self.unreadable.values())]), place

    # ------------------------------------------------------------- from the log

    def _due(
        self, states: Mapping[TableDay, DayState], settled: int, ended: date, today: date
    ) -> Iterator[tuple[DayState, str]]:
        for key, state in states.items():
            table, step = self._tables[key.table]
            ends = step.cadence.period(key.day).last
            if state.content is None or ends >= today:
                continue
            # Adopted days are history: nobody acts on an unusual one.
            is_known = (state.sequence <= settled and ends < ended) or state.content.is_adopted
            stands = {_NEVER, _UNDER_WAY, _PASSED, _FAILED} if is_known else {_UNDER_WAY}
            checks = [check for check in log_judges(table, step) if self._standing(check, key) not in stands]
            if checks and self._has_partition(key):
                yield from ((state, check) for check in checks)

    def _judged(self, states: Mapping[TableDay, DayState], due: Iterable[tuple[DayState, str]]) -> Iterator[_Verdict]:
        measured = defaultdict[str, dict[date, Metrics]](dict)
        for key, state in states.items():
            if state.content is not None:
                measured[key.table][key.day] = {**state.content.metrics, "rows": state.content.rows}
        for state, check in due:
            rule = log_judges(*self._tables[state.table])[check](measured[state.table], state.day)
            if rule is not None:
                yield _Verdict(TableDay(state.table, state.day), rule, state.publication)

    def _not_published(self, states: Mapping[TableDay, DayState]) -> Iterator[_Verdict]:
        for check, table, text in self._shown:
            key = TableDay(table, parse_day(text))
            is_published = (state := states.get(key)) is not None and state.content is not None
            is_judged = check in log_judges(*self._tables[table])
            if is_judged and not is_published and self._standing(check, key) in (_OPEN, _FAILED):
                yield _Verdict(key, RuleOutcome(check, "consistency", True, "nothing is published", ""))

    # ------------------------------------------------------------- from what landed

    def _of_sources(self, look: Callable[[Step, Source], Iterable[_Found]]) -> Iterator[_Found]:
        for step in self.tables.catalog.steps:
            if step.source is None:
                continue
            try:
                yield from look(step, step.source)
            except SourceUnreadable as error:
                self.unreadable[step.source.name] = error

    def _delivered(self, now: datetime, step: Step, source: Source) -> Iterator[_Verdict]:
        landed = self.zone.paths(source) if step.delivered_within is not None else {}
        for day in DayRange(min(landed), max(now.date(), *landed)) if landed else ():
            key, files = TableDay(step.name, day), landed.get(day, ())
            known = self._standing(DELIVERED, key)
            # A passed day stays so: landed files may be cleared away.
            if known in (_UNDER_WAY, _PASSED, "" if files else _FAILED) or not self._has_partition(key):
                continue
            came = min(map(self.zone.landed_at, files), default=None)
            rule = deliveries.delivered(day, step.delivered_within or timedelta(), came, now)
            if rule is not None:
                yield _Verdict(key, rule)

    def _delivered_as_usual(self, now: datetime, step: Step, source: Source) -> Iterator[_Verdict]:
        learned = step.delivered_within is None and not source.replaced_whole
        landed = self.zone.paths(source) if learned else {}
        came = cache(lambda day: min(map(self.zone.landed_at, landed.get(day, ())), default=None))
        for day in DayRange(min(landed), max(now.date(), *landed)) if landed else ():
            key = TableDay(step.name, day)
            known = self._standing(DELIVERED_AS_USUAL, key)
            is_missed = known == _FAILED and bool(landed.get(day))
            if not is_missed and (known in (_UNDER_WAY, _PASSED, _FAILED) or now.date() - day > _LATELY):
                continue
            if not self._has_partition(key):
                continue
            before = (day - timedelta(n) for n in range(1, deliveries.LEARNED_DAYS + 1))
            usual = deliveries.usual_delivery(day, {each: at for each in before if (at := came(each)) is not None})
            rule = deliveries.delivered_as_usual(day, usual, came(day), now)
            if rule is not None:
                yield _Verdict(key, rule)

    def _landed(self, looked_at: Mapping[str, str], today: date, step: Step, source: Source) -> list[_Landed]:
        found, since = list[_Landed](), looked_at.get(source.name, "")
        listed = self.zone.paths(source).items() if step.sends_totals else ()
        for day, files in ((day, files) for day, files in listed if files):
            key, control = TableDay(step.name, day), control_totals.control_file(self.zone, source, day)
            came = max(str(self.zone.landed_at(path)) for path in (*files, control) if path)
            stands = {_UNDER_WAY} if came > since else {_UNDER_WAY, _PASSED, _FAILED}
            if self._standing(AS_SENT, key) not in stands and day < today and self._has_partition(key):
                found.append((came, key, source, files))
        return found

    def _compared(self, source: Source, day: date, files: Sequence[str]) -> RuleOutcome:
        try:
            sent = control_totals.sent(self.zone, source, day)
            landed = control_totals.landed(self.zone, source, files, sent.sums if sent else ())
        except SourceUnreadable as error:
            return deliveries.unreadable(error.message, error.hint or "")
        return deliveries.as_sent(sent, landed, control_totals.CONTROL)

    # ------------------------------------------------------------- in Dagster

    @cached_property
    def _tables(self) -> Mapping[str, tuple[Table, Step]]:
        built = (step for step in self.tables.catalog.steps if not step.external)
        return {table.name: (table, step) for step in built for table in step.tables}

    @cached_property
    def _shown(self) -> Mapping[tuple[str, str, str], ShownCheck]:
        keys = [check_key(name, check) for name, found in self._tables.items() for check in log_checks(*found)]
        return {(each.check, each.table, each.day): each for each in shown_checks(self.instance, keys)}

    def _has_partition(self, key: TableDay) -> bool:
        return self.tables.has(*key)

    def _standing(self, check: str, key: TableDay) -> str:
        shown = self._shown.get((check, key.table, str(key.day)))
        if shown is None:
            return _NEVER
        if shown.status is CheckStatus.PLANNED:
            return _OPEN if shown.planned_by in self._ended_runs else _UNDER_WAY
        return _PASSED if shown.status is CheckStatus.SUCCEEDED else _FAILED

    @cached_property
    def _ended_runs(self) -> set[str]:
        planned = {each.planned_by for each in self._shown.values() if each.status is CheckStatus.PLANNED}
        runs = {name: self.instance.get_run_by_id(name) for name in planned}
        return {name for name, run in runs.items() if run is None or run.is_finished}

    def _report(self, found: Iterable[_Verdict]) -> int:
        of_run, look = defaultdict[str, list[dg.AssetCheckEvaluation]](list), str(UUID(clock.token(16)))
        by_table = sorted(found, key=lambda each: each.of.table)
        for table, of_table in groupby(by_table, key=lambda each: each.of.table):
            verdicts = list(of_table)
            now = targets(self.instance, table, {str(each.of.day) for each in verdicts})
            for of, rule, publication in verdicts:
                shown = self._shown.get((rule.rule, table, str(of.day)))
                run = shown.planned_by if shown and shown.status is CheckStatus.PLANNED else look
                of_run[run].append(of_rule(table, of.day, rule, publication, now.get(str(of.day))))
        return sum(report_checks(self.instance, run, verdicts) for run, verdicts in of_run.items())
