"""Named timelines in Dagster: an asset with a partition for each, and a job that builds days on one."""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from backfill_assets import clock
from backfill_assets.answers.timelines import FoundTimeline, timeline_answer
from backfill_assets.days import DayRange
from backfill_assets.defs.metadata import digest, gate_failure
from backfill_assets.defs.own_lakehouse import lakehouse_job
from backfill_assets.defs.resources import Backfill, run_info
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.named_timelines import NamedTimeline, find_timeline, readable_timelines
from backfill_assets.lakehouse.records import DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import steps_of
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import DaysFailed
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.report.markdown import markdown
from backfill_assets.state.view import View
from backfill_assets.text import format_count, format_size
from backfill_assets.timeline.build import TimelineBuilt, run_on

ASSET = "timelines"
JOB, OP = "build_on_timeline", "build"
_PARTITIONS = dg.DynamicPartitionsDefinition(name=ASSET)
Metadata = Mapping[str, dg.MetadataValue]


class TimelineConfig(dg.Config):
    """The configuration in the launchpad: the options of ``backfill run TABLES --days A..B --on NAME``."""

    timeline: str = Field(description="Its name; backfill timeline create NAME makes one.")
    tables: list[str] = Field(description="The tables to build there, with no others between them left out.")
    days: str = Field(description="Their days: 2017-03-01..2017-03-07, several with commas.")
    version: str = Field(default="", description="The version of the logic; if empty, the current one.")
    force: bool = Field(default=False, description="Also compute days again that are unchanged.")


def timeline_job(steps: Sequence[Step], pool: str | None = None) -> dg.JobDefinition:
    return lakehouse_job(
        JOB,
        OP,
        "Builds days of tables on a timeline with a name, with the same gates: no reader sees them, and nothing is "
        "published. A failed gate fails the run, and nothing of its step changes.",
        TimelineConfig,
        partial(_build, steps),
        pool=pool,
    )


def _build(steps: Sequence[Step], context: dg.OpExecutionContext, config: TimelineConfig, backfill: Backfill) -> None:
    chosen = steps_of(steps, config.tables)
    if unknown := set(config.tables) - {name for step in steps for name in step.table_names}:
        raise InvalidRequest(f"There is no table {min(unknown)!r}.", hint="backfill status lists them.")
    days = {day for text in config.days.split(",") for day in DayRange.parse(text.strip())}
    versions = versions_of(chosen, config.version)

    def build(step: Step) -> TimelineBuilt:
        lake = backfill.builder().lake
        request = StepRequest(step, step.cadence.starts(days), versions[step.name], force=config.force)
        timeline = find_timeline(lake.storage, config.timeline, clock.now())
        return run_on(lake, timeline, [request], run_info(context.run, lake.catalog), context.log.info)

    for step in chosen:
        try:
            done = backfill.resume(partial(build, step), context.log.warning)
        except DaysFailed as error:
            raise gate_failure(error) from None
        context.log.info(f"On {done.timeline.name}: {done.steps[0]}")


def versions_of(steps: Sequence[Step], version: str) -> dict[str, str]:
    """Steps without ``version`` use their current one. Raises :class:`InvalidRequest` if all lack it. Pure."""
    having = {step.name for step in steps if version in {AS_PUBLISHED, *(each.name for each in step.versions)}}
    if version and not having:
        steps[0].version(version)
    return {step.name: version if step.name in having else "" for step in steps}


def timelines_spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        key=ASSET,
        partitions_def=_PARTITIONS,
        group_name=UNDER_THE_HOOD,
        kinds={"deltalake"},
        description=(
            "Timelines with a name: each partition is a place on which days of tables differ from what is published. "
            f"The job {JOB} builds days there."
        ),
    )


def show_timelines(context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any) -> tuple[str, Any]:
    changes, unreadable, shown = report_timelines(context.instance, backfill.storage, seen or {})
    for problem in unreadable:
        context.log.warning(problem)
    said = [f"Reported {format_count(changes, 'change')} of timelines."] if changes else []
    return "\n".join([*said, *unreadable]), shown


def report_timelines(
    instance: dg.DagsterInstance, storage: Storage, shown: Mapping[str, str]
) -> tuple[int, list[str], Mapping[str, str]]:
    """Sync the asset's partitions with kept timelines, and report those whose digest differs from ``shown``.

    No partition is deleted while a timeline is unreadable: its name is unknown.
    """
    kept, unreadable = readable_timelines(storage, clock.now())
    tables = {table for each in kept for table in each.days}
    main = View.newest(storage).records(tables) if tables else {}
    metadata = {each.name: timeline_metadata(each, main) for each in kept}
    digests = {each.name: digest(metadata[each.name], each.id) for each in kept}
    others = set(instance.get_dynamic_partitions(ASSET)) - metadata.keys()
    gone = set[str]() if unreadable else others
    for name in gone:
        instance.delete_dynamic_partition(ASSET, name)
    instance.add_dynamic_partitions(ASSET, list(metadata))
    changed = [name for name, said in digests.items() if shown.get(name) != said]
    for name in changed:
        event = dg.AssetMaterialization(ASSET, partition=name, metadata=metadata[name])
        instance.report_runless_asset_event(event)
    left = {name: said for name, said in shown.items() if name in others - gone}
    return len(changed) + len(gone), list(map(str, unreadable)), {**left, **digests}


def timeline_metadata(timeline: NamedTimeline, main: DayRecords) -> dict[str, dg.MetadataValue]:
    answer = timeline_answer(FoundTimeline(timeline, main, {}))
    differ = sum(int(row["differ_from_main"]) for row in answer.as_json()["tables"])
    return {
        "days": dg.MetadataValue.int(timeline.count_of_days),
        "differ from main": dg.MetadataValue.int(differ),
        "size": dg.MetadataValue.text(format_size(timeline.size)),
        "changed": dg.MetadataValue.timestamp(timeline.changed_at),
        "timeline": dg.MetadataValue.md(markdown(answer)),
    }
