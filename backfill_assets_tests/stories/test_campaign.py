"""A campaign from its plan to its end by the jobs of Dagster, and stopped by its breaker."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dagster as dg
import pytest

from backfill_assets.campaign import decisions
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.staging import judge_wave, stage_wave
from backfill_assets.campaign.standing import PlanStanding, page_of
from backfill_assets.defs.campaigns.jobs import ASSET, SENSOR
from backfill_assets.defs.campaigns.pages import APPROVE_JOB, JOB, OPS, UNDO_JOB
from backfill_assets.defs.location import code_location
from backfill_assets.difference.find import last_difference
from backfill_assets.errors import CampaignStopped
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.lakehouse.records import Notice
from backfill_assets.limits import Limits
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.keep import observe_context, plan_as_kept
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Plan, PlanRequest
from backfill_assets.plan.waves import Shares
from backfill_assets.publish.outbox import announce, due_notices
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.walk import days_staged_in
from backfill_assets_tests.begun_campaign import going
from backfill_assets_tests.protocol.audit import delivered_keys
from backfill_assets_tests.stories.dagster_chain import workshop_resources
from backfill_assets_tests.stories.dagster_daemon import DagsterDaemon
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, TABLES, checksums
from backfill_assets_tests.workshop import Workshop

WAVES = Shares.parse("20%,100%")


@pytest.fixture
def daemon(wrong: Workshop) -> Iterator[DagsterDaemon]:
    with ExitStack() as stack:
        instance = stack.enter_context(dg.instance_for_test())
        chain = code_location(CATALOG, workshop_resources(wrong))
        yield DagsterDaemon(chain, instance, SENSOR)


def planned(workshop: Workshop, *expected: str) -> Plan:
    asked = PlanRequest(target=FACT, days=str(DAYS), version="v2", expectations=tuple(map(Expectation.parse, expected)))
    plan = make_plan(asked, observe_context(workshop.settings, CATALOG, FACT, DAYS))
    keep_plan(workshop.builder.lake.storage, plan.id, plan.to_json())
    return plan


def campaign(workshop: Workshop, plan: Plan) -> CampaignRun:
    return CampaignRun(workshop.builder, plan, RunInfo("a-person", launched_by="ana"), workshop.messages.append)


def launch(daemon: DagsterDaemon, job: str, **config: object) -> Mapping[str, Any]:
    """What a person does in the launchpad; the newest page of the campaign then."""
    daemon.launched(job, OPS[job], config)
    pages = daemon.instance.fetch_materializations(dg.AssetKey(ASSET), limit=1).records
    event = pages[0].asset_materialization if pages else None
    return {name: value.value for name, value in event.metadata.items()} if event else {}


def letter_of(page: Mapping[str, Any]) -> str:
    """The letter that the page of the comparison links to."""
    return Path(url2pathname(urlsplit(str(page["letter"])).path)).read_text()


@pytest.mark.long
def test_the_daemon_stages_in_waves_waits_for_approval_and_cuts_over(
    wrong: Workshop, daemon: DagsterDaemon, tmp_path: Path
) -> None:
    """Every step has its page; main's days become materialized at the cut-over; one notice is sent."""
    old, publisher = checksums(wrong), wrong.builder.lake.publisher
    announce(publisher.storage, "left-over", Notice(title="its sender died before it was sent"))
    asked = {"target": FACT, "days": str(DAYS), "version": "v2", "expect": ["rows unchanged"]}
    page = launch(daemon, JOB, **asked, start=True, waves=str(WAVES))
    (kept,) = going(wrong.builder.lake.storage)
    at = campaign(wrong, plan_as_kept(wrong.settings, kept))
    (name,) = daemon.instance.get_dynamic_partitions(SENSOR)
    assert name == page_of(at.plan, PlanStanding.WAITING)
    assert daemon.until_it_waits() == f"{at.campaign}: it waits for approval"

    assert checksums(wrong) == old, "readers see nothing of it yet"
    assert "left-over" in delivered_keys(publisher)
    assert going(wrong.builder.lake.storage) == [at.plan.id]
    assert not daemon.instance.get_materialized_partitions(dg.AssetKey(FACT)), "staged is not published"
    assert [step for step in STEPS if step in at.state.done] == list(STEPS[:5])
    assert f"backfill approve {at.plan.id}" in letter_of(page)
    assert "approve_campaign" in page["to do"]

    cut = launch(daemon, APPROVE_JOB, plan=at.plan.id)
    assert " on " in cut["cost"] and "estimated" not in cut["cost"], "no campaign came before"
    assert "then its staging files are deleted" in daemon.until_it_waits()

    new = checksums(wrong)
    assert all(new[table] != old[table] for table in TABLES)
    publications = {state.publication for table in TABLES for state in wrong.states(table).values()}
    published = at.state.cut_over.publication
    assert published in publications
    prepared = publisher.log.find_prepared(published)
    assert prepared is not None and prepared[0].publication.notice is not None
    assert set(prepared[0].publication.notice.reports) == set(TABLES) - {FACT}
    told = daemon.instance.fetch_materializations(dg.AssetRecordsFilter(dg.AssetKey(FACT)), limit=100).records
    assert {str(r.asset_materialization.metadata["publication"].value) for r in told if r.asset_materialization} == {
        published
    }
    assert delivered_keys(publisher).count(published) == 1 and not due_notices(publisher)
    notices = daemon.instance.fetch_observations(dg.AssetKey("report_monthly_close"), limit=10).records
    assert len(notices) == 2, "before it began, and when it was published"
    assert not going(wrong.builder.lake.storage)
    assert [step for step in STEPS if step in at.state.done] == list(STEPS[:8])

    undone = launch(daemon, UNDO_JOB, plan=at.plan.id)
    assert checksums(wrong) == old
    assert undone["undoes"] == published
    bring_back = f"backfill rollback {undone['publication']}"
    assert [name for name, value in undone.items() if bring_back in str(value)] == ["to undo this undo"]
    newest = daemon.instance.get_latest_materialization_event(dg.AssetKey(FACT))
    assert newest is not None and newest.asset_materialization is not None
    assert newest.asset_materialization.metadata["publication"].value == undone["publication"]
    assert at.next().reason == "it was rolled back; run its plan again to stage it again"
    launch(daemon, JOB, plan=at.plan.id, start=True)
    assert at.next().reason == "it waits for approval", "it was staged again"


def test_a_canary_that_is_not_as_expected_or_beyond_a_limit_goes_no_further(wrong: Workshop) -> None:
    """What was seen is kept for people who look; nothing was published, and the rest was never computed."""
    old, at = checksums(wrong), campaign(wrong, planned(wrong, "everything unchanged"))
    decisions.start(at, Options(WAVES))
    with pytest.raises(CampaignStopped, match=r"wave 20 percent: .* not staged.* Not as expected: everything"):
        judge_wave(at, 0, stage_wave(at, 0))
    kept = last_difference(wrong.builder.lake.storage, at.plan.id)
    assert kept is not None and kept.unmet
    assert any("everything unchanged | not met" in message for message in wrong.messages)

    at = campaign(wrong, planned(wrong))
    decisions.start(at, Options(WAVES, Limits.parse("deviation=0.0001%")))
    with pytest.raises(CampaignStopped, match=r"wave 20 percent: .* differs by .* and at most 0.0001 % may"):
        judge_wave(at, 0, stage_wave(at, 0))
    assert at.next().reason.startswith("it was stopped: wave 20 percent"), "so the journal says"
    assert checksums(wrong) == old
    assert {day for step in at.staged.steps for day in step.staged} <= {date(2017, 3, 8), date(2017, 3, 9)}
    assert len(going(wrong.builder.lake.storage)) == 2, "its files are kept until a person has decided"
    decisions.give_up(at)
    assert "abandoned it" in at.next().reason
    assert not days_staged_in(wrong.builder.lake.storage, at.campaign, TABLES).overlay.days.get(FACT)
    decisions.start(at, Options(WAVES))
    assert at.next().step is CampaignStep.ANNOUNCE, "it can be taken up again"
