"""The jobs of campaigns: their names say in Dagster's lists and dialogs what a run does.

One run does all steps that need no person. Every job can be launched by hand as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from backfill_assets.campaign.course import Move
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep

if TYPE_CHECKING:
    from backfill_assets.defs.private_dagster import UnresolvedAssetJobDefinition

GROUP, SENSOR = "campaign", "campaigns"
CAMPAIGNS = dg.DynamicPartitionsDefinition(name="campaigns")
PLANNED, ROLLED_BACK = dg.AssetKey([GROUP, "planned"]), dg.AssetKey([GROUP, "rolled_back"])
PLAN_JOB, STAGE_JOB, APPROVE_JOB = "plan_a_campaign", "stage_and_compare", "approve_and_publish"
CLOSE_JOB, UNDO_JOB = "close_a_campaign", "undo_a_campaign"
_OF_JOB: Mapping[str, Sequence[CampaignStep]] = {
    STAGE_JOB: STEPS[: STEPS.index(CampaignStep.CUT_OVER)],
    APPROVE_JOB: (CampaignStep.CUT_OVER, CampaignStep.DOWNSTREAM, CampaignStep.NOTIFY),
    CLOSE_JOB: (CampaignStep.DECOMMISSION,),
}
_WHAT_IT_DOES = {
    STAGE_JOB: "Stages all days of a campaign where no reader sees them, wave by wave, and compares them with what is "
    "published. Publishes nothing. Launched by itself when a plan is started.",
    APPROVE_JOB: "Launching this by hand approves the campaign of the partition: all of its tables are published at "
    "once, checked, and the notice is sent. `undo_a_campaign` puts them back.",
    CLOSE_JOB: "Closes the timelines of a campaign when it cannot be rolled back any more. Launched by itself.",
}


def step_key(step: CampaignStep) -> dg.AssetKey:
    return dg.AssetKey([GROUP, step.value])


def campaign_jobs() -> list[UnresolvedAssetJobDefinition]:
    """A job for each thing that a person or the sensor launches."""
    of_steps = [
        dg.define_asset_job(name, selection=[step_key(step) for step in steps], description=_WHAT_IT_DOES[name])
        for name, steps in _OF_JOB.items()
    ]
    return [
        dg.define_asset_job(
            PLAN_JOB,
            selection=[PLANNED],
            description="Makes a plan from logs alone, and keeps it. With `start: true` it is carried out until it "
            "waits for approval.",
        ),
        *of_steps,
        dg.define_asset_job(
            UNDO_JOB,
            selection=[ROLLED_BACK],
            description="Puts all tables of the campaign of the partition back at once, as they were before it.",
        ),
    ]


def job_and_steps(move: Move) -> tuple[str, tuple[CampaignStep, ...]]:
    """The job that ``move`` belongs to, and the steps that one run of it does from there on. Pure.

    A move without a step is a wave, which is staged by the step that comes after the last one.
    """
    first = move.step or CampaignStep.SHADOW
    name, steps = next((name, steps) for name, steps in _OF_JOB.items() if first in steps)
    return name, tuple(steps[steps.index(first) :])
