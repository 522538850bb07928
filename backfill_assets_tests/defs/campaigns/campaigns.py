"""A campaign of nothing but its journal: a plan over days of one table, staged and judged by no Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

from backfill_assets.campaign import decisions
from backfill_assets.campaign.ends import record_step
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry
from backfill_assets.lakehouse.campaign_reports import CutOverReport, Report
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest, PlanTerms
from backfill_assets.plan.waves import Shares
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets.state.diagnosis import Cause

FACT, DAYS = "fact_sales_transactions", (date(2017, 3, 1), date(2017, 3, 2))
RANGE = "2017-03-01..2017-03-02"


def plan(terms: PlanTerms | None = None, findings: tuple[Any, ...] = ()) -> Plan:
    step = PlannedStep(tables=(FACT,), version="v2", rebuild={Cause.CODE_CHANGED: (RANGE,)})
    asked = PlanRequest(target=FACT, days=RANGE, terms=terms or PlanTerms())
    made_at = datetime(2017, 6, 1, tzinfo=UTC)
    return Plan(asked=asked, steps=(step,), made_at=made_at, findings=findings)


def judge_wave(at: CampaignRun, number: int) -> None:
    """It was good."""
    at.write(JournalEntry(kind="wave", wave=number, at=datetime.now(UTC)))


def campaign(home: Path, *, of: Plan | None = None, said: list[str] | None = None) -> CampaignRun:
    builder = Builder.from_settings(Settings.at(home), CATALOG, cast("Any", None))
    words = [] if said is None else said
    return CampaignRun(builder, of or plan(), RunInfo("r", launched_by="ana"), words.append)


def started(
    home: Path, until: CampaignStep | None = None, *, of: Plan | None = None, waves: str = "50%,100%"
) -> CampaignRun:
    """Done up to and including ``until``; just started without it."""
    at = campaign(home, of=of)
    decisions.start(at, Options(Shares.parse(waves), daemon=True))
    for step in STEPS[: STEPS.index(until) + 1] if until else ():
        if step is CampaignStep.SHADOW:
            for number in range(len(at.waves)):
                judge_wave(at, number)
        if step is CampaignStep.CUT_OVER:
            decisions.approve(at)
        record_step(at, step, CutOverReport(publication="p1") if step is CampaignStep.CUT_OVER else Report())
    return at
