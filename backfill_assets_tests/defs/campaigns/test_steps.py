"""Which runs of a campaign's cut-over approve it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from dagster._core.storage.tags import RETRY_NUMBER_TAG

from backfill_assets.campaign.run import CampaignRun, Options
from backfill_assets.defs.campaigns import steps
from backfill_assets.defs.campaigns.carry_on import MOVE_TAG
from backfill_assets.defs.campaigns.pages import WITHOUT_HELD_BACK_TAG
from backfill_assets.defs.campaigns.steps import approves
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep
from backfill_assets.plan.records import Plan, PlanRequest, PlanTerms
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.person import Person
from backfill_assets.settings import Settings


def test_only_a_run_that_a_person_has_launched_approves() -> None:
    """An approval that was withdrawn does not come back by a retry, nor by a run that the sensor had asked for."""
    assert approves({}) and approves({WITHOUT_HELD_BACK_TAG: "true"})
    assert not approves({MOVE_TAG: "campaign-x-cut_over-r0a1"})
    assert not approves({RETRY_NUMBER_TAG: "1"})


def test_a_run_that_gives_one_of_two_approvals_records_it_and_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run of the second person cuts over."""
    asked = PlanRequest(target="fact_daily_revenue", days="2017-03-01")
    plan = Plan(asked=asked, steps=(), terms=PlanTerms(approvals=2), made_at=datetime(2017, 6, 1, tzinfo=UTC))
    done: list[CampaignStep] = []

    def note(_: CampaignRun, step: CampaignStep, *__: object) -> dict[str, object]:
        done.append(step)
        return {}

    monkeypatch.setattr(steps, "do_step", note)
    backfill = cast("Any", SimpleNamespace(settings=Settings.at(tmp_path)))
    context = cast("Any", SimpleNamespace(run=SimpleNamespace(tags={}), log=None))

    def run_of(name: str) -> CampaignRun:
        builder = Builder.from_settings(Settings.at(tmp_path), CATALOG, cast("Any", None))
        return CampaignRun(builder, plan, RunInfo("r", person=Person(name, "tag user of the Dagster run")), print)

    run_of("ana").start(Options(daemon=True))
    for step in STEPS[: STEPS.index(CampaignStep.CUT_OVER)]:
        run_of("ana").record_step(step, {})
    with pytest.raises(InvalidRequest, match=r"The approval is recorded, and it waits for approval: 1 of 2 given, by"):
        steps._do_in_order(run_of("ana"), CampaignStep.CUT_OVER, context, backfill)
    assert done == []
    monkeypatch.setattr(steps, "log_writer", lambda _: print)
    steps._do_in_order(run_of("bela"), CampaignStep.CUT_OVER, context, backfill)
    assert done == [CampaignStep.CUT_OVER] and len(run_of("bela").state.given) == 2
