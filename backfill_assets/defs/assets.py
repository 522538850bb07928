"""One Dagster asset for each table; the tables of a step are materialized together."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

import dagster as dg

from backfill_assets.days import parse_day
from backfill_assets.defs.checks import evaluations
from backfill_assets.defs.dagster_internals import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    BACKFILL_ID_TAG,
    PartitionBackfill,
    report_checks,
    targets,
)
from backfill_assets.defs.look_back import earlier_days_of, looked_back_to, missing_earlier_days, not_built_yet
from backfill_assets.defs.metadata import (
    day_metadata,
    gate_failure,
    plain_failure,
    table_line,
    warnings,
)
from backfill_assets.defs.own_lakehouse import require_own_lakehouse
from backfill_assets.defs.partitions import Chain
from backfill_assets.defs.resources import Backfill, SharedSpark, run_info
from backfill_assets.defs.specs import (
    FORCE_TAG,
    REPAIR_TAG,
    VERIFY_TAG,
    VERSION_TAG,
    asset_specs,
    check_specs,
    keys_of_others,
    lineage_metadata,
)
from backfill_assets.defs.under_way import days_of_backfill
from backfill_assets.defs.watchdogs import unchanged_watchdogs
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.graph import later_readers
from backfill_assets.quality.gates import checks_of
from backfill_assets.rebuild.outcome import BuildResult, DaysFailed
from backfill_assets.text import format_ranges

Metadata = Mapping[str, dg.MetadataValue]
Event = dg.MaterializeResult[None] | dg.Output[None]


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
    keys, checks = keys_of_others(steps), check_specs(step, chain)
    lineage = lineage_metadata(step, table_named, keys)

    @dg.multi_asset(
        name=step.name,
        specs=asset_specs(step, dataset, chain, later_readers(steps), keys),
        check_specs=checks,
        partitions_def=chain.of(step),
        backfill_policy=chain.policy,
        can_subset=False,
        pool=pool,
    )
    def build_days(
        context: dg.AssetExecutionContext, config: BuildOptions, backfill_spark: SharedSpark, backfill: Backfill
    ) -> Iterator[Event]:
        """Builds the days on Spark, by the transform of their version, and publishes them when all pass their gates."""
        try:
            _build_earlier_days(context, step, steps, backfill, backfill_spark)
            _build_looked_back_to(context, step, steps, backfill, backfill_spark)
            result = _build(context, step, config, backfill, backfill_spark)
        except DaysFailed as error:
            _report_failed_days(context, step, error)
            raise gate_failure(error) from None
        except BackfillError as error:
            raise plain_failure(error) from None
        for line in warnings(result):
            context.log.warning(line)
        result = replace(result, days=tuple(backfill.with_kept_rules(result.days)))
        for table in step.tables:
            yield from _table_events(context, table, step, result, lineage[table.name])
        # Dagster requires all outputs. Checks that this run does not evaluate are evaluated by a job and a sensor.
        yield from (dg.Output(None, output_name=each.get_python_identifier()) for each in checks)

    return build_days


def _build(
    context: dg.AssetExecutionContext, step: Step, config: BuildOptions, backfill: Backfill, spark: SharedSpark
) -> BuildResult:
    days, tags = _requested_days(context, step), context.run.tags

    def build() -> BuildResult:
        return backfill.builder(spark).build(
            step,
            days,
            run=run_info(context.run, backfill.catalog),
            version=config.version or tags.get(VERSION_TAG),
            force=config.force or FORCE_TAG in tags,
            repairs=REPAIR_TAG in tags and not config.force,
            verify=VERIFY_TAG in tags,
            progress=context.log.info,
        )

    return backfill.resume(build, context.log.warning, spark)


def _build_earlier_days(
    context: dg.AssetExecutionContext, step: Step, steps: Sequence[Step], backfill: Backfill, spark: SharedSpark
) -> None:
    require_own_lakehouse(context.instance, backfill.storage)
    days, tables = _requested_days(context, step), _built_together(context)
    zone, version = LandingZone(backfill.settings.landing), context.run.tags.get(VERSION_TAG, "")
    first = missing_earlier_days(step, steps, tables, days, backfill.storage, zone, version)
    if not first:
        return
    context.log.info(
        f"{step.name}: {format_ranges(first)} come first: days of this run look back to them, and they were never built"
    )

    def build() -> BuildResult:
        return backfill.builder(spark).build(
            step,
            first,
            run=run_info(context.run, backfill.catalog),
            repairs=REPAIR_TAG in context.run.tags,
            progress=context.log.info,
        )

    try:
        backfill.resume(build, context.log.warning, spark)
    except DaysFailed as error:
        # No check is evaluated for them: they are not partitions of this run.
        raise gate_failure(error) from None


def _build_looked_back_to(
    context: dg.AssetExecutionContext, step: Step, steps: Sequence[Step], backfill: Backfill, spark: SharedSpark
) -> None:
    """Builds days that the run looks back to and a later run of its backfill has: Dagster orders runs without look
    backs.
    """
    launched = _backfill_of(context)
    if launched is None:
        return
    tables = {name for each in steps for name in each.table_names}
    target = {table: days for table, days in days_of_backfill(launched, tables).items() if days is not None}
    days, tags = _requested_days(context, step), context.run.tags
    own = {key.path[-1]: set(days) for key in context.job_def.asset_layer.selected_asset_keys if len(key.path) == 1}
    wanted = looked_back_to(step, steps, days, target, own)
    if not wanted:
        return
    force, at = FORCE_TAG in tags, datetime.fromtimestamp(launched.backfill_timestamp, UTC)
    for other, first in not_built_yet(wanted, steps, backfill.storage, at, force=force):
        context.log.info(
            f"{other.name}: {format_ranges(first)} of this backfill come first: {step.name} looks back to them"
        )

        def build(other: Step = other, first: Sequence[date] = first) -> BuildResult:
            return backfill.builder(spark).build(
                other,
                first,
                run=run_info(context.run, backfill.catalog),
                version=tags.get(VERSION_TAG),
                force=force,
                repairs=REPAIR_TAG in tags,
                progress=context.log.info,
            )

        try:
            backfill.resume(build, context.log.warning, spark)
        except DaysFailed as error:
            raise gate_failure(error) from None


def _backfill_of(context: dg.AssetExecutionContext) -> PartitionBackfill | None:
    backfill_id = context.run.tags.get(BACKFILL_ID_TAG)
    return context.instance.get_backfill(backfill_id) if backfill_id else None


def _built_together(context: dg.AssetExecutionContext) -> set[str]:
    keys = set(context.job_def.asset_layer.selected_asset_keys)
    backfill = _backfill_of(context)
    keys.update(backfill.asset_selection or () if backfill else ())
    return {key.path[-1] for key in keys if len(key.path) == 1}


def _requested_days(context: dg.AssetExecutionContext, step: Step) -> list[date]:
    # A run for one day of a backfill carries range tags too, so partition_key would not be there.
    days = sorted(parse_day(key) for key in context.partition_keys)
    if not days:
        # A range that ends before it starts has no partitions: Dagster would report success for its run.
        first, last = (
            context.run.tags.get(tag) for tag in (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG)
        )
        raise InvalidRequest(f"The partition range {first}...{last} has no day.", hint="Write the earlier day first.")
    first = context.assets_def.partitions_def.get_first_partition_key() if context.assets_def.partitions_def else None
    earlier = earlier_days_of(context.run.tags, step.name) if str(days[0]) == first else set()
    return sorted({*earlier, *days})


def _table_events(
    context: dg.AssetExecutionContext, table: Table, step: Step, result: BuildResult, lineage: Metadata
) -> Iterator[Event]:
    days, checks = [day for day in result.days if day.table == table.name], checks_of(table, step)
    context.log.info(table_line(table.name, days))
    asked = set(context.partition_keys)
    for day in (each for each in days if str(each.day) in asked):  # days before the first partition have none
        # Dagster shows the lineage of the newest materialization: that of the last day is enough.
        shown = {**day_metadata(day), **(lineage if day is days[-1] else {})}
        context.add_asset_metadata(shown, asset_key=table.name, partition_key=day.day.isoformat())
    yield dg.MaterializeResult(asset_key=table.name)
    # Dagster stored the materializations at that yield: only now can a check point at its own one.
    now = targets(context.instance, table.name, [str(day.day) for day in days])
    report_checks(
        context.instance,
        context.run.run_id,
        [
            *(found for day in days for found in evaluations(day, checks, now.get(str(day.day)))),
            *unchanged_watchdogs(context.instance, table.name, days, now),
        ],
        step.name,
    )


def _report_failed_days(context: dg.AssetExecutionContext, step: Step, error: DaysFailed) -> None:
    checks = {table.name: checks_of(table, step) for table in step.tables}
    found = (each for day in error.failed for each in evaluations(day, checks[day.table]))
    report_checks(context.instance, context.run.run_id, found, step.name)
