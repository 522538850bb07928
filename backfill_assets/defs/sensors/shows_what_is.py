"""The sensor ``dagster_shows_what_is`` makes Dagster show what is published; it launches nothing.

Runs leave out days of killed runs, commands, rollbacks and late rows; checks of a failed run; stale days; new ends
of partitions.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property, partial
from hashlib import sha256
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import dagster as dg

from backfill_assets import clock
from backfill_assets.answers.signs import beside_the_logs
from backfill_assets.days import TableDay, by_table, parse_day
from backfill_assets.defs.checks import (
    FRESH,
    WATCHDOG,
    again,
    check_key,
    check_names,
    checks_by_table,
    evaluations,
    freshness,
    not_run,
    publication_of,
    withdrawn,
    without_data,
)
from backfill_assets.defs.dagster_internals import (
    CODE_VERSION_TAG,
    CheckStatus,
    ShownCheck,
    is_process_gone,
    newest_evaluations,
    newest_materializations,
    reload_code,
    report_checks,
    report_materializations,
    shown_checks,
    targets,
)
from backfill_assets.defs.metadata import day_metadata
from backfill_assets.defs.own_lakehouse import lakehouse_sensor
from backfill_assets.defs.partitions import PartitionedTables, Partitions
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.watchdogs import newest_verdicts
from backfill_assets.errors import BackfillError, SourceUnreadable
from backfill_assets.lakehouse.records import DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.data_days import DataDays, data_days
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import days_with_data
from backfill_assets.publish.closed_days import Books
from backfill_assets.publish.log import PublicationLog
from backfill_assets.quality.gates import TableCheck
from backfill_assets.rebuild.decide import published_days
from backfill_assets.rebuild.outcome import BuiltDay
from backfill_assets.rebuild.verdicts import with_kept_rules
from backfill_assets.settings import Settings
from backfill_assets.state.closed import books_of, closed_words, waiting_rows, with_closed
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.edited_logic import EditedLogic, contents_of, edited_logic
from backfill_assets.state.observed import observe_each
from backfill_assets.state.rolled_back import rollbacks, undone_days
from backfill_assets.state.status import day_statuses, diagnosed
from backfill_assets.text import format_count
from backfill_assets.upkeep.partition_statuses import Corrections, statuses_to_put_right

SENSOR = "dagster_shows_what_is"
REPORTED_BY, REPORTED_TAG = "told_by", "backfill/checks_reported"
_EVERY_SECONDS = 30
_PATIENCE = timedelta(seconds=30)
_MOST_DAYS, _NEWEST_RUNS = 200, 40
_AFTER_THIS_TICK_SECONDS, _RELOAD_TIMEOUT_SECONDS = 1.0, 180
_BY_HAND = "press Reload beside the code location, under Deployment, or start the code server again"
Cursor = dict[str, Any]
Page = Callable[[dg.SensorEvaluationContext, Backfill, Any], tuple[str, Any]]


def shows_what_is_sensor(tables: PartitionedTables, pages: Mapping[str, Page]) -> dg.SensorDefinition:
    def put_right(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult:
        parts = {**pages}
        if log := backfill.publications():
            shown = ShownDays(context.instance, log, tables, LandingZone(backfill.settings.landing))
            parts = {"days": partial(_days, shown), **parts}
        if tables.data is not None:
            parts["ends"] = partial(_ends_of_partitions, tables)
        seen: Cursor = json.loads(context.cursor or "{}")
        said = dict(_each_part(parts, context, backfill, seen))
        words = "\n".join(filter(None, said.values())) or "Dagster shows what is."
        return dg.SensorResult(skip_reason=words, cursor=json.dumps(seen))

    return lakehouse_sensor(
        SENSOR,
        "Puts right what Dagster shows: days that were published and that no run has reported, days that are stale, "
        "checks that a failed run did not come to, the ends of partitions, and the pages beside the tables. Launches "
        "nothing.",
        _EVERY_SECONDS,
        put_right,
        by_itself=False,
    )


def _each_part(
    parts: Mapping[str, Page], context: dg.SensorEvaluationContext, backfill: Backfill, seen: Cursor
) -> Iterator[tuple[str, str]]:
    for name, part in parts.items():
        try:
            words, seen[name] = part(context, backfill, seen.get(name))
        except BackfillError as error:
            context.log.warning(f"{name}: {error}")
            words = f"{name}: {error}"
        yield name, words


# ------------------------------------------------------------------ days


@dataclass(frozen=True)
class ShownDays:
    instance: dg.DagsterInstance
    log: PublicationLog
    tables: PartitionedTables
    landing: LandingZone | None = None

    @cached_property
    def checks(self) -> Mapping[str, Sequence[TableCheck]]:
        return checks_by_table(self.tables.catalog.steps)

    def states(self) -> dict[TableDay, DayState]:
        found = self.log.day_states(self.log.head(), self.tables.by_table)
        return {key: state for key, state in found.items() if self.tables.has(*key)}

    def publications(self, states: Iterable[DayState]) -> dict[TableDay, str]:
        found: dict[TableDay, str] = {}
        for table, of_table in _by_table(states).items():
            newest = newest_materializations(self.instance, table, [str(each.day) for each in of_table])
            for state in (each for each in of_table if str(each.day) in newest):
                event, day = newest[str(state.day)].asset_materialization, str(state.day)
                checked = [] if state.content else newest_evaluations(self.instance, check_key(table, FRESH), day=day)
                named = publication_of(checked[0] if checked else event)
                found[TableDay(table, state.day)] = named
        return found

    def report(self, states: Sequence[DayState], run_of: Callable[[str], str], by: str) -> None:
        """Inputs first: Dagster calls a day outdated that is older than its inputs."""
        found_of = _by_table(states)
        for table in (table for table in self.tables.by_table if table in found_of):
            of_table = sorted(found_of[table], key=lambda state: state.day)
            days = self.built(state for state in of_table if state.content is not None)
            report_materializations(self.instance, [_materialization(day, by) for day in days])
            now = targets(self.instance, table, [str(day.day) for day in days])
            found: dict[str, list[dg.AssetCheckEvaluation]] = defaultdict(list)
            for day in days:
                found[run_of(day.publication)] += evaluations(day, self.checks[table], now.get(str(day.day)))
            for state in of_table:
                if state.content is None:
                    found[run_of(state.publication)].append(withdrawn(table, state.day, state.publication))
            for run, verdicts in found.items():
                report_checks(self.instance, run, verdicts)

    def built(self, states: Iterable[DayState]) -> list[BuiltDay]:
        days = [BuiltDay.from_log(state, {}, {}, reused=True) for state in states]
        return with_kept_rules(self.log.storage, self.log, days)


def _materialization(day: BuiltDay, by: str) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        day.table,
        partition=str(day.day),
        metadata={**day_metadata(day), REPORTED_BY: by},
        tags={CODE_VERSION_TAG: day.code_version},
    )


def report_publication(shown: ShownDays, publication: str, run_id: str) -> int:
    states = [state for state in shown.states().values() if state.publication == publication]
    known = shown.publications(states)
    wanted = [state for state in states if state.content is not None or TableDay(state.table, state.day) in known]
    shown.report(wanted, lambda _: run_id, "the campaign that published it")
    return len(wanted)


def _days(shown: ShownDays, context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any) -> tuple[str, Any]:
    place = ReportedUpTo.of(seen, shown.tables.by_table, shown.log.identity)
    found = put_statuses_right(shown, place)
    counts = {
        "Reported {} to Dagster.": (len(found.published) + len(found.withdrawn), "day"),
        "Reported {} that failed runs did not come to.": (put_checks_right(shown), "check"),
        "Reported {} as fresh or stale.": (put_freshness_right(shown), "day"),
    }
    words = [text.format(format_count(count, noun)) for text, (count, noun) in counts.items() if count]
    return " ".join(words), replace(place, settled=found.settled).cursor()


@dataclass(frozen=True)
class ReportedUpTo:
    world: str = ""
    settled: int = -1

    @classmethod
    def of(cls, seen: Any, partitions: Mapping[str, Partitions], log: str = "") -> "ReportedUpTo":
        # By table: one may grow to where another ends already, and a plain set would not change.
        ends = {
            name: [str(each.start.date()), str(each.end.date()) if each.end else "open"]
            for name, each in partitions.items()
        }
        world = sha256(f"{log}{json.dumps(ends, sort_keys=True)}".encode()).hexdigest()[:16]
        return cls(*seen) if seen and seen[0] == world else cls(world)

    def cursor(self) -> list[str | int]:
        return [self.world, self.settled]


def put_statuses_right(shown: ShownDays, place: ReportedUpTo) -> Corrections:
    known = [state for state in shown.states().values() if state.sequence > place.settled]
    reported = shown.publications(known)
    differing = {each.publication for each in known if reported.get(TableDay(each.table, each.day)) != each.publication}
    runs = {name: _run_behind(shown, name, clock.now()) for name in sorted(differing)}
    under_way = {name for name, run in runs.items() if run.under_way}
    found = statuses_to_put_right(known, reported, under_way, settled=place.settled)
    by = f"the sensor {SENSOR}: no run reported this publication to Dagster"
    shown.report([*found.published, *found.withdrawn], lambda publication: runs[publication].run_id, by)
    return found


def _by_table(states: Iterable[DayState]) -> dict[str, list[DayState]]:
    found: dict[str, list[DayState]] = defaultdict(list)
    for state in states:
        found[state.table].append(state)
    return found


@dataclass(frozen=True)
class _RunBehind:
    """A publication without a Dagster run, such as a rollback, gets a made-up id."""

    run_id: str
    under_way: bool


def _run_behind(shown: ShownDays, publication: str, now: datetime) -> _RunBehind:
    entry = shown.log.find_prepared(publication)
    run = shown.instance.get_run_by_id(entry[0].publication.provenance.run) if entry else None
    if entry is None or run is None:
        return _RunBehind(str(uuid5(NAMESPACE_URL, publication)), under_way=False)
    waits = not run.is_finished and now - entry[1] < _PATIENCE
    return _RunBehind(run.run_id, under_way=waits and not is_process_gone(shown.instance, run))


def put_freshness_right(shown: ShownDays) -> int:
    tables = shown.tables.by_table
    observed = observe_each(shown.log.storage, shown.tables.catalog.table_names)
    steps = observed.with_current(shown.tables.catalog.steps)
    statuses, undecided = day_statuses(steps, observed, as_published=True), observed.undecided(steps)
    edited = edited_logic(shown.log.storage, shown.tables.catalog.steps, contents_of(observed.states))
    undone = undone_days(rollbacks(shown.log.storage), observed.readable(steps), observed, statuses)
    beside, books = beside_the_logs(steps, edited=edited, undone=dict(undone)), books_of(observed, steps, clock.now())
    statuses, waits = diagnosed(statuses, with_closed(beside, statuses, books)), waiting_rows(observed, steps, books)
    reported = 0
    for each in shown_checks(shown.instance, [check_key(table, FRESH) for table in tables]):
        day = parse_day(each.day)
        state = observed.states.get(TableDay(each.table, day))
        if each.table in undecided or state is None or state.content is None or each.status not in _EVALUATED:
            continue
        cause = statuses[each.table].get(day, Cause.MISSING)
        why = _why(TableDay(each.table, day), cause, edited, books, waits)
        if (cause is None) is not (each.status is CheckStatus.SUCCEEDED) and reported < _MOST_DAYS:
            run = str(uuid5(NAMESPACE_URL, f"{observed.sequence} {state.publication} {cause} {why}"))
            target = targets(shown.instance, each.table, [each.day]).get(each.day)
            reported += report_checks(
                shown.instance, run, [freshness(each.table, day, cause, state.publication, target, why)]
            )
    return reported


def _why(
    key: TableDay, cause: Cause | None, edited: Sequence[EditedLogic], books: Books, waits: Mapping[TableDay, int]
) -> str:
    if cause is Cause.CLOSED and (closing := books.closing(*key)):
        return closed_words(closing, waits.get(key, 0)).removeprefix("closed ")
    said = (f"{one.why} -> {one.next_step}" for one in edited if one.concerns(*key))
    return next(said, "") if cause is Cause.EDITED_LOGIC else ""


_EVALUATED = {CheckStatus.SUCCEEDED, CheckStatus.FAILED}

# ------------------------------------------------------------------ checks that a run did not come to


def put_checks_right(shown: ShownDays) -> int:
    """Reports each run once. A published day repeats its earlier verdict; others say that nothing was checked, or that
    there is no data.
    """
    reported = 0
    for run in _unreported(shown.instance):
        planned = list(_planned(shown, run))
        found = _said_before(shown, planned, run.run_id) if planned else ()
        report_checks(shown.instance, run.run_id, found)
        shown.instance.add_run_tags(run.run_id, {REPORTED_TAG: str(len(planned))})
        reported += len(planned)
    return reported


def _unreported(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
    many = _NEWEST_RUNS
    while True:
        runs = [each.dagster_run for each in instance.get_run_records(ended, limit=many, order_by="update_timestamp")]
        if len(runs) < many or all(REPORTED_TAG in run.tags for run in runs[many // 2 :]):
            return [run for run in runs if REPORTED_TAG not in run.tags]
        many *= 2


def _planned(shown: ShownDays, run: dg.DagsterRun) -> Iterator[ShownCheck]:
    """A run without a selection means all tables."""
    selected = None if run.asset_selection is None else {key.to_user_string() for key in run.asset_selection}
    chosen = [table for table in shown.checks if selected is None or table in selected]
    keys = [check_key(table, name) for table in chosen for name in check_names(shown.checks[table])]
    for each in shown_checks(shown.instance, keys):
        if each.status is CheckStatus.PLANNED and each.planned_by == run.run_id:
            yield each


def _said_before(shown: ShownDays, planned: Sequence[ShownCheck], run: str) -> Iterator[dg.AssetCheckEvaluation]:
    states, days = shown.states(), {(each.table, each.day) for each in planned}
    there = [state for key, state in states.items() if (key.table, str(key.day)) in days and state.content is not None]
    said = {
        (day.table, str(day.day), found.check_name): found
        for day in shown.built(there)
        for found in evaluations(day, shown.checks[day.table])
    }
    for table, of_table in _by_table(there).items():
        publications = {str(state.day): state.publication for state in of_table}
        for day, verdict in newest_verdicts(shown.instance, table, publications).items():
            said[table, day, WATCHDOG] = verdict
    nothing, held_back = _days_without_data(shown, planned), _held_back_in(shown.instance, run)
    for each in planned:
        before = said.get((each.table, each.day, each.check))
        if before is None:
            if TableDay(each.table, parse_day(each.day)) in nothing:
                yield without_data(each.table, each.check, each.day)
            else:
                yield not_run(each.table, each.check, each.day, run, held_back=held_back)
            continue
        target = targets(shown.instance, each.table, [each.day]).get(each.day)
        yield again(before, target, f"not run in {run[:8]}, which ended before it")


def _held_back_in(instance: dg.DagsterInstance, run: str) -> bool:
    events = instance.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
    logged = (each.event_log_entry.dagster_event for each in events)
    said = [each.asset_check_evaluation_data for each in logged if each is not None]
    return any(not each.passed and each.severity is dg.AssetCheckSeverity.ERROR for each in said)


def _days_without_data(shown: ShownDays, planned: Sequence[ShownCheck]) -> set[TableDay]:
    asked = by_table({TableDay(each.table, parse_day(each.day)) for each in planned})
    days = set().union(*asked.values())
    steps = shown.tables.catalog.steps
    published = published_days(shown.log.day_states(shown.log.head(), shown.tables.catalog.table_names))
    there = {step.name: published.get(step.name, ()) for step in steps if step.external}
    landed = {step.name: _landed_days(shown, step, days) for step in steps if step.source}
    possible = days_with_data(steps, days, published, {**landed, **there})
    return {
        TableDay(table, day)
        for table, of_table in asked.items()
        for day in of_table
        if day not in possible.get(table, ()) and day not in published.get(table, ())
    }


def _landed_days(shown: ShownDays, step: Step, days: Collection[date]) -> Collection[date]:
    if shown.landing is None or step.source is None:
        return days
    try:
        return {day for day, files in shown.landing.paths(step.source).items() if files}
    except SourceUnreadable:
        return days


# ------------------------------------------------------------------ ends of partitions


def days_of_data(catalog: Catalog, settings: Settings) -> dict[str, DataDays] | None:
    zone, storage = LandingZone(settings.landing), Storage(str(settings.lakehouse))
    try:
        return data_days(catalog.datasets, zone, storage, clock.today())
    except (BackfillError, OSError):
        return None


def _ends_of_partitions(
    tables: PartitionedTables, context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any
) -> tuple[str, Any]:
    """Web server and daemon keep the partitions of load time: the location is reloaded, once for each change."""
    now = days_of_data(tables.catalog, backfill.settings)
    if now is None or now == tables.data:
        return "" if now is not None else "Landing zone or log cannot be read.", None
    wanted = {name: f"{days.first or ''}..{days.last or ''}" for name, days in sorted(now.items())}
    ends = ", ".join(f"{name} {days}" for name, days in wanted.items()) or "there is none"
    asked = seen != wanted and reload_code(
        context.code_location_origin, _RELOAD_TIMEOUT_SECONDS, _AFTER_THIS_TICK_SECONDS
    )
    next_step = "The code location is being loaded again." if asked else f"To see it here, {_BY_HAND}."
    return f"Data begins or ends elsewhere now: {ends}. {next_step}", wanted
