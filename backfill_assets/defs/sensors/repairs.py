"""The sensor ``repairs``: launches a native backfill of exactly the days that need repair."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

import dagster as dg

from backfill_assets.days import TableDay, parse_day
from backfill_assets.defs.checks import (
    MADE_OF,
    NOT_RUN,
    PHYSICAL,
    PUBLICATION,
    WATCHDOG,
    ChecksByTable,
    check_key,
    checks_by_table,
    gate_keys,
)
from backfill_assets.defs.dagster_internals import (
    SENSOR_NAME_TAG,
    BaseAssetGraph,
    CheckStatus,
    newest_evaluations,
    shown_checks,
)
from backfill_assets.defs.own_lakehouse import lakehouse_sensor
from backfill_assets.defs.partitions import Partitions
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import FORCE_TAG, VERSION_TAG
from backfill_assets.defs.under_way import busy_days, launch_backfill
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import build_order
from backfill_assets.plan.keep import days_of_open_plans
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.state.observed import observe
from backfill_assets.state.rolled_back import rollbacks
from backfill_assets.stream.lease import read_streams
from backfill_assets.upkeep.repair import Repair, RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import FailedWatch, HeldByGates, RepairContext, RunningStreams, StaleReason

SENSOR, REPAIR_TAG = "repairs", "backfill/repair"
EVERY_SECONDS = 60
_NEWEST = 1000


def repair_sensor(datasets: Sequence[Dataset], partitions: Mapping[str, Partitions]) -> dg.SensorDefinition:
    """On from the start: most wrong days are repaired before a person sees them."""
    steps = build_order([step for dataset in datasets for step in dataset.steps])

    def repair(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SkipReason:
        decision = decide(context.instance, backfill.storage, steps, partitions)
        for each in decision.launch:
            launch(context.instance, asset_graph(context), each)
        lines = list(_in_words(decision))
        for line in lines:
            context.log.info(line)
        return dg.SkipReason("\n".join(lines) or "Nothing to repair.")

    return lakehouse_sensor(
        SENSOR,
        "Builds days again that need repair (a failed watchdog, a foreign write, late rows, changed inputs, days that "
        "can be built and never were) and what is downstream: one backfill for each reason, at most three attempts. "
        "Each day is built with the version that it was published with. It leaves days that a running stream follows "
        "to it. To people it leaves days that their gates would hold back again, new code over history, and raw "
        "tables: the tick says what to do.",
        EVERY_SECONDS,
        repair,
    )


def decide(
    instance: dg.DagsterInstance, storage: Storage, steps: Sequence[Step], partitions: Mapping[str, Partitions]
) -> RepairDecision:
    """Reads what is under way before the lakehouse: a write that ends in between is waited for, not repeated."""
    busy = busy_days(instance, partitions)
    earlier = list(_earlier(instance))
    streams = running_streams(storage)
    observed = observe(storage, partitions)
    forced = {TableDay(table, day) for table, day, reason, _ in earlier if reason == StaleReason.WATCHDOG.value}
    return repairs_needed(
        RepairContext(
            observed.with_current(steps),
            observed,
            failed_watches=_failed_watches(instance, partitions, forced),
            attempts=Counter(evidence for _, _, _, evidence in earlier),
            busy=busy,
            failed_gates=_failed_gates(instance, checks_by_table(steps)),
            has_partition=lambda table, day: partitions[table].has_partition_key(day.isoformat()),
            today=datetime.now(UTC).date(),
            rollbacks=lambda: rollbacks(storage),
            streams=streams,
            rebuilt_by=days_of_open_plans(storage),
        )
    )


def running_streams(storage: Storage) -> RunningStreams:
    """Streams with a fresh lease. The log is asked only about days that are stale."""
    now = datetime.now(UTC)

    def published_at(publication: str) -> datetime | None:
        found = PublicationLog(storage).find_prepared(publication)
        return found[1] if found else None

    tables = [status.table for status in read_streams(storage) if status.is_running(now)]
    return RunningStreams(frozenset(tables), now, cache(published_at))


def launch(instance: dg.DagsterInstance, asset_graph: "BaseAssetGraph[Any]", repair: Repair) -> None:
    """One native backfill. Its days are kept with their evidence first: attempts are counted by them.

    Each run of it builds every day with the version that the day was published with.
    """
    kept = [(each.table, str(each.day), each.reason.value, each.evidence) for each in repair.troubles]
    instance.daemon_cursor_storage.set_cursor_values({_kept_under(repair.id): json.dumps(kept)})
    tags = {SENSOR_NAME_TAG: SENSOR, REPAIR_TAG: repair.id, VERSION_TAG: AS_PUBLISHED}
    launch_backfill(
        instance,
        asset_graph,
        repair.days,
        title=repair.title,
        tags=tags | ({FORCE_TAG: "watchdog"} if repair.force else {}),
        backfill_id=repair.id,
        description=repair.description,
    )


def asset_graph(context: dg.SensorEvaluationContext) -> "BaseAssetGraph[Any]":
    """The assets of the code location that the sensor belongs to."""
    if context.repository_def is None:
        raise InvalidRequest("The sensor was evaluated outside a code location.", hint="Evaluate it in the daemon.")
    return context.repository_def.asset_graph


def _in_words(decision: RepairDecision) -> Iterator[str]:
    yield from (f"Launched {repair.id}: {repair.title}" for repair in decision.launch)
    yield from (f"Waiting: {text}" for text in decision.waiting)
    yield from (f"For a person: {each}" for each in decision.for_people)


def _earlier(instance: dg.DagsterInstance) -> Iterator[tuple[str, date, str, str]]:
    """Table, day, reason and evidence of every earlier repair, in success or failure."""
    newest = instance.get_backfills(limit=_NEWEST)
    ids = {_kept_under(each.backfill_id) for each in newest if each.tags.get(REPAIR_TAG) == each.backfill_id}
    for kept in instance.daemon_cursor_storage.get_cursor_values(ids).values() if ids else ():
        for table, day, reason, evidence in json.loads(kept):
            yield table, date.fromisoformat(day), reason, evidence


def _kept_under(repair: str) -> str:
    return f"{REPAIR_TAG}/{repair}"


def _failed_watches(
    instance: dg.DagsterInstance, tables: Iterable[str], forced: Collection[TableDay]
) -> list[FailedWatch]:
    """A check that a repair has planned again, and that has not run since, still has its verdict from before."""
    failed = []
    for each in shown_checks(instance, [check_key(table, WATCHDOG) for table in tables]):
        key = TableDay(each.table, parse_day(each.day))
        if each.status is CheckStatus.FAILED or (each.status is CheckStatus.PLANNED and key in forced):
            failed += _newest_verdict(instance, key)
    return failed


def _newest_verdict(instance: dg.DagsterInstance, of: TableDay) -> list[FailedWatch]:
    """None where the asset's history was wiped since, and the watchdog has not looked again."""
    newest = newest_evaluations(instance, check_key(of.table, WATCHDOG), day=str(of.day))
    if not newest or newest[0].passed:
        return []
    values = {name: str(value.value) for name, value in newest[0].metadata.items()}
    return [FailedWatch(of.table, of.day, values.get(PUBLICATION, ""), values.get(PHYSICAL, ""))]


def _failed_gates(instance: dg.DagsterInstance, checks: ChecksByTable) -> dict[TableDay, HeldByGates]:
    """Days that a gate holds back; without those whose run was killed before: nothing was found wrong with them."""
    failed: dict[TableDay, HeldByGates] = {}
    for each in shown_checks(instance, gate_keys(checks)):
        if each.status is CheckStatus.FAILED:
            newest = newest_evaluations(instance, check_key(each.table, each.check), day=each.day)
            for verdict in (said for said in newest if NOT_RUN not in said.metadata and said.severity is _ERROR):
                key, made_of = TableDay(each.table, parse_day(each.day)), verdict.metadata.get(MADE_OF)
                before = [failed[key].words] if key in failed else []
                words = "; ".join([*before, verdict.description or each.check])
                failed[key] = HeldByGates(words, str(made_of.value) if made_of else "")
    return failed


_ERROR = dg.AssetCheckSeverity.ERROR
