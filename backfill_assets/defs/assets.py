"""One Dagster asset for each table: builds the requested days, publishes them, and emits what came back."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date

import dagster as dg

from backfill_assets.days import parse_day
from backfill_assets.defs.columns import lineage_metadata
from backfill_assets.defs.events import (
    evaluation,
    gate_failure,
    late_days,
    plain_failure,
    rolled_back_days,
    table_line,
)
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.kept_checks import unchanged_watchdogs
from backfill_assets.defs.look_back import STALE_LATER_DAYS, later_days_metadata, missing_earlier_days
from backfill_assets.defs.metadata import day_metadata
from backfill_assets.defs.partitions import Chain
from backfill_assets.defs.private_dagster import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
    AssetCheckEvaluationTargetMaterializationData,
)
from backfill_assets.defs.resources import Backfill, run_info
from backfill_assets.defs.specs import GATES, WATCHDOG, asset_specs, check_specs
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Dataset, Step, Table
from backfill_assets.model.graph import later_readers, looks_back_to
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay, DaysFailed
from backfill_assets.text import format_ranges

LATE_DAYS_TAG = "backfill/late_days"
FORCE_TAG = "backfill/force"
"""A run with this tag computes its days again even if nothing they are made of has changed."""
VERIFY_TAG = "backfill/verify"
"""A run with this tag also computes whole the days that a stream has extended, and publishes those that differ."""
VERSION_TAG = "backfill/version"
"""The version that a run builds with; ``as published`` for the one that each day was published with."""
Metadata = Mapping[str, dg.MetadataValue]
Event = dg.MaterializeResult[None] | dg.AssetCheckEvaluation | dg.Output[None]


class BuildOptions(dg.Config):
    """Run configuration of a step; empty means the run's tag, or else the current version."""

    version: str = ""
    force: bool = False


def step_assets(
    step: Step,
    dataset: Dataset,
    chain: Chain,
    table_named: Callable[[str], Table],
    steps: Sequence[Step],
    pool: str | None = None,
) -> dg.AssetsDefinition:
    """The tables of ``step`` as assets that are always materialized together, with their gates.

    ``table_named`` knows the tables that it reads, also those of other datasets. ``steps`` are those of all datasets,
    in build order: some of them look back to the tables of ``step``. Runs in one ``pool`` share its limit.
    """
    lineage = lineage_metadata(step, table_named)
    readers = [each for each in steps if looks_back_to(each, step.table_names)]

    @dg.multi_asset(
        name=step.name,
        specs=asset_specs(step, dataset, chain, later_readers(steps)),
        check_specs=check_specs(step, chain),
        partitions_def=chain.of(step),
        backfill_policy=chain.policy,
        can_subset=False,
        pool=pool,
    )
    def build_days(context: dg.AssetExecutionContext, config: BuildOptions, backfill: Backfill) -> Iterator[Event]:
        try:
            _build_earlier_days(context, step, steps, backfill)
            result = _build(context, step, config, backfill)
        except DaysFailed as error:
            yield from (evaluation(day) for day in error.failed)
            raise gate_failure(error) from None
        except BackfillError as error:
            raise plain_failure(error) from None
        _report_stale_later_days(context, backfill.storage, readers, result)
        result = replace(result, days=tuple(backfill.with_kept_rules(result.days)))
        yield from _publication_events(context, step, result, lineage)

    return build_days


def _build(context: dg.AssetExecutionContext, step: Step, config: BuildOptions, backfill: Backfill) -> BuildResult:
    require_own_lakehouse(context.instance, backfill.storage)
    days = _requested_days(context)

    def build() -> BuildResult:
        return backfill.builder().build(
            step,
            days,
            run=run_info(context.run),
            version=config.version or context.run.tags.get(VERSION_TAG),
            force=config.force or FORCE_TAG in context.run.tags,
            verify=VERIFY_TAG in context.run.tags,
            progress=context.log.info,
        )

    return backfill.resume(build, context.log.warning)


def _build_earlier_days(
    context: dg.AssetExecutionContext, step: Step, steps: Sequence[Step], backfill: Backfill
) -> None:
    """Days that the run looks back to and that were never built; ``partition_statuses`` reports them to Dagster."""
    require_own_lakehouse(context.instance, backfill.storage)
    days, tables = _requested_days(context), _built_together(context)
    zone, version = LandingZone(backfill.settings.landing), context.run.tags.get(VERSION_TAG, "")
    first = missing_earlier_days(step, steps, tables, days, backfill.storage, zone, version)
    if not first:
        return
    context.log.info(
        f"{step.name}: {format_ranges(first)} come first: days of this run look back to them, and they were never built"
    )

    def build() -> BuildResult:
        return backfill.builder().build(step, first, run=run_info(context.run), progress=context.log.info)

    try:
        backfill.resume(build, context.log.warning)
    except DaysFailed as error:
        # No check is evaluated for them: they are not partitions of this run.
        raise gate_failure(error) from None


def _built_together(context: dg.AssetExecutionContext) -> set[str]:
    """The tables of the run, and of the backfill that it belongs to: weeks and months have runs of their own."""
    keys = set(context.job_def.asset_layer.selected_asset_keys)
    backfill_id = context.run.tags.get(BACKFILL_ID_TAG)
    backfill = context.instance.get_backfill(backfill_id) if backfill_id else None
    keys.update(backfill.asset_selection or () if backfill else ())
    return {key.path[-1] for key in keys if len(key.path) == 1}


def _requested_days(context: dg.AssetExecutionContext) -> list[date]:
    # A run for one day of a backfill carries range tags too, so partition_key would not be there.
    days = sorted(parse_day(key) for key in context.partition_keys)
    if not days:
        raise _range_without_days(context.run.tags)
    return days


def _range_without_days(tags: Mapping[str, str]) -> BackfillError:
    # A range that ends before it starts has no partitions: Dagster would report success for its run.
    asked = f"{tags.get(ASSET_PARTITION_RANGE_START_TAG)}...{tags.get(ASSET_PARTITION_RANGE_END_TAG)}"
    return InvalidRequest(f"The partition range {asked} has no day.", hint="Write the earlier day first.")


def _publication_events(
    context: dg.AssetExecutionContext, step: Step, result: BuildResult, lineage: Mapping[str, Metadata]
) -> Iterator[Event]:
    _report_late_days(context, result)
    _report_rolled_back(context, result)
    for table in step.tables:
        context.log.info(table_line(table.name, result.days))
        # Dagster shows the lineage of the newest materialization: that of the last day is enough.
        last = max(day.day for day in result.days if day.table == table.name)
        context.add_asset_metadata(lineage[table.name], asset_key=table.name, partition_key=last.isoformat())
        yield from _table_events(context, table.name, result.days)


def _table_events(context: dg.AssetExecutionContext, table: str, built: Sequence[BuiltDay]) -> Iterator[Event]:
    days = [day for day in built if day.table == table]
    for day in days:
        context.add_asset_metadata(day_metadata(day), asset_key=table, partition_key=day.day.isoformat())
    yield dg.MaterializeResult(asset_key=table)
    # Dagster stored the materializations at that yield: only now can a check point at its own one.
    targets = _materializations(context, table, days)
    yield from (evaluation(day, targets.get(day.day.isoformat())) for day in days)
    yield from unchanged_watchdogs(context.instance, table, days, targets)
    # Dagster requires both outputs. The job `watchdogs` evaluates the watchdog later.
    yield dg.Output(None, output_name=f"{table}_{GATES}")
    yield dg.Output(None, output_name=f"{table}_{WATCHDOG}")


def _materializations(
    context: dg.AssetExecutionContext, table: str, days: Sequence[BuiltDay]
) -> dict[str, AssetCheckEvaluationTargetMaterializationData]:
    newest = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey(table), asset_partitions=[day.day.isoformat() for day in days]),
        limit=len(days),
    )
    return {
        str(record.partition_key): AssetCheckEvaluationTargetMaterializationData(
            storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
        )
        for record in newest.records
        if record.run_id == context.run.run_id
    }


def _report_stale_later_days(
    context: dg.AssetExecutionContext, storage: Storage, readers: Sequence[Step], result: BuildResult
) -> None:
    """Report days that look back to this run's and are stale now: as metadata, since the run has no events for them."""
    selected = context.job_def.asset_layer.selected_asset_keys
    days = {parse_day(key) for key in context.partition_keys}
    built_too = {each.name: days for each in readers if dg.AssetKey(each.name) in selected}
    try:
        texts = later_days_metadata(storage, readers, result.days, built_too)
    except BackfillError as error:
        context.log.warning(f"Which later days are stale now is not known, the lakehouse was busy: {error}")
        return
    for (table, day), text in texts.items():
        metadata = {STALE_LATER_DAYS: dg.MetadataValue.md(text)}
        context.add_asset_metadata(metadata, asset_key=table, partition_key=day.isoformat())
        context.log.warning(f"{table} {day}: {text}")


def _report_late_days(context: dg.AssetExecutionContext, result: BuildResult) -> None:
    """Days outside this run that got late rows: the run has no event for them, so its tags name them."""
    late = late_days(result.appended_elsewhere)
    for table, days in late.items():
        context.log.warning(f"{table}: late rows were appended to {days}. What was built from those days is stale.")
    if late:
        context.instance.add_run_tags(
            context.run.run_id, {f"{LATE_DAYS_TAG}.{table}": days for table, days in late.items()}
        )


def _report_rolled_back(context: dg.AssetExecutionContext, result: BuildResult) -> None:
    """A person put these days back; a run that builds them again says so, and their metadata has the rollback."""
    for (table, rollback), days in rolled_back_days(result.days).items():
        context.log.warning(
            f"{table}: {days} had been rolled back by {rollback}; this run has built and published them again."
        )
