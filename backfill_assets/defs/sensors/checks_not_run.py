"""Checks that a failed run did not come to: Dagster shows them as failed, although nothing was found wrong.

Each gets an evaluation: a published day what was said of it before, another one that its check was not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from backfill_assets.days import TableDay, parse_day
from backfill_assets.defs.events import evaluation
from backfill_assets.defs.kept_checks import again, newest_verdicts, not_run
from backfill_assets.defs.private_dagster import AssetCheckEvaluationTargetMaterializationData
from backfill_assets.defs.private_dagster import AssetCheckExecutionRecordStatus as Status
from backfill_assets.defs.specs import GATES, WATCHDOG
from backfill_assets.lakehouse.records import DayState
from backfill_assets.rebuild.lake import built_from_log
from backfill_assets.rebuild.outcome import BuiltDay

REPORTED_TAG = "backfill/checks_reported"
_NEWEST_RUNS = 40
Target = Callable[[str, str], AssetCheckEvaluationTargetMaterializationData | None]
"""The newest materialization of a day of a table."""
Report = Callable[[dg.AssetCheckEvaluation, str], None]
"""Reports an evaluation for a run."""


@dataclass(frozen=True)
class PublishedDays:
    """What the log knows of the tables that may have had checks planned."""

    states: Mapping[TableDay, DayState]
    with_kept_rules: Callable[[Sequence[BuiltDay]], Sequence[BuiltDay]]
    """Adds to published days what their gates said when they were published."""


def report_checks_not_run(
    instance: dg.DagsterInstance,
    tables: Sequence[str],
    published: Callable[[], PublishedDays],
    target: Target,
    report: Report,
) -> int:
    """Report the checks that the runs that failed last left planned, once for each run; returns how many."""
    reported = 0
    for run in _unreported(instance):
        planned = list(_planned(instance, run, tables))
        for verdict in _evaluations(instance, planned, run.run_id, published, target) if planned else ():
            report(verdict, run.run_id)
        instance.add_run_tags(run.run_id, {REPORTED_TAG: str(len(planned))})
        reported += len(planned)
    return reported


def _unreported(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The runs that failed last, however many failed at once.

    By when they changed: one that began long ago may have failed just now. To have been reported is a change, too.
    """
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
    many = _NEWEST_RUNS
    while True:
        runs = [each.dagster_run for each in instance.get_run_records(ended, limit=many, order_by="update_timestamp")]
        if len(runs) < many or all(REPORTED_TAG in run.tags for run in runs[many // 2 :]):
            return [run for run in runs if REPORTED_TAG not in run.tags]
        many *= 2


def _planned(instance: dg.DagsterInstance, run: dg.DagsterRun, tables: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Table, check and day of each check whose newest attempt was planned by ``run`` and never came.

    A run of a whole job, as a schedule launches it, selects nothing: it may have planned checks of any table.
    """
    selected = None if run.asset_selection is None else {key.to_user_string() for key in run.asset_selection}
    chosen = [table for table in tables if selected is None or table in selected]
    keys = [dg.AssetCheckKey(dg.AssetKey(table), check) for table in chosen for check in (GATES, WATCHDOG)]
    for info in instance.event_log_storage.get_asset_check_partition_info(keys=keys) if keys else ():
        is_planned = info.latest_execution_status is Status.PLANNED
        if is_planned and info.latest_planned_run_id == run.run_id and info.partition_key:
            yield info.check_key.asset_key.to_user_string(), info.check_key.name, info.partition_key


def _evaluations(
    instance: dg.DagsterInstance,
    planned: Sequence[tuple[str, str, str]],
    run: str,
    published: Callable[[], PublishedDays],
    target: Target,
) -> Iterator[dg.AssetCheckEvaluation]:
    known = published()
    states = {
        (table, day): state
        for table, _, day in planned
        if (state := known.states.get(TableDay(table, parse_day(day)))) and state.content is not None
    }
    days = known.with_kept_rules([built_from_log(state, {}, {}, reused=True) for state in states.values()])
    gates = {(day.table, str(day.day)): day for day in days}
    verdicts = {
        (table, day): verdict
        for table in {table for table, _, _ in planned}
        for day, verdict in newest_verdicts(
            instance, table, {day: state.publication for (name, day), state in states.items() if name == table}
        ).items()
    }
    why = f"not run in {run[:8]}, which ended before it"
    for table, check, day in planned:
        key = (table, day)
        if check == GATES and key in gates:
            yield again(evaluation(gates[key]), target(table, day), why)
        elif check == WATCHDOG and key in verdicts:
            yield again(verdicts[key], target(table, day), why)
        else:
            yield not_run(table, check, day, run)
