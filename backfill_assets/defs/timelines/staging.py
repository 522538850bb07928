"""Runs of shadow assets on a timeline with a name: the days that a run is asked for are built there.

A partition is materialized when the timeline has its day; a failed gate fails the run, and nothing of its step changes.
"""

# No postponed annotations here: Dagster resolves config from the annotations themselves.
from collections.abc import Iterator, Sequence
from datetime import date

import dagster as dg

from backfill_assets.days import parse_day
from backfill_assets.defs.assets import FORCE_TAG, VERSION_TAG
from backfill_assets.defs.events import gate_failure
from backfill_assets.defs.instance.guard import require_own_lakehouse
from backfill_assets.defs.resources import Backfill, run_info
from backfill_assets.defs.specs import shadow_key
from backfill_assets.lakehouse.named_timelines import HeldDay, find_timeline
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import steps_of
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import DaysFailed
from backfill_assets.text import format_count
from backfill_assets.timeline.run_on import StepBuilt, StepRequest, TimelineRun, run_on


class ShadowOptions(dg.Config):
    """Run configuration of shadow assets; empty means the run's tag."""

    timeline: str = ""
    version: str = ""
    force: bool = False


def build_on_timeline(
    context: dg.AssetExecutionContext, name: str, steps: Sequence[Step], options: ShadowOptions, backfill: Backfill
) -> Iterator[dg.AssetMaterialization]:
    """Build the run's days of the selected tables on the timeline ``name``, step by step, and report each that it has.

    ``steps`` are in build order, and of one cadence.
    """
    require_own_lakehouse(context.instance, backfill.storage)
    selected = {key.path[-1] for key in context.selected_asset_keys}
    chosen = steps_of(steps, selected)
    versions = versions_of(chosen, options.version or context.run.tags.get(VERSION_TAG, ""))
    for step in chosen:
        context.log.info(f"{name}: {step.name}, {format_count(len(_days(context)), step.cadence.noun)} ...")
        try:
            done = _build(context, name, StepRequest(step, _days(context), versions[step.name]), options, backfill)
        except DaysFailed as error:
            raise gate_failure(error) from None
        (built,) = done.steps
        context.log.info(f"On {done.timeline.name}: {built}")
        for table in step.table_names:
            if table in selected:
                yield from (_materialization(table, held, built, done) for held in built.held[table].values())


def versions_of(steps: Sequence[Step], version: str) -> dict[str, str]:
    """The version of each step of a run for ``version``: those that do not have it go by their current one.

    Raises :class:`InvalidRequest` if none has it. Pure.
    """
    having = {step.name for step in steps if version in {AS_PUBLISHED, *(each.name for each in step.versions)}}
    if version and not having:
        steps[0].version(version)
    return {step.name: version if step.name in having else "" for step in steps}


def _days(context: dg.AssetExecutionContext) -> list[date]:
    return sorted(parse_day(key) for key in context.partition_keys)


def _build(
    context: dg.AssetExecutionContext, name: str, asked: StepRequest, options: ShadowOptions, backfill: Backfill
) -> TimelineRun:
    force = options.force or FORCE_TAG in context.run.tags

    def build() -> TimelineRun:
        lake = backfill.builder().lake
        timeline = find_timeline(lake.storage, name, lake.publisher.now())
        return run_on(lake, timeline, [asked], run_info(context.run), context.log.info, force=force)

    return backfill.resume(build, context.log.warning)


def _materialization(table: str, held: HeldDay, built: StepBuilt, done: TimelineRun) -> dg.AssetMaterialization:
    metadata: dict[str, dg.MetadataValue] = {
        "timeline": dg.MetadataValue.text(done.timeline.name),
        "revision": dg.MetadataValue.int(done.timeline.revision),
        "day": dg.MetadataValue.text(_origin(held.day, built)),
    }
    if held.content is not None:
        metadata |= {
            "dagster/partition_row_count": dg.MetadataValue.int(held.content.rows),
            "checksum": dg.MetadataValue.text(held.content.checksum),
            "code_version": dg.MetadataValue.text(held.content.code_version),
            "files": dg.MetadataValue.json([file.path for file in held.files]),
        }
    return dg.AssetMaterialization(shadow_key(table), partition=held.day.isoformat(), metadata=metadata)


def _origin(day: date, built: StepBuilt) -> str:
    if day in built.staged:
        return "staged"
    return "from main" if day in built.from_main else "unchanged"
