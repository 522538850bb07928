"""Checks that a run does not evaluate again: Dagster plans them for every day of the run, and would show none at all.

A day that a run finds unchanged keeps its watchdog's verdict, if that is on what is published now. A check that a run
was killed before says that it was not run, and shows what was said before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import dagster as dg

from backfill_assets.defs.private_dagster import (
    AssetCheckEvaluationTargetMaterializationData,
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
    PartitionKeyFilter,
)
from backfill_assets.defs.specs import PUBLICATION, WATCHDOG
from backfill_assets.rebuild.outcome import BuiltDay

NOT_RUN = "not_run"
"""In the metadata of a check that was not run: the run that ended before it."""
Targets = Mapping[str, AssetCheckEvaluationTargetMaterializationData]
"""The newest materializations, by day."""
_EVALUATED = {AssetCheckExecutionRecordStatus.FAILED, AssetCheckExecutionRecordStatus.SUCCEEDED}
_LEAST_LOOKED_AT, _EVALUATIONS_A_DAY = 500, 4


def unchanged_watchdogs(
    instance: dg.DagsterInstance, table: str, days: Sequence[BuiltDay], targets: Targets
) -> Iterator[dg.AssetCheckEvaluation]:
    """The verdicts of the watchdog on those of ``days`` that were reused, once more."""
    publications = {str(day.day): day.publication for day in days if day.reused}
    for day, verdict in newest_verdicts(instance, table, publications).items():
        yield again(verdict, targets.get(day), "unchanged since it was read")


def newest_verdicts(
    instance: dg.DagsterInstance, table: str, publications: Mapping[str, str]
) -> dict[str, dg.AssetCheckEvaluation]:
    """The newest verdict of the watchdog of ``table``, by day, where it is on the publication named here."""
    if not publications:
        return {}
    key, storage = dg.AssetCheckKey(dg.AssetKey(table), WATCHDOG), instance.event_log_storage
    limit = max(_LEAST_LOOKED_AT, _EVALUATIONS_A_DAY * len(publications))
    newest = storage.get_asset_check_execution_history(key, limit, status=_EVALUATED)
    found = _first_of_each_day(newest, publications)
    # Each night reads a part of all days: what was said of one may lie behind all that was said of others since.
    for day in publications if len(newest) == limit else ():
        if day not in found:
            alone = PartitionKeyFilter(key=day)
            earlier = storage.get_asset_check_execution_history(key, 1, status=_EVALUATED, partition_filter=alone)
            found |= _first_of_each_day(earlier, publications)
    return {day: verdict for day, verdict in found.items() if _publication_of(verdict) == publications[day]}


def _first_of_each_day(
    records: Iterable[AssetCheckExecutionRecord], days: Collection[str]
) -> dict[str, dg.AssetCheckEvaluation]:
    found: dict[str, dg.AssetCheckEvaluation] = {}
    for record in records:
        event = record.event.dagster_event if record.event else None
        if event and (verdict := event.asset_check_evaluation_data).partition in days:
            found.setdefault(str(verdict.partition), verdict)
    return found


def again(
    verdict: dg.AssetCheckEvaluation, target: AssetCheckEvaluationTargetMaterializationData | None, why: str
) -> dg.AssetCheckEvaluation:
    """``verdict`` for another materialization of the same content; its words begin with ``why`` it is shown again."""
    return dg.AssetCheckEvaluation(
        asset_key=verdict.asset_key,
        check_name=verdict.check_name,
        passed=verdict.passed,
        severity=verdict.severity,
        blocking=verdict.blocking,
        partition=verdict.partition,
        description=_once(why, verdict.description or ""),
        metadata=verdict.metadata,
        target_materialization_data=target,
    )


def not_run(table: str, check: str, day: str, run: str) -> dg.AssetCheckEvaluation:
    """A warning, since nothing was found wrong."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(table),
        check_name=check,
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        blocking=False,
        partition=day,
        description=f"Not run: the run {run[:8]} ended before it. Launch the day again.",
        metadata={NOT_RUN: dg.MetadataValue.dagster_run(run)},
    )


def was_not_run(verdict: dg.AssetCheckEvaluation) -> bool:
    return NOT_RUN in verdict.metadata


def _publication_of(verdict: dg.AssetCheckEvaluation) -> str:
    named = verdict.metadata.get(PUBLICATION)
    return str(named.value) if named else ""


def _once(why: str, words: str) -> str:
    """A day that is unchanged for the tenth time does not say so ten times."""
    return words if words.startswith(f"{why}: ") else f"{why}: {words}"
