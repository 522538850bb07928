"""Corrects Dagster's partition statuses where they differ from the publication log.

A run reports each day that it publishes to Dagster. If it is killed between publishing and reporting, the day is
published and shown as missing or failed. A rollback has the same effect, and a late row in a day outside its run.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import NAMESPACE_URL, uuid5

import dagster as dg

from backfill_assets.days import TableDay, parse_day
from backfill_assets.defs.events import evaluation
from backfill_assets.defs.instance.guard import why_not_own
from backfill_assets.defs.metadata import day_metadata
from backfill_assets.defs.partitions import Partitions
from backfill_assets.defs.private_dagster import (
    CODE_VERSION_TAG,
    RUNLESS_JOB_NAME,
    AssetCheckEvaluationTargetMaterializationData,
    DagsterEvent,
)
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.sensors.checks_not_run import PublishedDays, report_checks_not_run
from backfill_assets.defs.specs import GATES
from backfill_assets.lakehouse.records import DayState
from backfill_assets.publication_log.log import PublicationLog
from backfill_assets.rebuild.kept_verdicts import with_kept_rules
from backfill_assets.rebuild.lake import built_from_log
from backfill_assets.rebuild.outcome import BuiltDay
from backfill_assets.text import format_count
from backfill_assets.upkeep.partition_statuses import Corrections, statuses_to_put_right

SENSOR = "partition_statuses"
REPORTED_BY = "told_by"
_EVERY_SECONDS = 60
_PATIENCE = timedelta(minutes=10)
"""A run reports what it has published within seconds; a run that has not reported it by then was killed."""
PartitionStatuses = Mapping[TableDay, str]


def partition_status_sensor(tables: Mapping[str, Partitions]) -> dg.SensorDefinition:
    """Launches nothing; it is on from the start, because what Dagster shows must be true."""

    @dg.sensor(
        name=SENSOR,
        description=(
            "Reports published days to Dagster that no run has reported: after a killed run, a rollback, or late rows; "
            "and checks that a failed run did not come to, as not run. Launches nothing."
        ),
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def partition_statuses(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult | dg.SkipReason:
        log = backfill.publications()
        if log is None:
            return dg.SkipReason("Nothing was published yet.")
        if refused := why_not_own(context.instance, backfill.storage):
            return dg.SkipReason(refused)
        identity = log.identity
        settled = settled_until(context.cursor, tables, identity)
        within = settled_within(context.cursor, tables, identity)
        corrections = put_statuses_right(context.instance, log, tables, settled=settled, within=within)
        count = len(corrections.published) + len(corrections.withdrawn)
        reason = (
            f"Reported {format_count(count, 'day')} to Dagster."
            if count
            else "Partition statuses and publication log agree."
        )
        if checks := put_checks_right(context.instance, log, tables):
            reason += f" Reported {format_count(checks, 'check')} that failed runs did not come to."
        place = f" {corrections.within}" if corrections.within else ""
        return dg.SensorResult(skip_reason=reason, cursor=f"{corrections.settled} {_ends(tables, identity)}{place}")

    return partition_statuses


def settled_until(cursor: str | None, tables: Mapping[str, Partitions], log: str = "") -> int:
    """The entry that the cursor has come to; the beginning if partitions have grown since, or ``log`` is another one.

    Days that had no partition then were passed over. Entries of a log that was made again have numbers of before.
    """
    settled, ends, _ = _parts(cursor)
    return int(settled) if ends in ("", _ends(tables, log)) else -1


def settled_within(cursor: str | None, tables: Mapping[str, Partitions], log: str = "") -> TableDay | None:
    """The table and day that the cursor has come to in the entry after that; None at its beginning."""
    _, ends, place = _parts(cursor)
    table, _, day = place.partition(" ")
    return TableDay(table, parse_day(day)) if day and ends == _ends(tables, log) else None


def _parts(cursor: str | None) -> tuple[str, str, str]:
    settled, _, rest = (cursor or "-1").partition(" ")
    ends, _, place = rest.partition(" ")
    return settled, ends, place


def _ends(tables: Mapping[str, Partitions], log: str = "") -> str:
    """Of partitions and ``log``: one table may grow to where another one ends already, so each table's end is in it."""
    ends = {name: str(partitions.end.date()) if partitions.end else "open" for name, partitions in tables.items()}
    return sha256(f"{log}{json.dumps(ends, sort_keys=True)}".encode()).hexdigest()[:16]


def put_statuses_right(
    instance: dg.DagsterInstance,
    log: PublicationLog,
    tables: Mapping[str, Partitions],
    *,
    settled: int = -1,
    within: TableDay | None = None,
    now: datetime | None = None,
) -> Corrections:
    """Report a materialization and its gates for each day that Dagster does not show.

    Of days published after ``settled`` and ``within``, as :func:`statuses_to_put_right` has them.
    """
    known = [
        state
        for state in log.day_states(log.head(), tables).values()
        if state.sequence > settled and tables[state.table].has_partition_key(str(state.day))
    ]
    shown = {
        key: publication for table in tables for key, publication in _shown_publications(instance, table, known).items()
    }
    differing = {
        state.publication for state in known if shown.get(TableDay(state.table, state.day)) != state.publication
    }
    runs = {name: _run_behind(instance, log, name, now or datetime.now(UTC)) for name in sorted(differing)}
    under_way = {name for name, run in runs.items() if run.under_way}
    corrections = statuses_to_put_right(known, shown, under_way, settled=settled, within=within)
    for day in _built(log, _inputs_first(corrections.published, tables)):
        _report_day(instance, day, runs[day.publication].run_id)
    for state in corrections.withdrawn:
        _report_check(instance, _withdrawn_gates(state), runs[state.publication].run_id)
    return corrections


def report_publication(
    instance: dg.DagsterInstance,
    log: PublicationLog,
    tables: Mapping[str, Partitions],
    publication: str,
    run_id: str,
) -> int:
    """Report every day whose newest publication is ``publication``, for a run that published other assets' days.

    Of days that it withdrew, those that Dagster shows.
    """
    states = [
        state
        for state in log.day_states(log.head(), tables).values()
        if state.publication == publication and tables[state.table].has_partition_key(str(state.day))
    ]
    shown = {key for table in tables for key in _shown_publications(instance, table, states)}
    published = [state for state in states if state.content is not None]
    withdrawn = [state for state in states if state.content is None and TableDay(state.table, state.day) in shown]
    for day in _built(log, _inputs_first(published, tables)):
        _report_day(instance, day, run_id, "the campaign that published it")
    for state in withdrawn:
        _report_check(instance, _withdrawn_gates(state), run_id)
    return len(published) + len(withdrawn)


def _built(log: PublicationLog, states: Iterable[DayState]) -> list[BuiltDay]:
    """What the log knows of the days, with what their gates said when they were published."""
    return with_kept_rules(log.storage, log, [built_from_log(state, {}, {}, reused=True) for state in states])


def _inputs_first(states: Iterable[DayState], tables: Iterable[str]) -> list[DayState]:
    """In the order of ``tables``: a day that is older than its inputs is outdated to Dagster."""
    order = {table: place for place, table in enumerate(tables)}
    return sorted(states, key=lambda state: (order[state.table], state.day))


def _shown_publications(instance: dg.DagsterInstance, table: str, states: Iterable[DayState]) -> PartitionStatuses:
    """The publication that the newest materialization of each day names; empty for one that names none."""
    days = {str(state.day) for state in states if state.table == table}
    newest = _newest_ids(instance, table, days)
    if not newest:
        return {}
    chosen = dg.AssetRecordsFilter(dg.AssetKey(table), storage_ids=newest)
    materializations = instance.fetch_materializations(chosen, limit=len(newest))
    return {
        TableDay(table, parse_day(str(record.partition_key))): str(
            record.asset_materialization.metadata["publication"].value
        )
        if record.asset_materialization and "publication" in record.asset_materialization.metadata
        else ""
        for record in materializations.records
    }


def _newest_ids(instance: dg.DagsterInstance, table: str, days: Collection[str]) -> list[int]:
    if not days:
        return []
    newest = instance.event_log_storage.get_latest_storage_id_by_partition(
        dg.AssetKey(table), dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    return [storage_id for day, storage_id in newest.items() if day in days]


@dataclass(frozen=True)
class _RunBehind:
    """The run that published; what was published without Dagster, as by a rollback, gets a made-up id."""

    run_id: str
    under_way: bool


def _run_behind(instance: dg.DagsterInstance, log: PublicationLog, publication: str, now: datetime) -> _RunBehind:
    entry = log.find_prepared(publication)
    run = instance.get_run_by_id(entry[0].publication.provenance.run) if entry else None
    if entry is None or run is None:
        return _RunBehind(str(uuid5(NAMESPACE_URL, publication)), under_way=False)
    return _RunBehind(run.run_id, under_way=not run.is_finished and now - entry[1] < _PATIENCE)


def _report_day(
    instance: dg.DagsterInstance,
    day: BuiltDay,
    run_id: str,
    by: str = f"the sensor {SENSOR}: no run reported this publication to Dagster",
) -> None:
    reporter = dg.MetadataValue.text(by)
    instance.report_runless_asset_event(
        dg.AssetMaterialization(
            dg.AssetKey(day.table),
            partition=str(day.day),
            metadata={**day_metadata(day), REPORTED_BY: reporter},
            tags={CODE_VERSION_TAG: day.code_version},
        )
    )
    target = _newest_materialization(instance, day.table, str(day.day))
    _report_check(instance, evaluation(day, target), run_id)


def _report_check(instance: dg.DagsterInstance, check: dg.AssetCheckEvaluation, run_id: str) -> None:
    # Dagster keeps one evaluation of a check for each partition and run. "No run" counts as a run: a second
    # evaluation without a run would be refused.
    event = DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
        event_specific_data=check,
        job_name=RUNLESS_JOB_NAME,
    )
    instance.report_dagster_event(event, run_id=run_id)


def _newest_materialization(
    instance: dg.DagsterInstance, table: str, day: str
) -> AssetCheckEvaluationTargetMaterializationData | None:
    chosen = dg.AssetRecordsFilter(dg.AssetKey(table), asset_partitions=[day])
    for record in instance.fetch_materializations(chosen, limit=1).records:
        return AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
    return None


def put_checks_right(instance: dg.DagsterInstance, log: PublicationLog, tables: Mapping[str, Partitions]) -> int:
    """Report the checks that failed runs did not come to; returns how many."""

    def published() -> PublishedDays:
        states = log.day_states(log.head(), tables)
        return PublishedDays(states, lambda days: with_kept_rules(log.storage, log, days))

    return report_checks_not_run(
        instance,
        list(tables),
        published,
        target=lambda table, day: _newest_materialization(instance, table, day),
        report=lambda check, run_id: _report_check(instance, check, run_id),
    )


def _withdrawn_gates(state: DayState) -> dg.AssetCheckEvaluation:
    """Dagster cannot forget the materialization of one partition: its gates say that nothing is there."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(state.table),
        check_name=GATES,
        passed=False,
        blocking=True,
        partition=str(state.day),
        description=f"Nothing is published for this day since {state.publication} withdrew it. Build it again.",
    )
