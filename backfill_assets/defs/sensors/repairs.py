"""The sensor ``repairs``: launches backfills of the days that need one, and keeps incidents. Each step is
idempotent.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from itertools import starmap
from typing import Any

import dagster as dg

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay, parse_day
from backfill_assets.defs.campaigns.pages import Launchpads
from backfill_assets.defs.checks import (
    AS_DECLARED,
    AS_SENT,
    AS_USUAL,
    BESIDE,
    BROKEN,
    DELIVERED,
    DELIVERED_AS_USUAL,
    HELD,
    LOST,
    MADE_OF,
    NOT_RUN,
    PHYSICAL,
    PUBLICATION,
    RULES,
    WATCHDOG,
    check_key,
    gate_keys,
)
from backfill_assets.defs.dagster_internals import (
    PRIORITY_TAG,
    RUN_KEY_TAG,
    SENSOR_NAME_TAG,
    BaseAssetGraph,
    CheckStatus,
    Said,
    newest_said,
    shown_checks,
)
from backfill_assets.defs.own_lakehouse import lakehouse_sensor
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import FORCE_TAG, REPAIR_TAG, VERSION_TAG
from backfill_assets.defs.under_way import busy_days, is_backfill_alive, launch_backfill, trip_backfills, where_launched
from backfill_assets.defs.upkeep import RESTORE as RESTORE_JOB
from backfill_assets.defs.upkeep import RESTORE_OP
from backfill_assets.defs.watchdogs import JOB, STEP, newest_verdicts
from backfill_assets.difference.find import last_difference
from backfill_assets.difference.letter import headline
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.plan.keep import days_of_open_plans, plan_and_keep
from backfill_assets.plan.records import PlanRequest, as_ranges
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.state.campaigns import NewestEntries
from backfill_assets.state.edited_logic import contents_of, edited_logic
from backfill_assets.state.observed import observe_each
from backfill_assets.state.rolled_back import rollbacks
from backfill_assets.stream.lease import read_streams
from backfill_assets.text import format_range
from backfill_assets.upkeep.bounds import RepairBounds, Spending
from backfill_assets.upkeep.effect import Addresses
from backfill_assets.upkeep.failed_checks import Disagreement, FailedWatch, HeldByGates, NotRun
from backfill_assets.upkeep.heal import heal
from backfill_assets.upkeep.incident_course import PROVEN_BY_WATCHDOG, launches
from backfill_assets.upkeep.incidents import Incident, IncidentBook, RepairAttempt, by_days, spent_since
from backfill_assets.upkeep.stream_holds import held_by_streams
from backfill_assets.upkeep.trouble import RepairContext, RunningStreams

SENSOR, RESTORE_TAG = "repairs", "backfill/restore"
EVERY_SECONDS = 60
SUSPICIONS = (AS_USUAL, AS_SENT, AS_DECLARED, DELIVERED, DELIVERED_AS_USUAL)
_AFTER_ALL_ELSE = "-10"
_A_DAY = timedelta(days=1)


def repair_sensor(tables: PartitionedTables) -> dg.SensorDefinition:
    def repair(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult:
        hands = _Hands(context.instance, backfill, tables, asset_graph(context))
        stopped = trip_backfills(context.instance, backfill)
        left_out = frozenset[str]().union(*(each.names for each in tables.catalog.left_out))
        healed = heal(backfill.storage, hands, clock.now(), _addresses(context, backfill, tables), left_out)
        launched = [each.id for each in healed.decision.launch if not each.restores]
        lines = [*stopped, *healed.lines(), *where_launched(launched, backfill.settings.ui or "")]
        for line in lines:
            context.log.info(line)
        # A repeated request would show the tick as "0 runs requested", without the launches.
        requests = [_proof(attempt, days) for attempt, days in healed.proofs.items()]
        if requests := [each for each in requests if not _is_asked_for(context.instance, each)]:
            return dg.SensorResult(run_requests=requests)
        return dg.SensorResult(skip_reason="\n".join(lines) or "Nothing to repair.")

    return lakehouse_sensor(
        SENSOR,
        "Builds days again that need repair (a failed watchdog, a foreign write, late rows, changed inputs, days that "
        "can be built and never were) and what is downstream: one backfill for each reason, within the bounds of "
        "BACKFILL_REPAIRS. Each day is built with the version that it was published with; then its check is asked "
        "again. It leaves days that a running stream or an open plan follows to them. What no rebuild puts right it "
        "leaves to people: backfill incident list and the asset incidents have all of it.",
        EVERY_SECONDS,
        repair,
        job_name=JOB,
    )


def restore_sensor() -> dg.SensorDefinition:
    def restore(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult:
        asked = [each for each in launches(IncidentBook(backfill.storage).open()) if each.restores]
        requests = [
            dg.RunRequest(
                run_key=each.id,
                run_config={"ops": {RESTORE_OP: {"config": {"table": table, "days": [str(day) for day in days]}}}},
                tags={RESTORE_TAG: each.id},
            )
            for each in asked
            for table, days in each.days.items()
        ]
        return dg.SensorResult(run_requests=requests) if asked else dg.SensorResult(skip_reason="Raw has lost nothing.")

    return lakehouse_sensor(
        "restores_raw",
        "Has files that raw has lost read from landed files once more, as the incidents of the sensor repairs ask.",
        EVERY_SECONDS,
        restore,
        job_name=RESTORE_JOB,
    )


def _addresses(context: dg.SensorEvaluationContext, backfill: Backfill, tables: PartitionedTables) -> Addresses:
    origin = context.code_location_origin
    pads = Launchpads(origin.location_name) if origin else Launchpads()

    def owners(table: str) -> tuple[str, ...]:
        return tables.catalog.dataset_of(table).owners if table in tables.by_table else ()

    def difference(plan: str) -> str:
        found = last_difference(backfill.storage, plan)
        return headline(found) if found else ""

    return Addresses(backfill.settings.ui or "", pads.start, owners, difference)


@dataclass(frozen=True)
class _Hands:
    instance: dg.DagsterInstance
    backfill: Backfill
    tables: PartitionedTables
    graph: "BaseAssetGraph[Any]"

    def launch(self, attempt: RepairAttempt) -> None:
        if not attempt.restores:  # restore_sensor requests these
            launch(self.instance, self.graph, attempt, self.tables)

    def ended(self, attempts: Iterable[RepairAttempt]) -> dict[str, str]:
        how = {each.id: self._how_run_ended(each) if each.restores else self._how_ended(each) for each in attempts}
        return {id: ended.lower().replace("_", " ") for id, ended in how.items() if ended}

    def _how_ended(self, attempt: RepairAttempt) -> str:
        launched = self.instance.get_backfill(attempt.id)
        is_over = launched and not is_backfill_alive(self.instance, launched, clock.now())
        return launched.status.value if launched and is_over else ""

    def _how_run_ended(self, attempt: RepairAttempt) -> str:
        runs = self.instance.get_runs(dg.RunsFilter(tags={RESTORE_TAG: attempt.id}), limit=1)
        return runs[0].status.value if runs and runs[0].is_finished else ""

    def look(self, known: Sequence[Incident]) -> RepairContext:
        return look(self.instance, self.backfill, self.tables, known)

    def verdicts(self, table: str, publications: Mapping[str, str]) -> dict[date, bool]:
        said = newest_verdicts(self.instance, table, publications)
        return {parse_day(day): verdict.passed for day, verdict in said.items()}

    def dataset_of(self, table: str) -> str:
        return self.tables.catalog.dataset_of(table).name if table in self.tables.by_table else ""

    def plan(self, incident: Incident) -> str:
        days, step = incident.days, self.backfill.catalog.step(incident.table)
        whole = DayRange(days[0], step.cadence.period(days[-1]).last)
        asked = PlanRequest(
            target=incident.table,
            days=format_range(whole),
            leaves=as_ranges(set(step.cadence.starts(whole)).difference(days)),
            force=incident.cause in PROVEN_BY_WATCHDOG,
        )
        return plan_and_keep(self.backfill.settings, self.backfill.catalog, asked)[0].id


def _proof(attempt: str, days: Mapping[str, Sequence[Any]]) -> dg.RunRequest:
    wanted = sorted({day for dates in days.values() for day in dates})
    config = {"days": ",".join(map(str, wanted)), "tables": sorted(days)}
    return dg.RunRequest(
        run_key=f"proof-{attempt}", run_config={"ops": {STEP: {"config": config}}}, tags={REPAIR_TAG: attempt}
    )


def _is_asked_for(instance: dg.DagsterInstance, request: dg.RunRequest) -> bool:
    started = dg.RunsFilter(tags={RUN_KEY_TAG: str(request.run_key), SENSOR_NAME_TAG: SENSOR})
    return bool(instance.get_runs(started, limit=1))


def look(
    instance: dg.DagsterInstance,
    backfill: Backfill,
    tables: PartitionedTables,
    known: Sequence[Incident],
    newest: NewestEntries | None = None,
) -> RepairContext:
    """Reads runs before the lakehouse: a write that ends in between is not repeated."""
    storage, now, names = backfill.storage, clock.now(), tables.by_table
    busy, streams, book = busy_days(instance, names), running_streams(storage, now), IncidentBook(storage)
    observed = observe_each(storage, tables.catalog.table_names)
    forced = {
        TableDay(table, day)
        for incident in known
        for attempt in incident.attempts
        if attempt.force
        for table, days in attempt.days.items()
        for day in days
    }
    watchdogs = [check_key(table, WATCHDOG) for table in names]
    gates, not_run = _failed_gates(instance, gate_keys(tables.catalog.steps))
    suspicions, judged_before = _suspicions(instance, names, observed.states)
    steps = observed.with_current(tables.catalog.steps)
    return RepairContext(
        steps,
        observed,
        failed_watches=list(starmap(_failed_watch, _said_of_failed(instance, watchdogs, forced))),
        incidents=by_days(known),
        bounds=RepairBounds.parse(backfill.settings.repairs),
        spending=Spending(
            lately=spent_since((*known, *book.closed_since(now - _A_DAY)), now - _A_DAY),
            cores=os.cpu_count() or 1,
            core_hour_price=backfill.settings.core_hour_price,
        ),
        now=now,
        suspicions=suspicions,
        judged_before=judged_before,
        closings=book.closings(),
        not_run=not_run,
        busy=busy,
        failed_gates=gates,
        held_by_streams=held_by_streams(storage, observed.states, steps, now),
        is_built=tables.builds,
        rollbacks=rollbacks(storage),
        streams=streams,
        rebuilt_by=days_of_open_plans(storage, newest),
        edited=edited_logic(storage, tables.catalog.steps, contents_of(observed.states)),
    )


def running_streams(storage: Storage, now: datetime) -> RunningStreams:
    def published_at(publication: str) -> datetime | None:
        found = PublicationLog(storage).find_prepared(publication)
        return found[1] if found else None

    tables = [status.table for status in read_streams(storage) if status.is_running(now)]
    return RunningStreams(frozenset(tables), cache(published_at))


def launch(
    instance: dg.DagsterInstance, graph: "BaseAssetGraph[Any]", attempt: RepairAttempt, tables: PartitionedTables
) -> None:
    days = {table: of_table for table, of_table in attempt.days.items() if table in tables.by_table}
    if not days:
        return
    tags = {
        SENSOR_NAME_TAG: SENSOR,
        REPAIR_TAG: attempt.id,
        VERSION_TAG: AS_PUBLISHED,
        PRIORITY_TAG: _AFTER_ALL_ELSE,
    }
    launch_backfill(
        instance,
        graph,
        days,
        title=attempt.title,
        earlier=tables.without_partition(days),
        tags=tags | ({FORCE_TAG: "watchdog"} if attempt.force else {}),
        backfill_id=attempt.id,
        description=attempt.description,
    )


def asset_graph(context: dg.SensorEvaluationContext) -> "BaseAssetGraph[Any]":
    if context.repository_def is None:
        raise InvalidRequest("The sensor was evaluated outside a code location.", hint="Evaluate it in the daemon.")
    return context.repository_def.asset_graph


def _said_of_failed(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey], forced: Collection[TableDay] = ()
) -> Iterator[tuple[TableDay, Said]]:
    """A check of a ``forced`` day that has not run keeps its verdict."""
    for each in shown_checks(instance, keys):
        key = TableDay(each.table, parse_day(each.day))
        if each.status is CheckStatus.FAILED or (each.status is CheckStatus.PLANNED and key in forced):
            newest = newest_said(instance, check_key(each.table, each.check), day=each.day)
            yield from ((key, said) for said in newest if not said.verdict.passed)


def _failed_watch(of: TableDay, said: Said) -> FailedWatch:
    values = {name: str(value.value) for name, value in said.verdict.metadata.items()}
    broken, lost = values.get(BROKEN), bool(values.get(LOST))
    more = {"broken": tuple(broken.split(","))} if broken else {}
    publication, physical, beside = (values.get(name, "") for name in (PUBLICATION, PHYSICAL, BESIDE))
    apart = tuple(_disagreements(said.verdict))
    return FailedWatch(of.table, of.day, publication, physical, lost=lost, beside=beside, disagreements=apart, **more)


def _disagreements(said: dg.AssetCheckEvaluation) -> Iterator[Disagreement]:
    rules = said.metadata.get(RULES)
    for record in rules.records if isinstance(rules, dg.TableMetadataValue) else ():
        if not record.data["passed"]:
            yield Disagreement(*(str(record.data[name]) for name in ("rule", "expected", "observed")))


def _suspicions(
    instance: dg.DagsterInstance, tables: Iterable[str], states: Mapping[TableDay, DayState]
) -> tuple[dict[TableDay, dict[str, str]], set[TableDay]]:
    found: dict[TableDay, dict[str, str]] = {}
    before: set[TableDay] = set()
    for key, said in _said_of_failed(instance, [check_key(table, check) for table in tables for check in SUSPICIONS]):
        name, judged = said.verdict.check_name, said.verdict.metadata.get(PUBLICATION)
        found.setdefault(key, {})[name] = said.verdict.description or name
        if judged and key in states and str(judged.value) != states[key].publication:
            before.add(key)
    return found, before


def _failed_gates(
    instance: dg.DagsterInstance, gates: Sequence[dg.AssetCheckKey]
) -> tuple[dict[TableDay, HeldByGates], dict[TableDay, NotRun]]:
    failed: dict[TableDay, HeldByGates] = {}
    not_run: dict[TableDay, NotRun] = {}
    for key, said in _said_of_failed(instance, gates):
        verdict = said.verdict
        if NOT_RUN in verdict.metadata:
            not_run[key] = NotRun(str(verdict.metadata[NOT_RUN].value), HELD in verdict.metadata)
        elif verdict.severity is dg.AssetCheckSeverity.ERROR:
            made_of = verdict.metadata.get(MADE_OF)
            before = [failed[key].words] if key in failed else []
            words = "; ".join([*before, verdict.description or verdict.check_name])
            failed[key] = HeldByGates(words, str(made_of.value) if made_of else "", said.run)
    return failed, not_run
