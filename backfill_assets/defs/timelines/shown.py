"""The asset ``timelines``: each timeline with a name is a partition, with its days, age, size and difference to main.

It is not materialized by runs: a sensor keeps it as the lakehouse has it.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from backfill_assets.answers.timelines import FoundTimeline, timeline_answer
from backfill_assets.defs.instance.guard import why_not_own
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import UNDER_THE_HOOD
from backfill_assets.lakehouse.named_timelines import NamedTimeline, readable_timelines
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publication_log.log import utc_now
from backfill_assets.published.moments import HeldDays, held_days
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.report.markdown import markdown
from backfill_assets.text import format_count, format_size

ASSET = SENSOR = "timelines"
_PARTITIONS = dg.DynamicPartitionsDefinition(name=ASSET)
_EVERY_SECONDS = 30
Metadata = Mapping[str, dg.MetadataValue]


def timelines_spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        key=ASSET,
        partitions_def=_PARTITIONS,
        group_name=UNDER_THE_HOOD,
        kinds={"deltalake"},
        description=(
            "Timelines with a name: each partition is a place on which days of tables differ from what is published. "
            "Days are built on it by the assets `shadow/...` with the tag `backfill/timeline`."
        ),
    )


def timelines_sensor() -> dg.SensorDefinition:
    """Launches nothing; it is on from the start, because what Dagster shows must be true."""

    @dg.sensor(
        name=SENSOR,
        description="Shows each timeline as a partition of the asset `timelines`. Launches nothing.",
        minimum_interval_seconds=_EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def show_timelines(context: dg.SensorEvaluationContext, backfill: Backfill) -> dg.SensorResult | dg.SkipReason:
        if refused := why_not_own(context.instance, backfill.storage):
            return dg.SkipReason(refused)
        shown = json.loads(context.cursor) if context.cursor else {}
        done = report_timelines(context.instance, backfill.storage, shown)
        for problem in done.unreadable:
            context.log.warning(problem)
        return dg.SensorResult(skip_reason="\n".join([_result(done), *done.unreadable]), cursor=json.dumps(done.shown))

    return show_timelines


@dataclass(frozen=True)
class ShownTimelines:
    """A digest of what was reported of each timeline, by name, how many changed, and which cannot be read and why."""

    shown: Mapping[str, str]
    changes: int
    unreadable: tuple[str, ...] = ()


def _result(done: ShownTimelines) -> str:
    if done.changes:
        return f"Reported {format_count(done.changes, 'change')}."
    return f"All {'other ' * bool(done.unreadable)}timelines are shown as they are."


def report_timelines(instance: dg.DagsterInstance, storage: Storage, shown: Mapping[str, str]) -> ShownTimelines:
    """Make the partitions of the asset those of the timelines that are kept, and report those that have changed.

    ``shown`` has the digests of the last time. While a timeline cannot be read, its name is not known, and all
    partitions stay.
    """
    kept, unreadable = readable_timelines(storage, utc_now())
    tables = {table for each in kept for table in each.days}
    main = held_days(Snapshot.newest(storage), tables) if tables else {}
    metadata = {each.name: timeline_metadata(each, main) for each in kept}
    digests = {each.name: _digest(each.id, metadata[each.name]) for each in kept}
    others = set(instance.get_dynamic_partitions(ASSET)) - metadata.keys()
    gone = set[str]() if unreadable else others
    for name in gone:
        instance.delete_dynamic_partition(ASSET, name)
    instance.add_dynamic_partitions(ASSET, list(metadata))
    changed = [name for name, digest in digests.items() if shown.get(name) != digest]
    for name in changed:
        event = dg.AssetMaterialization(ASSET, partition=name, metadata=metadata[name])
        instance.report_runless_asset_event(event)
    left = {name: digest for name, digest in shown.items() if name in others - gone}
    return ShownTimelines({**left, **digests}, len(changed) + len(gone), tuple(map(str, unreadable)))


def timeline_metadata(timeline: NamedTimeline, main: HeldDays) -> dict[str, dg.MetadataValue]:
    """What the page of a timeline shows: the answer of `backfill timeline show`, and its numbers. Pure."""
    answer = timeline_answer(FoundTimeline(timeline, main, {}))
    differ = sum(int(row["differ_from_main"]) for row in answer.as_json()["tables"])
    return {
        "days": dg.MetadataValue.int(timeline.count_of_days),
        "differ from main": dg.MetadataValue.int(differ),
        "size": dg.MetadataValue.text(format_size(timeline.size)),
        "changed": dg.MetadataValue.timestamp(timeline.changed_at),
        "timeline": dg.MetadataValue.md(markdown(answer)),
    }


def _digest(id: str, metadata: Metadata) -> str:
    text = json.dumps([id, {name: str(value.value) for name, value in metadata.items()}])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
