"""Shadow copies of the assets: what is staged on a timeline, day by day, as native backfills.

A run says by its tag on which timeline it works: on that of a campaign, or on one with a name. A materialized partition
of ``shadow/<table>`` means that the day is staged; readers do not see it yet. A day that is held back has no
materialization: its run fails with the reason.
"""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date

import dagster as dg

from backfill_assets.campaign.breaker_input import held_back_lines
from backfill_assets.days import Cadence, parse_day
from backfill_assets.defs.events import plain_failure
from backfill_assets.defs.partitions import Chain, partition_mapping
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import CADENCE_TAG, SHADOW, UNDER_THE_HOOD, shadow_key
from backfill_assets.defs.timelines.staging import ShadowOptions, build_on_timeline
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.timelines import CAMPAIGN
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.shadow import ShadowedStep
from backfill_assets.text import format_are

TIMELINE_TAG = "backfill/timeline"
"""The timeline that a run works on: a campaign, or the name of a timeline."""
WAVE_TAG = "backfill/wave"
_BEFORE: Mapping[Cadence, Collection[Cadence]] = {
    Cadence.DAILY: {Cadence.DAILY},
    Cadence.WEEKLY: {Cadence.DAILY, Cadence.WEEKLY},
    Cadence.MONTHLY: {Cadence.DAILY, Cadence.MONTHLY},
}
"""What is staged, or adopted, before the tables of a cadence."""


def shadow_assets(steps: Sequence[Step], chain: Chain, pool: str | None = None) -> list[dg.AssetsDefinition]:
    """For each cadence of a chain one definition with a copy of every table that is rebuilt: raw is never staged."""
    rebuilt = [step for step in steps if step.source is None]
    definitions = []
    for cadence in Cadence:
        of_cadence = [step for step in rebuilt if step.cadence is cadence]
        if of_cadence:
            definitions.append(_shadow_of(cadence, of_cadence, rebuilt, chain, pool))
    return definitions


def _shadow_of(
    cadence: Cadence, steps: Sequence[Step], rebuilt: Sequence[Step], chain: Chain, pool: str | None
) -> dg.AssetsDefinition:
    cadences = {table.name: step.cadence for step in rebuilt for table in step.tables}

    @dg.multi_asset(
        name=f"{SHADOW}_{chain.name}_{cadence.value}",
        specs=[_spec(table.name, step, cadences) for step in steps for table in step.tables],
        partitions_def=chain.partitions[cadence],
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
        pool=pool,
    )
    def stage_days(
        context: dg.AssetExecutionContext, config: ShadowOptions, backfill: Backfill
    ) -> Iterator[dg.AssetMaterialization]:
        try:
            name = _timeline(context, config)
            if not name.startswith(CAMPAIGN):
                yield from build_on_timeline(context, name, steps, config, backfill)
                return
            done = _stage_wave(context, name, cadence, backfill)
        except BackfillError as error:
            raise plain_failure(error) from None
        yield from _report_days(context, done)

    return stage_days


def _spec(table: str, step: Step, cadences: Mapping[str, Cadence]) -> dg.AssetSpec:
    reads = [reads.table for reads in step.version().reads if reads.table in cadences]
    return dg.AssetSpec(
        key=shadow_key(table),
        deps=[
            shadow_key(name)
            if cadences[name] is step.cadence
            else dg.AssetDep(shadow_key(name), partition_mapping=partition_mapping())
            for name in reads
        ],
        group_name=UNDER_THE_HOOD,
        description=f"Days of `{table}` on a timeline: staged and judged. Readers do not see them.",
        kinds={"spark", "delta"},
        tags={CADENCE_TAG: step.cadence.value},
        skippable=True,
    )


def _timeline(context: dg.AssetExecutionContext, config: ShadowOptions) -> str:
    name = config.timeline or context.run.tags.get(TIMELINE_TAG, "")
    if not name:
        raise InvalidRequest(
            f"The run does not say on which timeline it works: it has no tag {TIMELINE_TAG}.",
            hint="Give it the name of a timeline, by the tag or as timeline in the run's configuration: "
            "backfill timeline create NAME makes one. A campaign gives its own: backfill run PLAN --daemon.",
        )
    return name


def _stage_wave(
    context: dg.AssetExecutionContext, campaign: str, cadence: Cadence, backfill: Backfill
) -> list[ShadowedStep]:
    wave = context.run.tags.get(WAVE_TAG, "")
    if not wave.isdigit():
        raise InvalidRequest(
            f"The run does not say which wave of {campaign} it stages: it has no tag {WAVE_TAG}.",
            hint="A campaign launches these backfills: backfill run PLAN --daemon.",
        )
    at = backfill.campaign(campaign, context.run, context.log.info)
    staged = backfill.resume(lambda: at.stage_wave(int(wave), _BEFORE[cadence]), context.log.warning)
    at.record_staged(int(wave))
    return staged


def _report_days(context: dg.AssetExecutionContext, done: Sequence[ShadowedStep]) -> Iterator[dg.AssetMaterialization]:
    """A materialization for each day that is staged or needs no staging; then a failure that names the others."""
    selected = {key.path[-1] for key in context.selected_asset_keys}
    days = {parse_day(key) for key in context.partition_keys}
    for step in done:
        for table in selected & set(step.build.tables):
            for day in sorted(days & {*step.staged, *step.unchanged}):
                yield _materialization(table, day, step)
    held = [each for step in done for each in step.held_back if each.table in selected and each.day in days]
    if held:
        raise dg.Failure(
            description="\n".join([f"{format_are(len(held), 'day')} held back:", *held_back_lines(held[:_MOST_NAMED])]),
            metadata={"held_back": dg.MetadataValue.json([f"{each.table} {each.day}" for each in held])},
            allow_retries=False,
        )


_MOST_NAMED = 20


def _materialization(table: str, day: date, step: ShadowedStep) -> dg.AssetMaterialization:
    held = next((each for each in step.build.staged.get(day, ()) if each.table == table), None)
    metadata: dict[str, dg.MetadataValue] = {"unchanged": dg.MetadataValue.bool(held is None)}
    if held is not None:
        metadata |= {
            "dagster/partition_row_count": dg.MetadataValue.int(held.content.rows),
            "checksum": dg.MetadataValue.text(held.content.checksum),
            "code_version": dg.MetadataValue.text(held.content.code_version),
            "files": dg.MetadataValue.json([file.path for file in held.files]),
        }
    return dg.AssetMaterialization(shadow_key(table), partition=day.isoformat(), metadata=metadata)
