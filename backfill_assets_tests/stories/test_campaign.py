"""A campaign from its plan to its end, moved along by the sensor alone, and stopped by its breaker."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import dagster as dg
import pytest

from backfill_assets.campaign.breaker import Limits
from backfill_assets.campaign.run import CampaignRun, Options
from backfill_assets.campaign.steps import abandon
from backfill_assets.defs.campaigns.jobs import PLANNED, ROLLED_BACK, SENSOR, step_key
from backfill_assets.defs.location import code_location
from backfill_assets.defs.resources import EMBEDDED_SPARK
from backfill_assets.defs.specs import shadow_key
from backfill_assets.difference.find import last_difference
from backfill_assets.errors import CampaignStopped
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep
from backfill_assets.lakehouse.plans import keep_plan, open_plan_ids
from backfill_assets.lakehouse.records import Notice
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.keep import plan_as_kept
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.observe import observe_context
from backfill_assets.plan.records import Plan, PlanRequest
from backfill_assets.plan.waves import Shares
from backfill_assets.publication.outbox import announce, delivered_keys, due_notices
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.shadow import days_staged_in
from backfill_assets_tests.stories.dagster_chain import workshop_resources
from backfill_assets_tests.stories.dagster_daemon import DagsterDaemon
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, TABLES
from backfill_assets_tests.workshop import Workshop

WAVES = Shares.parse("20%,100%")


@pytest.fixture
def daemon(wrong: Workshop) -> Iterator[DagsterDaemon]:
    with ExitStack() as stack:
        instance = stack.enter_context(dg.instance_for_test())
        # Runs of one pool do not wait for each other, and in this process nothing else could do the work meanwhile.
        chain = code_location(CATALOG.datasets, workshop_resources(wrong), pool=EMBEDDED_SPARK)
        yield DagsterDaemon(chain, instance, SENSOR)


def planned(workshop: Workshop) -> Plan:
    asked = PlanRequest(target=FACT, days=str(DAYS), version="v2")
    plan = make_plan(asked, observe_context(workshop.settings, CATALOG, FACT, DAYS))
    keep_plan(workshop.builder.lake.storage, plan.id, plan.to_json())
    return plan


def campaign(workshop: Workshop, plan: Plan) -> CampaignRun:
    return CampaignRun(workshop.builder, plan, RunInfo("a-person", launched_by="ana"), workshop.messages.append)


def checksums(workshop: Workshop) -> dict[str, dict[date, str]]:
    return {
        table: {day: state.content.checksum for day, state in workshop.states(table).items() if state.content}
        for table in TABLES
    }


def done(daemon: DagsterDaemon, step: CampaignStep, name: str) -> bool:
    return name in daemon.instance.get_materialized_partitions(step_key(step))


def letter_of(daemon: DagsterDaemon) -> str:
    """The page that the step which compares links to."""
    validated = daemon.instance.get_latest_materialization_event(step_key(CampaignStep.VALIDATE))
    assert validated is not None and validated.asset_materialization is not None
    letter = validated.asset_materialization.metadata["letter"].value
    return Path(url2pathname(urlsplit(str(letter)).path)).read_text()


@pytest.mark.long
def test_the_daemon_stages_in_waves_waits_for_approval_and_cuts_over(
    wrong: Workshop, daemon: DagsterDaemon, tmp_path: Path
) -> None:
    """Every step is a materialized partition; main's days become materialized at the cut-over; one notice is sent."""
    old, publisher = checksums(wrong), wrong.builder.lake.publisher
    announce(publisher.storage, "left-over", Notice(title="its sender died before it was sent"))
    asked = {"target": FACT, "days": str(DAYS), "version": "v2", "expect": ["rows unchanged"]}
    plan = daemon.clicked(PLANNED, config={**asked, "start": True, "waves": str(WAVES)})
    at = campaign(wrong, plan_as_kept(wrong.settings, plan["plan"]))
    assert plan["campaign"] == at.campaign and f"{FACT} {DAYS} by v2" in plan["in full"]

    assert daemon.until_it_waits() == f"{at.campaign}: it waits for approval"

    assert checksums(wrong) == old, "readers see nothing of it yet"
    assert "left-over" in delivered_keys(publisher)
    assert open_plan_ids(wrong.builder.lake.storage) == [at.plan.id]
    titles = [backfill.title for backfill in daemon.instance.get_backfills()]
    waves = ["wave 100 percent", "wave 20 percent"]
    assert sorted(map(str, titles)) == [f"{FACT} {DAYS}: {wave} of {at.campaign}" for wave in waves]
    staged = daemon.instance.get_materialized_partitions(shadow_key(FACT))
    assert staged == {str(day) for day in DAYS}
    assert not daemon.instance.get_materialized_partitions(dg.AssetKey(FACT)), "staged is not published"
    assert [step for step in STEPS if done(daemon, step, at.campaign)] == list(STEPS[:5])
    assert f"backfill approve {at.plan.id}" in letter_of(daemon)

    cut = daemon.clicked(step_key(CampaignStep.CUT_OVER), at.campaign)
    assert cut["spent, seconds"] > 0 and cut["estimated"].endswith(" s")
    assert "is decommissioned then" in daemon.until_it_waits()

    new = checksums(wrong)
    assert all(new[table] != old[table] for table in TABLES)
    publications = {state.publication for table in TABLES for state in wrong.states(table).values()}
    published = str(at.state.done[CampaignStep.CUT_OVER].report["publication"])
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
    assert not open_plan_ids(wrong.builder.lake.storage)
    assert [step for step in STEPS if done(daemon, step, at.campaign)] == list(STEPS[:8])

    undone = daemon.clicked(ROLLED_BACK, at.campaign)
    assert checksums(wrong) == old
    assert (undone["undoes"], undone["days staged again"]) == (published, 0)
    bring_back = f"backfill rollback {undone['publication']}"
    assert [name for name, value in undone.items() if bring_back in str(value)] == ["to undo this undo"]
    newest = daemon.instance.get_latest_materialization_event(dg.AssetKey(FACT))
    assert newest is not None and newest.asset_materialization is not None
    assert newest.asset_materialization.metadata["publication"].value == undone["publication"]
    assert at.next().reason == "it was rolled back; run its plan again to stage it again"
    with pytest.raises(dg.Failure, match="is kept and does not change"):
        daemon.clicked(PLANNED, config={"plan": at.plan.id, "version": "v1", "start": True})
    daemon.clicked(PLANNED, config={"plan": at.plan.id, "start": True})
    assert at.next().wave == 0, "it is staged again"


def test_a_canary_that_is_not_as_expected_goes_no_further(wrong: Workshop) -> None:
    """What the plan expects is judged after each wave, and what was seen is kept for people who look."""
    old, asked = checksums(wrong), PlanRequest(target=FACT, days=str(DAYS), version="v2")
    plan = make_plan(
        asked, observe_context(wrong.settings, CATALOG, FACT, DAYS), (Expectation.parse("everything unchanged"),)
    )
    keep_plan(wrong.builder.lake.storage, plan.id, plan.to_json())
    at = campaign(wrong, plan)
    at.start(Options(WAVES))
    with pytest.raises(CampaignStopped, match=r"wave 20 percent: .* not staged.* Not as expected: everything"):
        at.judge_wave(0, at.stage_wave(0))
    kept = last_difference(wrong.builder.lake.storage, plan.id)
    assert kept is not None and kept.unmet
    assert any(message.startswith(f"## Difference of {plan.id}") for message in wrong.messages)
    assert checksums(wrong) == old


def test_a_breaker_stops_a_campaign_after_its_canary(wrong: Workshop) -> None:
    """The journal says which limit and by how much; nothing was published, and the rest was never computed."""
    old, plan = checksums(wrong), planned(wrong)
    at = campaign(wrong, plan)
    at.start(Options(WAVES, Limits.parse("deviation=0.0001%")))
    with pytest.raises(CampaignStopped, match=r"wave 20 percent: .* differs by .* and at most 0.0001 % may"):
        at.judge_wave(0, at.stage_wave(0))
    assert at.next().reason.startswith("it was stopped: wave 20 percent")
    assert checksums(wrong) == old
    assert {day for step in at.shadowed for day in step.staged} <= {date(2017, 3, 8), date(2017, 3, 9)}
    assert open_plan_ids(wrong.builder.lake.storage) == []
    abandon(at)
    assert "abandoned it" in at.next().reason
    assert not days_staged_in(wrong.builder.lake.storage, at.campaign, TABLES).overlay.days.get(FACT)
    at.start(Options(WAVES))
    assert at.next().step is CampaignStep.ANNOUNCE, "it can be taken up again"
