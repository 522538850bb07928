"""Which steps one run does, and what the jobs say."""

from __future__ import annotations

import pytest

from backfill_assets.campaign.course import Move
from backfill_assets.defs.campaigns.jobs import APPROVE_JOB, CLOSE_JOB, STAGE_JOB, campaign_jobs, job_and_steps
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep


@pytest.mark.parametrize(
    ("move", "job", "first", "last"),
    [
        (Move("", CampaignStep.ANNOUNCE), STAGE_JOB, CampaignStep.ANNOUNCE, CampaignStep.VALIDATE),
        (Move("", wave=2), STAGE_JOB, CampaignStep.SHADOW, CampaignStep.VALIDATE),
        (Move("", CampaignStep.VALIDATE), STAGE_JOB, CampaignStep.VALIDATE, CampaignStep.VALIDATE),
        (Move("", CampaignStep.CUT_OVER), APPROVE_JOB, CampaignStep.CUT_OVER, CampaignStep.NOTIFY),
        (Move("", CampaignStep.DOWNSTREAM), APPROVE_JOB, CampaignStep.DOWNSTREAM, CampaignStep.NOTIFY),
        (Move("", CampaignStep.DECOMMISSION), CLOSE_JOB, CampaignStep.DECOMMISSION, CampaignStep.DECOMMISSION),
    ],
)
def test_one_run_goes_on_until_a_person_or_a_date_is_waited_for(
    move: Move, job: str, first: CampaignStep, last: CampaignStep
) -> None:
    """It never goes from what is staged to what is published: between the two a person approves."""
    assert job_and_steps(move) == (job, STEPS[STEPS.index(first) : STEPS.index(last) + 1])


def test_each_step_is_in_one_job() -> None:
    """A step in none would never be done."""
    assert all(job_and_steps(Move("", step))[1][0] is step for step in STEPS)
    assert [job.name for job in campaign_jobs() if not job.description] == []
