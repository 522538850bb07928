"""Checks that need no rows: the publication log and the names of landed files are enough. No run evaluates them.

A page of the sensor ``dagster_shows_what_is`` does, once a day has ended and was published, or its delivery came or is
due. What was evaluated is not looked at again before something is published, or lands, for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, partial
from typing import Any
from uuid import uuid4

import dagster as dg

from backfill_assets.days import DayRange, TableDay, parse_day
from backfill_assets.defs.checks import AS_DECLARED, AS_SENT, AS_USUAL, DELIVERED, check_key, of_rule
from backfill_assets.defs.dagster_internals import CheckStatus, ShownCheck, report_checks, shown_checks, targets
from backfill_assets.defs.partitions import Partitions
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

LogJudge = Callable[[DaysMetrics, date], RuleOutcome | None]
"""The verdict on a day of a table, from what was measured of its published days; None if there is nothing to say."""
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
}
_OPEN, _UNDER_WAY, _PASSED, _FAILED = "open", "under way", "passed", "failed"
"""How a check of a day stands. It is open if nobody evaluated it, nor does a run any more that planned it."""
_MOST_JUDGED, _MOST_READ = 4_000, 60
"""In one tick: verdicts from the log, and days whose landed files are read."""


def log_judges(table: Table, step: Step) -> Mapping[str, LogJudge]:
    """By the name of its check, who judges a day of ``table``, which is one of ``step``, from the log."""
    found: dict[str, LogJudge] = {}
    if table.unusual_beyond is not None:
        found[AS_USUAL] = partial(as_usual.judge, table, step)
    if table.typed and step.source:
        found[AS_DECLARED] = partial(drift.judge, step.source)
    return found


def log_checks(table: Table, step: Step) -> list[str]:
    """The names of all checks of ``table`` that need no rows."""
    found = [*log_judges(table, step)]
    if step.source is not None:
        found += [AS_SENT] * step.source.sends_totals + [DELIVERED] * (step.source.delivered_within is not None)
    return found


def log_checks_page(steps: Sequence[Step], partitions: Mapping[str, Partitions]) -> Page:
    """Evaluates them for the sensor."""

    def evaluate(context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any) -> tuple[str, Any]:
        if (log := backfill.publications()) is None:
            return "", seen
        zone = LandingZone(backfill.settings.landing)
        return LogChecks(context.instance, log, zone, steps, partitions).evaluate(seen, datetime.now(UTC))

    return evaluate


@dataclass(frozen=True)
class EvaluatedUpTo:
    """What was evaluated already."""

    place: ReportedUpTo
    ended: date = date.min
    """Days that ended before it."""
    landed: Mapping[str, int] = field(default_factory=dict)
    """By raw table, the time of its newest landed file, in nanoseconds."""

    @classmethod
    def of(cls, seen: Any, partitions: Mapping[str, Partitions], log: str) -> EvaluatedUpTo:
        place = ReportedUpTo.of(seen and seen[0], partitions, log)
        return cls(place, date.fromisoformat(seen[1]), seen[2]) if seen and place.settled >= 0 else cls(place)

    def cursor(self) -> list[Any]:
        """As it is kept."""
        return [self.place.cursor(), str(self.ended), dict(self.landed)]


@dataclass(frozen=True)
class _Verdict:
    """What was said of a day of a table; ``publication`` is what was judged, if one was."""

    of: TableDay
    rule: RuleOutcome
    publication: str = ""


@dataclass(frozen=True)
class LogChecks:
    """One look at all checks that need no rows."""

    instance: dg.DagsterInstance
    log: PublicationLog
    zone: LandingZone
    steps: Sequence[Step]
    partitions: Mapping[str, Partitions]

    def evaluate(self, seen: Any, now: datetime) -> tuple[str, Any]:
        """Evaluates what is due ``now``; says so in words, and gives the cursor of the next look."""
        done, today = EvaluatedUpTo.of(seen, self.partitions, self.log.identity), now.date()
        states = self.log.day_states(self.log.head(), self.partitions)
        due, left = _whole_publications(sorted(self._due(states, done, today), key=lambda each: each[0].sequence))
        found = [*self._judged(states, due), *self._not_published(states), *self._delivered(now)]
        landed = {}
        for table, source in self._sources:
            if source.sends_totals:
                verdicts, landed[table] = self._as_sent(table, source, done.landed.get(table, 0), today)
                found += verdicts
        count = self._report(found)
        settled = left[0][0].sequence - 1 if left else max((each.sequence for each in states.values()), default=-1)
        place = replace(done.place, settled=settled)
        words = f"Evaluated {format_count(count, 'check')} of the log and of what landed." if count else ""
        return words, EvaluatedUpTo(place, done.ended if left else today, landed).cursor()

    # ------------------------------------------------------------- from the log

    def _due(
        self, states: Mapping[TableDay, DayState], done: EvaluatedUpTo, today: date
    ) -> Iterator[tuple[DayState, str]]:
        """Published days that have ended, with a check that was not evaluated since."""
        for key, state in states.items():
            table, step = self._tables[key.table]
            ends = step.cadence.period(key.day).last
            if state.content is None or ends >= today:
                continue
            may_stand = {_UNDER_WAY}
            if state.sequence <= done.place.settled and ends < done.ended:
                may_stand |= {_PASSED, _FAILED}
            due = [check for check in log_judges(table, step) if self._standing(check, key) not in may_stand]
            if due and self._has_partition(key):
                yield from ((state, check) for check in due)

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
        """Of a day that a run planned and did not publish, or that was withdrawn, there is nothing to find wrong."""
        for (check, table, text), shown in self._shown.items():
            key = TableDay(table, parse_day(text))
            state = states.get(key)
            if check in log_judges(*self._tables[table]) and (state is None or state.content is None):
                is_open = shown.status is CheckStatus.PLANNED and self._standing(check, key) == _OPEN
                if is_open or shown.status is CheckStatus.FAILED:
                    yield _Verdict(key, RuleOutcome(check, "consistency", True, "nothing is published", ""))

    # ------------------------------------------------------------- from what landed

    @cached_property
    def _sources(self) -> list[tuple[str, Source]]:
        return [(step.name, step.source) for step in self.steps if step.source is not None]

    def _delivered(self, now: datetime) -> Iterator[_Verdict]:
        """Of each day since the first one that landed whose delivery has come, or is due, since it was looked at."""
        for table, source in self._sources:
            landed = self.zone.paths(source.name) if source.delivered_within is not None else {}
            for day in DayRange(min(landed), max(now.date(), *landed)) if landed else ():
                key, files = TableDay(table, day), landed.get(day, ())
                known = self._standing(DELIVERED, key)
                if known in (_UNDER_WAY, _PASSED if files else _FAILED) or not self._has_partition(key):
                    continue
                came = min(map(self.zone.landed_at, files), default=None)
                rule = deliveries.delivered(day, source.delivered_within or timedelta(), came, now)
                if rule is not None:
                    yield _Verdict(key, rule)

    def _as_sent(self, table: str, source: Source, seen: int, today: date) -> tuple[list[_Verdict], int]:
        """Of days that have ended and got a file since they were looked at; and the time of the newest such file."""
        due = []
        for day, files in self.zone.paths(source.name).items():
            key = TableDay(table, day)
            standing, newest = self._standing(AS_SENT, key), control_totals.newest(self.zone, source.name, day, files)
            if files and day < today and self._has_partition(key) and (standing == _OPEN or newest > seen):
                due += [(newest, key, files)] if standing != _UNDER_WAY else []
        due = sorted(due)[:_MOST_READ]
        verdicts = [_Verdict(key, self._compared(source, key.day, files)) for _, key, files in due]
        return verdicts, max([seen, *(newest for newest, *_ in due)])

    def _compared(self, source: Source, day: date, files: Sequence[str]) -> RuleOutcome:
        try:
            sent = control_totals.sent(self.zone, source.name, day)
            landed = control_totals.landed(self.zone, files, sent.sums if sent else ())
        except SourceUnreadable as error:
            return RuleOutcome(
                AS_SENT, "completeness", False, error.message, "files that can be read", error.hint or ""
            )
        return deliveries.as_sent(sent, landed, control_totals.CONTROL)

    # ------------------------------------------------------------- in Dagster

    @cached_property
    def _tables(self) -> Mapping[str, tuple[Table, Step]]:
        return {table.name: (table, step) for step in self.steps for table in step.tables}

    @cached_property
    def _shown(self) -> Mapping[tuple[str, str, str], ShownCheck]:
        keys = [check_key(name, check) for name, found in self._tables.items() for check in log_checks(*found)]
        return {(each.check, each.table, each.day): each for each in shown_checks(self.instance, keys)}

    def _has_partition(self, key: TableDay) -> bool:
        return self.partitions[key.table].has_partition_key(str(key.day))

    def _standing(self, check: str, key: TableDay) -> str:
        shown = self._shown.get((check, key.table, str(key.day)))
        if shown is None or (shown.status is CheckStatus.PLANNED and shown.planned_by in self._ended_runs):
            return _OPEN
        if shown.status is CheckStatus.PLANNED:
            return _UNDER_WAY
        return _PASSED if shown.status is CheckStatus.SUCCEEDED else _FAILED

    @cached_property
    def _ended_runs(self) -> set[str]:
        """Of the runs that have planned checks, those that do not come back to them."""
        planned = {each.planned_by for each in self._shown.values() if each.status is CheckStatus.PLANNED}
        runs = {name: self.instance.get_run_by_id(name) for name in planned}
        return {name for name, run in runs.items() if run is None or run.is_finished}

    def _report(self, found: Iterable[_Verdict]) -> int:
        """For the run that planned the check, so that its page has the verdict; else for a look without a run."""
        of_table = defaultdict[str, list[_Verdict]](list)
        for each in found:
            of_table[each.of.table].append(each)
        of_run, look = defaultdict[str, list[dg.AssetCheckEvaluation]](list), str(uuid4())
        for table, verdicts in of_table.items():
            now = targets(self.instance, table, {str(each.of.day) for each in verdicts})
            for each in verdicts:
                day, shown = each.of.day, self._shown.get((each.rule.rule, table, str(each.of.day)))
                run = shown.planned_by if shown and shown.status is CheckStatus.PLANNED else look
                of_run[run].append(of_rule(table, day, each.rule, each.publication, now.get(str(day))))
        return sum(report_checks(self.instance, run, verdicts) for run, verdicts in of_run.items())


def _whole_publications(
    due: Sequence[tuple[DayState, str]], most: int = _MOST_JUDGED
) -> tuple[Sequence[tuple[DayState, str]], Sequence[tuple[DayState, str]]]:
    """The oldest of ``due``, which is in the order of the log, and what is left: no publication is cut in two."""
    last = due[:most][-1][0].sequence if due else 0
    cut = bisect_right(due, last, key=lambda each: each[0].sequence)
    return due[:cut], due[cut:]
