"""The waves of a campaign's shadow backfill: each is a native backfill, which the campaign's own run launches, follows
and judges.

A run that shares a pool of Spark with the backfill does not wait for it, or both might wait for ever: it ends, and the
sensor launches the next one when the backfill has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

import dagster as dg

from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.campaigns.jobs import SENSOR
from backfill_assets.defs.campaigns.shadow import TIMELINE_TAG, WAVE_TAG
from backfill_assets.defs.instance.launch import launch_backfill, progress
from backfill_assets.defs.instance.under_way import is_backfill_alive
from backfill_assets.defs.private_dagster import BULK_ACTION_TERMINAL_STATUSES, SENSOR_NAME_TAG, BaseAssetGraph
from backfill_assets.defs.specs import shadow_key

LOOK_EVERY_SECONDS = 0.5
_SAY_EVERY_SECONDS = 30.0
_HASH_LENGTH = 12
Graph = Callable[[], "BaseAssetGraph[Any]"]


def wave_backfill_id(at: CampaignRun, wave: int) -> str:
    """``wave_1_of_4_<hash>``, with a number for a campaign that was begun again. The UI cuts ids at a hyphen."""
    again = f"_r{at.state.resumes}" if at.state.resumes else ""
    campaign = at.campaign.rpartition("-")[2][:_HASH_LENGTH]
    return f"wave_{wave + 1}_of_{len(at.waves)}_{campaign}{again}"


def stage_waves(instance: dg.DagsterInstance, graph: Graph, at: CampaignRun, *, waits: bool) -> bool:
    """Stage and judge what is left of the waves. False if a backfill is under way that this run must not wait for."""
    while (wave := at.next().wave) is not None:
        if under_way := _launch_wave(instance, graph, at, wave):
            if not waits:
                at.progress(f"{under_way} is under way. This run ends, so that Spark is free for it.")
                return False
            _follow(instance, at, under_way)
        # Days that a dead run left out are staged here.
        if at.state.waves_done <= wave:
            at.judge_wave(wave, at.stage_wave(wave))
    return True


def wave_under_way(instance: dg.DagsterInstance, at: CampaignRun, wave: int) -> str:
    """The backfill of the wave while it is alive; empty before and after.

    If its run was killed on a machine that this one cannot check, it never ends: without an event for an hour, it
    counts as ended.
    """
    backfill = instance.get_backfill(wave_backfill_id(at, wave))
    alive = backfill is not None and is_backfill_alive(instance, backfill, datetime.now(UTC))
    return backfill.backfill_id if backfill is not None and alive else ""


def _launch_wave(instance: dg.DagsterInstance, graph: Graph, at: CampaignRun, wave: int) -> str:
    """Launch the backfill of the wave, unless it was launched before; its id while it is alive."""
    days, backfill_id = at.days_of(wave), wave_backfill_id(at, wave)
    if days and instance.get_backfill(backfill_id) is None:
        launch_backfill(
            instance,
            graph(),
            {"/".join(shadow_key(table).path): wanted for table, wanted in days.items()},
            title=f"{at.plan.asked.target} {at.plan.asked.days}: wave {at.waves[wave].name} of {at.campaign}",
            tags={SENSOR_NAME_TAG: SENSOR, TIMELINE_TAG: at.campaign, WAVE_TAG: str(wave)},
            backfill_id=backfill_id,
            description=f"Wave {wave + 1} of {len(at.waves)} of {at.plan.id}, staged where no reader sees it.",
        )
    return wave_under_way(instance, at, wave)


def _follow(instance: dg.DagsterInstance, at: CampaignRun, backfill_id: str) -> None:
    """Wait until the backfill has ended. Its progress is logged, which also shows that this run is alive."""
    at.progress(f"The backfill {backfill_id} is under way")
    said = monotonic()
    while (backfill := instance.get_backfill(backfill_id)) and backfill.status not in BULK_ACTION_TERMINAL_STATUSES:
        sleep(LOOK_EVERY_SECONDS)
        if monotonic() - said >= _SAY_EVERY_SECONDS:
            said = monotonic()
            if not is_backfill_alive(instance, backfill, datetime.now(UTC)):
                return
            at.progress(f"The backfill {backfill_id} is under way. {progress(instance, backfill_id).message}".strip())
